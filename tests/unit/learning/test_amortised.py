"""Amortised particle methods: forces, a posterior in closed form, faults."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import slicestein as ss
from slicestein._stein import bandwidths
from slicestein.learning import amortised_sliced_svgd, amortised_svgd
from slicestein.learning._amortised import sliced_force
from slicestein.samplers._sliced_svgd import force as sampler_force
from slicestein.samplers._svgd import force as full_force
from tests.rounding import central_difference, rounding
from tests.unit import standard_input


def normal(*shape, seed=0):
    """Standard normal variables of JAX."""
    return jnp.asarray(standard_input.normal(*shape, seed=seed))


METHODS = (amortised_svgd, amortised_sliced_svgd)
KERNELS = (ss.RBF(0.8), ss.RBF(scale=0.35), ss.IMQ(1.3))
Z, S = normal(4, 20 * 3).reshape(4, 20, 3), normal(4, 20 * 3).reshape(4, 20, 3)[:, ::-1]


def as_given(params, x, key):
    """An encoder whose parameters are the samples."""
    return params


def directions(dim):
    g = np.eye(dim) + 0.3 * normal(dim, dim)
    return jnp.asarray(g / np.linalg.norm(g, axis=1, keepdims=True))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("count", [5, 20])
def test_every_data_point_has_the_force_of_the_sampler(kernel, count):
    g, z, s = directions(3), jnp.asarray(Z[:, :count]), jnp.asarray(S[:, :count])
    force, discrepancy, _ = sliced_force(z, s, g, kernel)
    for b in range(4):
        expected = sampler_force(z[b], s[b], g, bandwidths.on_lines(kernel, g @ z[b].T), kernel)
        np.testing.assert_allclose(force[b], expected.total, rtol=rounding(30, 1e-7), atol=rounding(30, 1e-9))
        np.testing.assert_allclose(discrepancy[b], expected.discrepancy, rtol=rounding(30, 1e-7))


@pytest.mark.parametrize("kernel", [ss.RBF(0.8), ss.IMQ(1.3)])
def test_the_gradient_in_the_directions_is_that_of_the_mean_discrepancy(kernel):
    g = directions(3)

    def mean_discrepancy(g):  # the median is no function of g here: the bandwidth is a number
        return np.mean(
            [ss.sksd(z, s, ss.Slices(jnp.eye(3), g), kernel=kernel, statistic="v") for z, s in zip(Z, S, strict=True)]
        )

    gradient = sliced_force(jnp.asarray(Z), jnp.asarray(S), g, kernel)[2]
    step, rtol = central_difference(1e-4, 1e-4)
    for seed in range(3):
        turn = normal(3, 3, seed=seed)
        turn = step * (turn - np.sum(turn * g, axis=1, keepdims=True) * g)  # along the sphere: Slices normalises
        slope = (mean_discrepancy(g + turn) - mean_discrepancy(g - turn)) / 2
        np.testing.assert_allclose(np.sum(gradient * turn), slope, rtol=rtol, atol=rounding(10) * mean_discrepancy(g))


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_dimension_is_svgd(kernel):
    z, score = jnp.asarray(Z[..., :1]), lambda z, x: -(z**3)
    moved = []
    for method in METHODS:
        algorithm = method(as_given, score, optax.sgd(0.1), kernel=kernel)
        moved.append(algorithm.step(algorithm.init(z, None), None, 0)[2])
    np.testing.assert_allclose(moved[1], moved[0], rtol=rounding(30, 1e-7), atol=rounding(30, 1e-9))


def test_the_encoder_descends_the_squared_distance_to_the_moved_samples():
    encode = lambda params, x, key: params * x
    score = lambda z, x, scale: -scale * z
    method = amortised_svgd(encode, score, optax.sgd(1.0), step_size=0.2)
    x, params = jnp.asarray(Z), jnp.array([1.0, 2.0, 3.0])
    state, info, moved = method.step(method.init(params, x), x, 0, 0.7)
    expected = [z + 0.2 * full_force(z, -0.7 * z, ss.RBF()).total for z in params * x]
    np.testing.assert_allclose(moved, expected, rtol=rounding(30, 1e-6), atol=rounding(30, 1e-9))
    loss = lambda params: jnp.mean(jnp.sum((params * x - moved) ** 2, axis=2))
    np.testing.assert_allclose(info.loss, loss(params), rtol=rounding(30, 1e-9))
    np.testing.assert_allclose(state.params, params - jax.grad(loss)(params), rtol=rounding(30, 1e-7))


def test_directions_climb_and_keep_their_length():
    mixing = jnp.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    score = lambda z, x: -z @ jnp.linalg.inv(mixing)
    method = amortised_sliced_svgd(as_given, score, optax.sgd(0.0), slice_optimizer=optax.adam(0.01))
    state, values = method.init(jnp.asarray(Z), None), []
    np.testing.assert_array_equal(state.slices.g, np.eye(3))
    for _ in range(50):
        state, info, _ = method.step(state, None, 0)
        values.append(info.discrepancy)
    assert values[-1] > 1.05 * values[0]
    np.testing.assert_allclose(jnp.linalg.norm(state.slices.g, axis=1), 1, rtol=rounding(4, 1e-12))


@pytest.mark.parametrize("method", METHODS)
def test_a_linear_gaussian_posterior(method):
    # z ~ N(0, I), x | z ~ N(A z, v I): the posterior is N(M x, C), and an encoder that is linear in (x, noise) fits it.
    dim, variance = 2, 0.5
    mixing = jnp.array([[1.0, -0.3], [0.5, 0.8], [-0.4, 0.25]])  # orthogonal columns: independent coordinates
    covariance = jnp.linalg.inv(jnp.eye(dim) + mixing.T @ mixing / variance)
    to_mean = covariance @ mixing.T / variance

    def encode(params, x, key):
        noise = jax.random.normal(key, (len(x), 50, dim))
        return (x @ params["mean"].T)[:, None] + noise @ params["root"].T

    score = lambda z, x: (x[:, None] - z @ mixing.T) @ mixing / variance - z
    algorithm = method(encode, score, optax.adam(optax.cosine_decay_schedule(0.05, 600)), step_size=0.1)
    params = {"mean": jnp.zeros((dim, 3)), "root": 0.1 * jnp.eye(dim)}

    def update(state, key):
        data_key, encoder_key = jax.random.split(key)
        latent, noise = jnp.split(jax.random.normal(data_key, (32, dim + 3)), [dim], axis=1)
        state, info, _ = algorithm.step(state, latent @ mixing.T + np.sqrt(variance) * noise, encoder_key)
        return state, info

    state = algorithm.init(params, jnp.zeros((32, 3)))
    state, info = jax.jit(lambda s, k: jax.lax.scan(update, s, k))(state, jax.random.split(jax.random.key(0), 600))
    np.testing.assert_allclose(state.params["mean"], to_mean, atol=0.03)
    root = state.params["root"]
    # Fifty particles: variances a little small, as those of SVGD itself.
    np.testing.assert_allclose(jnp.diag(root @ root.T), jnp.diag(covariance), rtol=0.2)
    assert info.discrepancy[-50:].mean() < 0.1 * info.discrepancy[:5].mean()


@pytest.mark.parametrize("method", METHODS)
def test_faults_are_named(method):
    optimizer, score = optax.sgd(0.1), lambda z, x: -z
    with pytest.raises(ValueError, match="step_size must be positive, got -1"):
        method(as_given, score, optimizer, step_size=-1)
    algorithm = method(as_given, score, optimizer)
    for shape in ((5, 3), (4, 1, 3)):
        with pytest.raises(ValueError, match=r"sample_fn.* must return shape \(B, K, D\)"):
            algorithm.init(jnp.zeros(shape), None)
    wrong = method(as_given, lambda z, x: z[..., :1], optimizer)
    with pytest.raises(
        ValueError, match=r"score_fn\(z, x\) must return the shape of z, \(4, 20, 3\), got \(4, 20, 1\)"
    ):
        wrong.step(wrong.init(jnp.asarray(Z), None), None, 0)
    with pytest.raises(ValueError, match="key must be an int seed"):
        algorithm.step(algorithm.init(jnp.asarray(Z), None), None, "seed")
