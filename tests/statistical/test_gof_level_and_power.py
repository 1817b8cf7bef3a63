"""The level and the power of the tests, by repetition; bounds are binomial."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import slicestein as ss
from slicestein._stein import exact
from slicestein._stein.sliced import problem
from slicestein.gof import dependence, null
from slicestein.kernels import RBF

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def pvalues(draw, trials, **options):
    return np.array(
        [
            ss.gof_test(*draw(np.random.default_rng([1, seed])), key=seed, num_bootstrap=200, **options).pvalue
            for seed in range(trials)
        ]
    )


def gaussian(rng, n=300, d=8):
    x = rng.standard_normal((n, d))
    return x, -x


def within_binomial_bounds(rejections, level=0.05, confidence=0.999):
    low, high = scipy.stats.binom.interval(confidence, len(rejections), level)
    return low <= np.sum(rejections) <= high


@pytest.mark.parametrize(("method", "bootstrap"), [("maxsksd-g", "multinomial"), ("maxsksd-rg", "wild")])
def test_pvalues_are_uniform_under_the_model(method, bootstrap):
    p = pvalues(gaussian, 100, method=method, bootstrap=bootstrap)
    assert within_binomial_bounds(p <= 0.05)
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.001


def test_eigenvalues_give_the_same_level():
    p = pvalues(gaussian, 60, bootstrap="eigenvalues")
    assert within_binomial_bounds(p <= 0.05)


@pytest.mark.parametrize("method", ["maxsksd-g", "maxsksd-rg"])
@pytest.mark.parametrize("problem", ["laplace", "diffusion"])
def test_power_in_fifty_dimensions(method, problem):
    def draw(rng):
        x = rng.standard_normal((1000, 50))
        if problem == "laplace":
            x = rng.laplace(scale=np.sqrt(0.5), size=(1000, 50))
        else:
            x[:, 0] *= np.sqrt(0.3)
        return x, -x

    assert np.all(pvalues(draw, 5, method=method) <= 0.05)


def test_dependent_bootstrap_on_a_chain_and_the_independent_one():
    """AR(1) with coefficient 0.8 that targets the model: the wild bootstrap rejects far too often."""
    trials, n, d = 200, 1000, 2
    slices = ss.Slices.basis(d)

    def one(key):
        noise_key, start_key, first, second = jax.random.split(key, 4)
        noise = 0.6 * jax.random.normal(noise_key, (n, d))
        start = jax.random.normal(start_key, (d,))
        _, x = jax.lax.scan(lambda z, e: (0.8 * z + e,) * 2, start, noise)
        h = exact.matrix(problem(x, -x, slices.r, slices.g, RBF()).projected, RBF())
        flip = dependence.flip_probability(x)
        return (
            null.bootstrap_test(h, key=first, kind="dependent", num_draws=200, flip_probability=flip).pvalue,
            null.bootstrap_test(h, key=second, kind="rademacher", num_draws=200).pvalue,
        )

    dependent, wild = jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(0), trials))
    assert 0.01 <= np.mean(np.asarray(dependent) <= 0.05) <= 0.11  # 0.03 to 0.08 widened by three standard errors
    assert np.mean(np.asarray(wild) <= 0.05) > 0.25
    assert jnp.all(dependent > 0)
