"""Annealed importance sampling: check values, and a decoder whose likelihood is known."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from experiments import hais

X, NOISE = 0.8, 0.25  # z ~ N(0, 1), x | z ~ N(z, 0.25)


def log_likelihood(z, x):
    return -0.5 * ((x - z[..., 0]) ** 2 / NOISE + np.log(2 * np.pi * NOISE))


def test_the_schedule_has_the_check_values():
    expected = [0, 0.06761890207, 0.3029366742, 0.6970633258, 0.9323810979, 1]
    np.testing.assert_allclose(hais.schedule(6), expected, rtol=1e-9, atol=1e-15)


def test_leapfrog_has_the_check_values():
    flow = lambda z: (log_likelihood(z[None], X), (X - z) / NOISE)
    z, v = jnp.array(0.3), jnp.array(-0.2)
    z, v, likelihood, slope = hais.leapfrog(flow, 0.6, z, v, flow(z)[1], 0.15, 10)
    np.testing.assert_allclose([z, v], [0.7725199953, 0.3600728549], rtol=1e-9)
    np.testing.assert_allclose([likelihood, slope], flow(z))


def test_chains_that_never_move_give_the_mean_likelihood():
    z = jnp.asarray(np.random.default_rng(13).standard_normal((1, 16, 1)))
    steps = jnp.full(7, 1e3)  # every proposal is rejected
    betas = jnp.asarray(hais.schedule(8))
    log_w, rates, _ = hais.anneal(lambda z: log_likelihood(z, X), z, jax.random.key(0), betas, steps, 3, False)
    np.testing.assert_allclose(np.logaddexp.reduce(log_w[0]) - np.log(16), -1.048834196, rtol=1e-9)
    assert rates.max() == 0


def test_a_linear_gaussian_decoder_within_a_tenth_of_a_nat():
    # x | z ~ N(A z + b, v I) with z ~ N(0, I): p(x) = N(b, A A^T + v I).
    rng = np.random.default_rng(0)
    dim, pixels, variance, count = 6, 20, 0.5, 12
    mixing, shift = 0.5 * rng.standard_normal((dim, pixels)), rng.standard_normal(pixels)
    exact = stats.multivariate_normal(shift, mixing.T @ mixing + variance * np.eye(pixels))
    x = exact.rvs(count, random_state=1)

    def likelihood(z, x, mixing, shift):
        error = x[:, None] - z @ mixing - shift
        return -0.5 * (jnp.sum(error**2, axis=-1) / variance + pixels * np.log(2 * np.pi * variance))

    arguments = tuple(jnp.asarray(a, jnp.float32) for a in (mixing, shift))
    settings = {"chains": 16, "temperatures": 400, "leapfrogs": 10, "batch": 8}  # 12 images: batches overlap
    x = x.astype(np.float32)
    found, acceptance, deviation = hais.log_marginal(likelihood, arguments, x, dim, key=jax.random.key(1), **settings)
    np.testing.assert_allclose(found.mean(), exact.logpdf(x).mean(), atol=0.1)
    assert 0.5 < acceptance < 0.8
    assert deviation < 1
