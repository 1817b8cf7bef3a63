"""Fourier = tiled = double loop, in value and in gradient, whatever the data look like."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicestein as ss
from slicestein._stein import compiled as _compiled
from slicestein._stein import engine as engines
from slicestein._stein import exact, fourier
from slicestein._stein.operator import Projected
from tests import reference
from tests.kernels import WITH_SPECTRUM, TwoScales


def gaussian(rng, n, d):
    return rng.standard_normal((n, d))


def laplace(rng, n, d):
    return rng.laplace(size=(n, d))


def student(rng, n, d):
    return rng.standard_t(5, size=(n, d))


def bimodal(rng, n, d):
    return rng.standard_normal((n, d)) + 5 * rng.choice([-1.0, 1.0], size=(n, 1))


def duplicated(rng, n, d):
    return np.repeat(rng.standard_normal((n // 2, d)), 2, axis=0)


def outlier(rng, n, d):
    x = rng.standard_normal((n, d))
    x[n // 3] += 1000.0
    return x


def cauchy(rng, n, d):
    return rng.standard_cauchy(size=(n, d))


pytestmark = pytest.mark.usefixtures("precision", "strict")
DATA = [gaussian, laplace, student, bimodal, duplicated, outlier, cauchy]
MODEL_SCALE = 1.3


def problem(make, n, d, num_slices=None):
    rng = np.random.default_rng(1)
    x = jnp.asarray(make(rng, n, d))
    return x, -x / MODEL_SCALE, ss.Slices.random(2, num_slices or min(d, 8), d)


@pytest.mark.parametrize("dim", [1, 10, 100])
@pytest.mark.parametrize("make", DATA, ids=lambda f: f.__name__)
def test_fourier_is_exact(make, dim, precision):
    x, s, slices = problem(make, 300, dim)
    v = ss.sksd(x, s, slices, statistic="v", engine="exact", per_slice=True)
    for statistic in ("u", "v"):
        one, other = (
            ss.sksd(x, s, slices, statistic=statistic, engine=engine, per_slice=True) for engine in ("exact", "fourier")
        )
        assert one.dtype == other.dtype == precision.dtype
        assert jnp.max(jnp.abs(one - other) / v) < precision.eps**0.5

    def loss(slices, engine):
        return ss.sksd(x, s, ss.Slices(slices.r, slices.g), statistic="v", engine=engine)

    one, other = (jax.grad(loss)(slices, engine) for engine in ("exact", "fourier"))
    for a, b in ((one.r, other.r), (one.g, other.g)):
        # In one dimension the direction cannot move: the gradient is zero up to rounding of V.
        assert jnp.linalg.norm(a - b) < precision.eps**0.5 * max(jnp.linalg.norm(a), v.sum())


@pytest.mark.parametrize("kernel", WITH_SPECTRUM, ids=repr)
def test_every_spectrum_serves_values_gradients_and_witnesses(kernel, precision):
    x, s, slices = problem(student, 200, 4)
    t = np.linspace(-6, 6, 11)

    def results(engine):
        value = lambda g: ss.sksd(x, s, ss.Slices(slices.r, g), kernel=kernel, engine=engine, statistic="v")
        return value(slices.g), jax.grad(value)(slices.g), ss.witness(x, s, slices, t, kernel=kernel, engine=engine)

    for one, other in zip(results("exact"), results("fourier"), strict=True):
        np.testing.assert_allclose(one, other, atol=precision.eps**0.5 * float(jnp.abs(one).max()))


@settings(deadline=None, max_examples=8)
@given(
    n=st.integers(2, 12),
    d=st.integers(1, 4),
    m=st.integers(1, 3),
    seed=st.integers(0, 2**31),
    h=st.floats(0.01, 30.0),
    scale=st.sampled_from([1e-3, 1.0, 100.0]),
)
def test_both_engines_are_the_double_loop(precision, n, d, m, seed, h, scale):
    rng = np.random.default_rng(seed)
    x, s = scale * rng.standard_normal((n, d)), rng.standard_normal((n, d))
    slices = ss.Slices(rng.standard_normal((m, d)), rng.standard_normal((m, d)))
    r, g = np.asarray(slices.r), np.asarray(slices.g)
    loop = np.array([reference.slice_statistics(x, s, r[i], g[i], h=h) for i in range(m)])
    for engine in ("exact", "fourier"):
        for column, statistic in enumerate(("u", "v")):
            ours = ss.sksd(x, s, slices, kernel=ss.RBF(h), statistic=statistic, engine=engine, per_slice=True)
            np.testing.assert_allclose(ours, loop[:, column], atol=precision.eps**0.5 * loop[:, 1].max())


@pytest.mark.parametrize(
    ("kernel", "loop"),
    [(ss.RBF(), reference.rbf), (ss.IMQ(), reference.imq), (ss.Matern(), reference.matern32)],
    ids=["rbf", "imq", "matern"],
)
def test_every_kernel_with_the_median_rule_is_the_double_loop(kernel, loop, precision):
    x, s, slices = problem(student, 25, 3)
    ours = ss.sksd(x, s, slices, kernel=kernel, per_slice=True)
    theirs = [
        reference.slice_statistics(x, s, np.asarray(r), np.asarray(g), kernel=loop)[0]
        for r, g in zip(slices.r, slices.g, strict=True)
    ]
    np.testing.assert_allclose(ours, theirs, rtol=precision.eps**0.5)


@pytest.mark.parametrize("engine", ["exact", "fourier"])
def test_deep_kernel_is_the_double_loop(engine, precision):
    rng = np.random.default_rng(3)
    x, s = rng.standard_normal((20, 3)), rng.standard_normal((20, 3))
    weight = rng.standard_normal((3, 2))

    def feature_map(row):
        return jnp.concatenate([row, jnp.tanh(row @ weight)])

    slices = ss.Slices(rng.standard_normal((4, 3)), rng.standard_normal((4, 5)))
    ours = ss.sksd(x, s, slices, feature_map=feature_map, engine=engine, per_slice=True)
    theirs = [
        reference.slice_statistics(
            x,
            s,
            np.asarray(slices.r[m]),
            np.asarray(slices.g[m]),
            feature=lambda row: np.concatenate([row, np.tanh(row @ weight)]),
            jacobian=lambda row: np.concatenate([np.eye(3), weight * (1 - np.tanh(row @ weight) ** 2)], axis=1),
        )[0]
        for m in range(4)
    ]
    np.testing.assert_allclose(ours, theirs, rtol=precision.eps**0.5)


@pytest.mark.skipif(not _compiled.AVAILABLE, reason="the extension was not built")
@pytest.mark.parametrize("shared_c", [True, False])
@pytest.mark.parametrize("kernel", [ss.RBF(), TwoScales()], ids=repr)
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e5], ids=["one cell", "long rule", "many cells"])
def test_compiled_is_portable(spread, kernel, shared_c, precision):
    rng = np.random.default_rng(4)
    u, a = jnp.asarray(spread * rng.standard_normal((3, 400))), jnp.asarray(rng.standard_normal((3, 400)))
    c = jnp.asarray(rng.standard_normal((3, 1 if shared_c else 400)))
    data = Projected(u, a, c)
    compiled = jax.jit(functools.partial(engines.value_and_gradient, kernel=kernel))(data)
    portable = jax.jit(functools.partial(fourier.value_and_gradient, kernel=kernel))(data)
    for one, other in zip(*map(jax.tree.leaves, (compiled, portable)), strict=True):
        np.testing.assert_allclose(one, other, atol=precision.eps**0.5 * float(jnp.abs(other).max()))


def test_gradient_is_that_of_all_pairs(precision):
    rng = np.random.default_rng(5)
    data = Projected(*(jnp.asarray(rng.standard_t(3, size=(2, 200))) for _ in range(3)))
    kernel = ss.RBF()
    _, ours = engines.value_and_gradient(data, kernel)
    theirs = jax.grad(lambda data: exact.v_statistic(data, kernel).sum())(data)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=precision.eps**0.5 * float(jnp.abs(other).max()))


@pytest.mark.parametrize("engine", ["exact", "fourier"])
def test_blocks_of_slices_change_nothing(engine, precision, monkeypatch):
    x, s, slices = problem(gaussian, 101, 6, num_slices=7)

    def values(slices):
        return ss.sksd(x, s, slices, engine=engine, per_slice=True)

    whole, gradient = values(slices), jax.grad(lambda z: values(z).sum())(slices)
    # U is a difference of numbers of the size of V: they are what is rounded.
    size = np.asarray(ss.sksd(x, s, slices, engine=engine, per_slice=True, statistic="v"))
    jax.clear_caches()
    monkeypatch.setattr("slicestein._stein.tiles.BLOCK_BYTES", 2 * 2 * 101 * 8)
    monkeypatch.setattr("slicestein._stein.tiles.TILE_ELEMENTS", 101 * 8)
    np.testing.assert_allclose((values(slices) - whole) / size, 0, atol=20 * precision.eps)
    blocked = jax.grad(lambda z: values(z).sum())(slices)
    np.testing.assert_allclose(blocked.g, gradient.g, rtol=1e4 * precision.eps)
    jax.clear_caches()


@pytest.mark.parametrize("shared_c", [True, False])
@pytest.mark.parametrize("kernel", [ss.RBF(), ss.IMQ(), TwoScales()], ids=repr)
def test_forces_are_the_witness_in_two_parts(kernel, shared_c, precision):
    rng = np.random.default_rng(4)
    u = rng.standard_normal((5, 33)) * np.array([[0.1], [1], [10], [100], [1000]])  # the last: nobody has a neighbour
    a, c = rng.standard_normal((5, 33)), rng.standard_normal((5, 1 if shared_c else 33))
    data = Projected(*(jnp.asarray(z) for z in (u, a, c)))
    value, pull, push = engines.forces(data, kernel, "exact")
    assert value.dtype == precision.dtype
    tolerance = 50 * precision.eps
    np.testing.assert_allclose(value, exact.v_statistic(data, kernel), rtol=tolerance)
    np.testing.assert_allclose(
        pull + push, exact.witness(data, kernel, data.u), atol=tolerance * abs(pull + push).max()
    )
    without_scores = data._replace(a=jnp.zeros_like(data.a))
    np.testing.assert_allclose(push, exact.witness(without_scores, kernel, data.u), atol=tolerance * abs(push).max())


@pytest.mark.parametrize("kernel", WITH_SPECTRUM, ids=repr)
def test_forces_do_not_depend_on_the_engine(kernel, precision):
    rng = np.random.default_rng(5)
    data = Projected(*(jnp.asarray(rng.standard_normal((4, 60))) for _ in range(3)))
    for one, other in zip(*(engines.forces(data, kernel, name) for name in ("exact", "fourier")), strict=True):
        np.testing.assert_allclose(one, other, atol=precision.eps**0.5 * np.abs(one).max())
