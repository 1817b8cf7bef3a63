"""Forces of particle methods: check values, laws, and that nothing is promoted in silence."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import slicestein as ss
from slicestein._stein import engine
from slicestein.samplers._bandwidth_rules import with_rule
from slicestein.samplers._grassmann_svgd import _in_subspace
from slicestein.samplers._sliced_svgd import force
from slicestein.samplers._svgd import force as full_force
from tests.rounding import rounding
from tests.unit import standard_input

pytestmark = pytest.mark.usefixtures("strict")
X, S = jnp.asarray(standard_input.X), jnp.asarray(standard_input.S)
ROTATION = jnp.asarray(np.linalg.qr(np.random.default_rng(5).standard_normal((6, 6)))[0])


def normal(*shape, seed=0):
    """Standard normal variables of JAX."""
    return jnp.asarray(standard_input.normal(*shape, seed=seed))


def sliced_force(x, s, g, kernel):
    return force(x, s, g, jnp.full(g.shape[0], kernel.bandwidth), kernel)


PUBLISHED = [0.07179962752, -0.01861778269, 0.3612473322]  # force on the first particle
MEDIAN_SQUARE = 4.748454400  # of the squared distances of X


@pytest.mark.parametrize(
    ("variance", "expected"),
    [
        (MEDIAN_SQUARE / (2 * np.log(20)), PUBLISHED),
        (0.7127648544, [0.06868466443, -0.01375858316, 0.3347960663]),
        (MEDIAN_SQUARE, [0.2075440590, -0.2183523570, 0.6897385194]),
    ],
)
def test_svgd_has_the_check_values(variance, expected):
    np.testing.assert_allclose(full_force(X, S, ss.RBF(np.sqrt(variance))).total[0], expected, rtol=rounding(100, 1e-8))


def test_the_published_bandwidth_rule():
    kernel = with_rule(ss.RBF(), "median/log n", 20)
    np.testing.assert_allclose(full_force(X, S, kernel).total[0], PUBLISHED, rtol=rounding(100, 1e-5))


def test_sliced_svgd_has_the_check_values():
    g = np.random.default_rng(99).standard_normal((3, 3))
    g = jnp.asarray(g / np.linalg.norm(g, axis=1, keepdims=True))
    found = sliced_force(X, S, g, ss.RBF(1.0))
    np.testing.assert_allclose(found.total[0], [0.2341732557, -0.09980249061, 0.9557821325], rtol=rounding(100, 1e-8))


def test_grassmann_svgd_has_the_check_values():
    projector = jnp.asarray(np.linalg.qr(np.random.default_rng(31).standard_normal((3, 2)))[0])
    found = _in_subspace(X, S, projector, ss.RBF(np.sqrt(0.9824690787 / 2)))
    rtol = rounding(100, 1e-7)
    np.testing.assert_allclose((found.total @ projector.T)[0], [-0.09506878724, 0.02119904256, 0.3536394549], rtol=rtol)
    np.testing.assert_allclose(found.discrepancy, 0.8611639561, rtol=rtol)


@pytest.mark.parametrize("kernel", [ss.RBF(0.7), ss.IMQ(1.3), ss.Matern(1.0)])
def test_discrepancies_are_those_of_the_package(kernel):
    expected = ss.ksd(X, S, kernel=kernel, statistic="v")
    np.testing.assert_allclose(full_force(X, S, kernel).discrepancy, expected, rtol=rounding(100, 1e-9))
    slices = ss.Slices(np.eye(3), normal(3, 3))
    found, expected = sliced_force(X, S, slices.g, kernel), ss.sksd(X, S, slices, kernel=kernel, statistic="v")
    np.testing.assert_allclose(found.discrepancy, expected, rtol=rounding(100, 1e-8))


@pytest.mark.parametrize("kernel", [ss.RBF(0.7), ss.IMQ(1.3)])
@pytest.mark.parametrize("count", [engine.FORCES_FOURIER_FROM - 1, engine.FORCES_FOURIER_FROM])
def test_one_dimension_is_svgd(kernel, count, monkeypatch):
    """By all pairs for few particles, and for the Gaussian by Fourier sums for many."""
    sums = []
    by_fourier = engine._fourier_gradient
    monkeypatch.setattr(engine, "_fourier_gradient", lambda *args: sums.append(args) or by_fourier(*args))
    x = normal(count, 1)
    one, other = full_force(x, -(x**3), kernel), sliced_force(x, -(x**3), jnp.ones((1, 1)), kernel)
    assert bool(sums) == (count >= 128 and isinstance(kernel, ss.RBF))
    close = {"rtol": rounding(100, 1e-7), "atol": rounding(100, 1e-9)}
    np.testing.assert_allclose(other.total, one.total, **close)
    np.testing.assert_allclose(other.repulsive, one.repulsive, **close)
    np.testing.assert_allclose(other.discrepancy, one.discrepancy, rtol=rounding(100, 1e-7))


def test_many_particles_in_blocks(monkeypatch):
    whole = full_force(X, S, ss.RBF(1.0))
    monkeypatch.setattr("slicestein._stein.tiles.BLOCK_BYTES", 2000)
    for one, other in zip(whole, full_force(X, S, ss.RBF(1.0)), strict=True):
        np.testing.assert_allclose(other, one, rtol=rounding(30, 1e-10), atol=rounding(30, 1e-12))


@pytest.mark.parametrize("method", ["full", "sliced"])
def test_kl_falls_at_the_rate_of_the_discrepancy(method):
    """KL of the moved particles' law, by change of variables: a small step lowers it by epsilon times V."""
    epsilon, count, dim = 1e-4, 200, 3
    x = 0.7 * normal(count, dim) + 0.4
    kernel, g = ss.RBF(1.0), ss.Slices.random(3, dim, dim).g
    score = lambda z: -z

    def force_at(point):
        """Force of the particles on one more point: a particle of weight zero."""
        if method == "sliced":
            lines, at = ss.Slices(jnp.eye(dim), g), (g @ point)[None]
            return ss.witness(x, score, lines, at, kernel=kernel, engine="exact")[0]
        weight = jnp.exp(-0.5 * jnp.sum((x - point[None]) ** 2, axis=1))
        return jnp.mean(weight[:, None] * (score(x) - (x - point[None])), axis=0)

    def change_of_kl(point):
        move = force_at(point)
        stretch = jnp.linalg.slogdet(jnp.eye(dim) + epsilon * jax.jacfwd(force_at)(point))[1]
        log_p = lambda z: -0.5 * jnp.sum(z**2)
        return log_p(point) - log_p(point + epsilon * move) - stretch

    fall = -np.mean(jax.lax.map(change_of_kl, x))
    found = sliced_force(x, -x, g, kernel) if method == "sliced" else full_force(x, -x, kernel)
    np.testing.assert_allclose(fall / epsilon, found.discrepancy, rtol=1e-3)
    np.testing.assert_allclose(found.total[5], force_at(x[5]), rtol=1e-6)


def test_the_force_is_the_mean_over_bases():
    """Along a turned basis it is the force on turned particles, turned back."""
    x, s, widths = normal(20, 6), normal(20, 6) ** 3, jnp.full(6, 0.8)
    g = ROTATION + 0.1 * normal(6, 6)
    axes = force(x, s, jnp.eye(6), widths, ss.RBF())
    turned = force(x @ ROTATION.T, s @ ROTATION.T, g @ ROTATION.T, widths, ss.RBF())
    r = jnp.concatenate([jnp.eye(6), ROTATION])
    both = force(x, s, jnp.concatenate([jnp.eye(6), g]), jnp.tile(widths, 2), ss.RBF(), r=r)
    close = {"rtol": rounding(30, 1e-8), "atol": rounding(100, 1e-12)}
    np.testing.assert_allclose(both.total, (axes.total + turned.total @ ROTATION) / 2, **close)
    np.testing.assert_allclose(both.repulsive, (axes.repulsive + turned.repulsive @ ROTATION) / 2, **close)
    mean = (axes.discrepancy + turned.discrepancy) / 2
    np.testing.assert_allclose(both.discrepancy, mean, rtol=rounding(100, 1e-10))


SGD = optax.sgd(0.05)  # Adam of optax raises a float to an integer
METHODS = {
    "svgd": lambda score: ss.svgd(score, SGD),
    "sliced": lambda score: ss.sliced_svgd(score, SGD, slice_optimizer=SGD, refresh_every=1),
    "grassmann": lambda score: ss.grassmann_svgd(score, SGD, key=0),
    "noisy": lambda score: ss.noisy_svgd(score, 0.1, key=0),
}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_promotes_nothing(name, dtype):
    x = normal(40, 4).astype(jax.dtypes.canonicalize_dtype(dtype))
    method = METHODS[name](lambda x: -x)
    state, info = method.step(method.init(x))
    assert state.particles.dtype == info.discrepancy.dtype == x.dtype
