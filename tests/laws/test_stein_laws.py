"""Identities that hold for any data, or in expectation under the model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import slicestein as ss
from slicestein._stein.operator import Projected, pair_kernel
from tests.kernels import KERNELS

pytestmark = pytest.mark.usefixtures("precision", "strict")


def data(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_derivatives_are_those_of_autodiff(kernel, precision):
    for d in (0.3, 1.0, 2.5):
        k, k1, k2 = kernel.derivatives(jnp.asarray(d**2))
        profile = lambda d: kernel.derivatives(d**2)[0]
        np.testing.assert_allclose(k1 * d, jax.grad(profile)(d), rtol=100 * precision.eps)
        np.testing.assert_allclose(k2, jax.grad(jax.grad(profile))(d), rtol=100 * precision.eps)
    k, _, k2 = kernel.derivatives(jnp.asarray(0.0))
    np.testing.assert_allclose(k, 1, rtol=4 * precision.eps)
    np.testing.assert_allclose(k2, kernel.derivatives(jnp.asarray(1e-10))[2], rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_numpy_gives_numpy(kernel, precision):
    """In the precision of the distances, and the same numbers."""
    q = np.linspace(0, 5, 20, dtype=precision.dtype)
    for one, other in zip(kernel.derivatives(q), kernel.derivatives(jnp.asarray(q)), strict=True):
        assert isinstance(one, np.ndarray)
        assert one.dtype == other.dtype == precision.dtype
        np.testing.assert_allclose(one, other, rtol=4 * precision.eps, atol=4 * precision.eps)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("statistic", ["u", "v"])
def test_one_dimension_is_plain_ksd(kernel, statistic, precision):
    x, s = data(d=1)
    sliced = ss.sksd(x, s, ss.Slices.basis(1), kernel=kernel, statistic=statistic)
    np.testing.assert_allclose(sliced, ss.ksd(x, s, kernel=kernel, statistic=statistic), rtol=precision.eps**0.5)


def test_rotating_everything_changes_nothing(precision):
    x, s = data()
    slices = ss.Slices.random(1, 6, 4)
    rotation = scipy.stats.ortho_group.rvs(4, random_state=2)
    turned = ss.Slices(slices.r @ rotation, slices.g @ rotation)
    one, other = ss.sksd(x, s, slices, per_slice=True), ss.sksd(x @ rotation, s @ rotation, turned, per_slice=True)
    np.testing.assert_allclose(other, one, rtol=precision.eps**0.5)
    np.testing.assert_allclose(ss.ksd(x @ rotation, s @ rotation), ss.ksd(x, s), rtol=precision.eps**0.5)


def test_signs_and_units_of_a_slice_do_not_matter(precision):
    x, s = data()
    slices = ss.Slices.random(1, 6, 4)
    flipped = ss.Slices(-3 * slices.r, -slices.g)
    np.testing.assert_allclose(ss.sksd(x, s, flipped), ss.sksd(x, s, slices), rtol=precision.eps**0.5)
    # x -> 10 x, s -> s / 10 leaves the median rule in units of the data: V scales as the score squared.
    np.testing.assert_allclose(ss.sksd(10 * x, s / 10, slices), ss.sksd(x, s, slices) / 100, rtol=precision.eps**0.5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_v_is_a_squared_norm(kernel, precision):
    x, s = data(n=30)
    slices = ss.Slices.random(3, 5, 4)
    v = ss.sksd(x, s, slices, kernel=kernel, statistic="v", engine="exact", per_slice=True)
    assert jnp.all(v > 0)
    # ... of a positive semi-definite kernel
    one = Projected(*(jnp.asarray(z) for z in (x[:, 0], s[:, 0], np.ones(30))))
    matrix = pair_kernel(kernel, *(jax.tree.map(lambda z, axis=axis: jnp.expand_dims(z, axis), one) for axis in (1, 0)))
    assert np.linalg.eigvalsh(matrix).min() > -100 * precision.eps * np.trace(matrix)


@pytest.mark.parametrize("kernel", [ss.RBF(1.0), ss.IMQ(1.0), ss.Matern(1.0)], ids=repr)
def test_the_model_itself_has_discrepancy_zero(kernel, precision):
    """Quadrature over p x p at one slice: E h = 0 to the accuracy of the rule, no simulation."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    # p = N(0, diag(1, 4)), r = (1, 0), g = (0.6, 0.8): integrate over x1 and x2.
    x1, x2 = np.meshgrid(nodes, 2 * nodes, indexing="ij")
    joint = np.outer(weights, weights).ravel()
    one = Projected(jnp.asarray(0.6 * x1 + 0.8 * x2).ravel(), jnp.asarray(-x1).ravel(), jnp.asarray(0.6))
    embedding = jax.lax.map(
        lambda u: jnp.sum(joint * pair_kernel(kernel, one, Projected(u, jnp.asarray(0.0), jnp.asarray(1.0)))),
        jnp.linspace(-3.0, 3.0, 7),
    )
    smooth = not isinstance(kernel, ss.Matern)
    np.testing.assert_allclose(embedding, 0, atol=max(1e-6, 100 * precision.eps) if smooth else 5e-3)


@pytest.mark.statistical
def test_u_is_unbiased_under_the_model():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((400, 50, 3))
    slices = ss.Slices.random(5, 4, 3)
    values = jax.vmap(lambda x: ss.sksd(x, -x, slices, kernel=ss.RBF(1.0)))(jnp.asarray(x))
    assert abs(values.mean()) < 4 * values.std() / 20


@pytest.mark.parametrize("engine", ["exact", "fourier"])
def test_witness_reproduces_the_discrepancy(engine, precision):
    """V = mean of a w(t) + c w'(t): the norm of the embedding, from its own values."""
    x, s = data(n=80)
    slices = ss.Slices.random(6, 3, 4)
    kernel = ss.RBF(0.9)
    t = jnp.asarray(x) @ slices.g.T
    at = lambda t: ss.witness(x, s, slices, t, kernel=kernel, engine=engine)
    step = precision.eps ** (1 / 3)  # rounding and curvature cost the same
    slope = (at(t + step) - at(t - step)) / (2 * step)
    a, c = jnp.asarray(s) @ slices.r.T, jnp.sum(slices.r * slices.g, axis=1)
    v = jnp.mean(a * at(t) + c[None] * slope, axis=0)
    np.testing.assert_allclose(
        v, ss.sksd(x, s, slices, kernel=kernel, statistic="v", engine="exact", per_slice=True), rtol=50 * step**2
    )


def test_random_directions_estimate_the_integral():
    """In two dimensions the integral over g is an integral over an angle."""
    x, s = data(n=40, d=2)
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    kernel = ss.RBF(1.0)
    exact = sum(
        ss.sksd(x, s, ss.Slices(np.tile(np.eye(2)[d], (400, 1)), circle), kernel=kernel) / 400 for d in range(2)
    )
    draws = jnp.stack([ss.integrated_sksd(x, s, key=k, num_directions=200, kernel=kernel) for k in range(20)])
    assert draws.std() > 0
    assert abs(draws.mean() - exact) < 4 * draws.std() / np.sqrt(20)


def test_ssd_estimates_the_score_difference():
    """p = N(0, 1), q = N(1, 1/4): s_p - s_q = -t + 4 (t - 1), and the value is its norm under q."""
    x = 1 + 0.5 * np.random.default_rng(7).standard_normal((100_000, 1))
    result = ss.ssd(x, -x, ss.Slices.basis(1))
    t = np.linspace(0.2, 1.8, 9)
    np.testing.assert_allclose(result.score_difference(t)[:, 0], 3 * t - 4, atol=0.15)
    np.testing.assert_allclose(result.value, np.sqrt(np.mean((3 * x - 4) ** 2)), rtol=0.02)


def test_ssd_is_at_least_the_value_of_any_function_in_its_span(precision):
    x, s = data(n=500, d=3)
    slices = ss.Slices.random(8, 1, 3)
    r, g = (np.asarray(rows[0], float) for rows in (slices.r, slices.g))
    t, a, c = x @ g, s @ r, r @ g
    best = float(ss.ssd(x, s, slices).value)
    # Cubic polynomials are cubic splines; the supremum over them is a solve of their own moments.
    basis, slope = np.stack([t**k for k in range(4)]), np.stack([k * t ** max(k - 1, 0) for k in range(4)])
    b, gram = (a * basis + c * slope).mean(1), basis @ basis.T / len(t)
    cubic = np.sqrt(b @ np.linalg.solve(gram, b))
    assert cubic <= best * (1 + precision.eps**0.5)
    np.testing.assert_allclose(cubic, float(ss.ssd(x, s, slices, num_basis=4).value), rtol=precision.eps**0.5)
