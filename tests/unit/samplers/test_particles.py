"""Particle methods: where they go, the loop, pytrees, minibatches, faults."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import slicestein as ss
from slicestein.samplers._lines import signal
from slicestein.samplers._svgd import force as full_force
from tests.compilations import lowered
from tests.rounding import rounding
from tests.unit import standard_input

X = jnp.asarray(standard_input.X)


def normal(*shape, seed=0):
    """Standard normal variables of JAX."""
    return jnp.asarray(standard_input.normal(*shape, seed=seed))


METHODS = {
    "svgd": lambda score: ss.svgd(score, optax.adam(0.05)),
    "sliced": lambda score: ss.sliced_svgd(score, optax.adam(0.05)),
    "grassmann": lambda score: ss.grassmann_svgd(score, optax.adam(0.05), key=0),
    "noisy": lambda score: ss.noisy_svgd(score, 0.1, key=0),
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_the_mean(name):
    target = jnp.array([1.0, -1.0, 2.0, 0.5])
    start = normal(60, 4).astype(jnp.float32)
    result = ss.run(METHODS[name](lambda x: -(x - target)), start, 600, progress=False)
    assert result.particles.dtype == jnp.float32
    assert result.history.discrepancy.shape == (600,)
    np.testing.assert_allclose(result.particles.mean(0), target, atol=0.5 if name == "noisy" else 0.1)


def test_slices_keep_the_variance_that_svgd_loses():
    start = 2 + normal(50, 40)
    variance = {
        name: float(ss.run(METHODS[name](lambda x: -x), start, 800, progress=False).particles.var(0).mean())
        for name in ("svgd", "sliced")
    }
    assert variance["svgd"] < 0.5
    assert 0.85 < variance["sliced"] < 1.15


ROTATION = np.linalg.qr(np.random.default_rng(5).standard_normal((6, 6)))[0]


def test_the_second_basis_is_the_principal_axes_of_the_scores():
    precision = ROTATION @ np.diag(np.logspace(-1, 1, 6)) @ ROTATION.T
    x = normal(5000, 6)
    method = ss.sliced_svgd(lambda x: -x @ precision, optax.sgd(1e-6), refresh_every=1, slice_steps=0)
    r = method.step(method.init(x))[0].slices.r
    np.testing.assert_array_equal(r[:6], np.eye(6))
    np.testing.assert_allclose(np.abs(r[6:] @ ROTATION), np.eye(6), atol=0.1)


def test_the_second_basis_turns_when_the_refreshes_have_doubled():
    method = ss.sliced_svgd(lambda x: -(x**3), optax.sgd(0.05), refresh_every=1)
    state = method.init(normal(40, 6))
    turned, first = [], []
    for _ in range(8):
        before, state = state.slices, method.step(state)[0]
        turned.append(not np.array_equal(before.r[6:], state.slices.r[6:]))
        first.append(np.array_equal(state.slices.r[:6], np.eye(6)))
    assert turned == [True, True, False, True, False, False, False, True]
    assert all(first)
    assert not np.allclose(state.slices.climbing[:6], np.eye(6), atol=0.02)  # the first basis climbs on


@pytest.mark.parametrize("optimizer", [optax.adam(0.01), optax.adafactor(0.01), optax.sgd(0.01, momentum=0.9)])
def test_a_basis_that_has_turned_is_climbed_from_rest(optimizer):
    """What the optimiser has learned about the old axes is forgotten, what it knows about the first basis is not."""
    options = {"refresh_every": 1, "slice_optimizer": optimizer, "slice_steps": 3}
    method = ss.sliced_svgd(lambda x: -(x**3), optax.sgd(0.05), **options)
    state = method.init(normal(40, 6))
    for _ in range(4):  # turns with refreshes 1, 2 and 4
        before, state = state, method.step(state)[0]
    # The step by hand: the second basis starts at the new axes with a new optimiser, the first goes on.
    x, s, r = before.particles, -(before.particles**3), state.slices.r
    kept = before.slices.climbing[:6], jax.tree.map(lambda a: a[0], before.slices.optimizer)
    fresh = r[6:], optimizer.init(r[6:])
    for basis, (g, memory) in enumerate((kept, fresh)):
        rows = slice(6 * basis, 6 * basis + 6)
        for _ in range(3):
            gradient = jax.grad(lambda g, rows=rows: signal(x[::2], s[::2], r[rows], g, ss.RBF()).sum())(g)
            updates, memory = optimizer.update(-gradient, memory, g)
            g = (g + updates) / jnp.linalg.norm(g + updates, axis=1, keepdims=True)
        np.testing.assert_allclose(state.slices.climbing[rows], g, rtol=1e-6, atol=rounding(100, 1e-8))


@pytest.mark.parametrize(("shape", "kernel"), [((6, 6), ss.RBF()), ((5, 1), ss.RBF()), ((9, 3), ss.RBF(jnp.ones(3)))])
def test_one_basis_where_a_second_cannot_be_found(shape, kernel):
    method = ss.sliced_svgd(lambda x: -x, optax.sgd(0.1), kernel=kernel, refresh_every=1)
    state, _ = method.step(method.init(normal(*shape)))
    assert state.slices.r is None
    assert np.isfinite(state.particles).all()


def test_principal_axes_serve_correlated_targets():
    covariance = ROTATION @ np.diag(np.logspace(-1, 1, 6)) @ ROTATION.T
    precision = np.linalg.inv(covariance)

    def error(basis):
        method = ss.sliced_svgd(lambda x: -x @ precision, optax.adam(0.05), basis=basis)
        found = np.cov(ss.run(method, 2 * normal(100, 6), 1500, progress=False).particles.T)
        return np.linalg.norm(found - covariance) / np.linalg.norm(covariance)

    assert error("principal") < 0.12
    assert error("axes") > 0.5


def test_noise_makes_a_single_pair_of_particles_a_sampler():
    """Over time two noisy particles cover the target; two particles of SVGD stand still."""
    method = ss.noisy_svgd(lambda x: -x, 0.2, key=1, kernel=ss.RBF(1.0))
    states = []
    ss.run(method, normal(2, 1), 20_000, progress=False, every=20, callback=lambda s, _: states.append(s.particles))
    assert abs(np.var(np.stack(states)[100:]) - 1) < 0.15


def test_pytrees_are_moved_as_their_flat_array():
    flat = normal(20, 3)
    tree = {"a": flat[:, 0], "b": flat[:, 1:].reshape(20, 2, 1)}
    score = ss.score_from(lambda z: -0.5 * (z["a"] ** 2 + jnp.sum(z["b"] ** 2)))
    one = ss.run(ss.svgd(score, optax.sgd(0.1)), tree, 5, progress=False).particles
    other = ss.run(ss.svgd(lambda x: -x, optax.sgd(0.1)), flat, 5, progress=False).particles
    close = {"rtol": rounding(30, 1e-9), "atol": rounding(30)}
    np.testing.assert_allclose(one["a"], other[:, 0], **close)
    np.testing.assert_allclose(one["b"][:, :, 0], other[:, 1:], **close)


def test_networks_of_equinox_are_particles_as_they_are():
    """Every network of a batch is a particle: its weights move, its activation function stays."""
    make = lambda key: eqx.nn.MLP(2, "scalar", 4, 1, key=key)
    start = eqx.filter_vmap(make)(jax.random.split(jax.random.key(0), 10))
    log_prior = lambda one: -0.5 * sum(jnp.sum(w**2) for w in jax.tree.leaves(eqx.filter(one, eqx.is_array)))
    method = ss.svgd(eqx.filter_vmap(eqx.filter_grad(log_prior)), optax.sgd(0.5))
    networks = ss.run(method, start, 20, progress=False).particles
    assert networks.activation is start.activation
    assert eqx.filter_vmap(lambda one: one(jnp.ones(2)))(networks).shape == (10,)
    first, last = (jax.vmap(lambda one: ravel_pytree(one)[0])(eqx.filter(n, eqx.is_array)) for n in (start, networks))
    expected = ss.run(ss.svgd(lambda x: -x, optax.sgd(0.5)), first, 20, progress=False).particles
    np.testing.assert_allclose(last, expected, rtol=1e-5)


def test_minibatches_reach_the_score():
    data = jnp.asarray(np.random.default_rng(0).normal(3.0, 1.0, 1000))
    score = lambda mu, batch: 1000 * jnp.mean(batch[None] - mu, axis=1, keepdims=True) - mu
    batches = lambda step: (jax.random.choice(jax.random.fold_in(jax.random.key(0), step), data, (50,)),)
    result = ss.run(ss.svgd(score, optax.adam(0.02)), normal(30, 1), 800, arguments=batches, progress=False)
    np.testing.assert_allclose(result.particles.mean(), data.sum() / 1001, atol=0.1)


def test_the_repulsion_schedule_scales_the_push():
    method = lambda repulsion: ss.svgd(lambda x: -x, optax.sgd(0.1), repulsion=repulsion, kernel=ss.RBF(1.0))
    moved = lambda repulsion: method(repulsion).step(method(repulsion).init(X))[0].particles - X
    push = 0.1 * full_force(X, -X, ss.RBF(1.0)).repulsive
    less = moved(lambda step: 0.25 + 0 * step)
    np.testing.assert_allclose(moved(1.0) - less, 0.75 * push, rtol=1e-9, atol=rounding(10))


def test_directions_are_refreshed_by_age_or_by_displacement():
    start = normal(30, 3)

    def turned(**options):
        method = ss.sliced_svgd(lambda x: -x, optax.sgd(0.01), basis="axes", **options)
        state = method.init(start)
        for _ in range(3):
            state, _ = method.step(state)
        return not np.allclose(state.slices.climbing, np.eye(3))

    assert not turned(refresh_every=10, refresh_displacement=10.0)
    assert turned(refresh_every=3, refresh_displacement=10.0)
    assert turned(refresh_every=10, refresh_displacement=1e-4)
    assert not turned(refresh_every=1, slice_steps=0)


def test_directions_are_followed_where_they_find_more_than_noise():
    """Draws of the target: the axes stay. A correlation that no axis shows: the lines turn."""
    x = normal(200, 10)
    hidden = x.at[:, 1].set(0.95 * x[:, 0] + np.sqrt(1 - 0.95**2) * x[:, 1])  # the target has none

    def turned(start):
        options = {"basis": "axes", "refresh_every": 1, "slice_optimizer": optax.adam(0.05)}
        method = ss.sliced_svgd(lambda x: -x, optax.sgd(1e-6), **options)
        state = method.init(start)
        for _ in range(30):
            state, _ = method.step(state)
        return np.abs(state.slices.g - np.eye(10)).max(1) > 0.1

    assert turned(x).sum() <= 2
    assert turned(hidden)[:2].all()


@pytest.mark.parametrize("count", [2, 3])
def test_few_particles_keep_the_axes(count):
    method = ss.sliced_svgd(lambda x: -x, optax.sgd(0.1), basis="axes", refresh_every=1)
    state, _ = method.step(method.init(normal(count, 2)))
    assert np.isfinite(state.particles).all()
    np.testing.assert_array_equal(state.slices.g, np.eye(2))


@pytest.mark.parametrize(("scale", "turned"), [(0.01, 0), (0.387, 60)])
def test_a_narrow_kernel_keeps_the_axes(scale, turned):
    """It sees single particles, on every line alike; a wider one sees that all are off, and lines turn."""
    options = {"kernel": ss.RBF(scale=scale), "bandwidth_rule": "median/log n", "basis": "axes", "refresh_every": 1}
    method = ss.sliced_svgd(lambda x: -x, optax.sgd(1e-6), **options)
    g = ss.run(method, 5 + normal(200, 60), 10, progress=False).state.slices.g
    assert (g != jnp.eye(60)).any(1).sum() == turned


@pytest.mark.parametrize("name", METHODS)
def test_a_second_run_compiles_nothing(name):
    with jax.enable_x64(False):
        method, batches = METHODS[name](lambda x, shift: shift - x), lambda step: (1.0 / (1 + step),)
        run = lambda seed: ss.run(method, normal(30, 4, seed=seed), 30, every=20, arguments=batches, progress=False)
        with lowered() as first:
            run(0)
        assert first
        with lowered() as again:
            run(1)
        assert not again


def test_functions_that_cannot_be_hashed_can_still_be_run():
    class Batches:
        __hash__ = None

        def __call__(self, step):
            return (1.0,)

    method = ss.svgd(lambda x, shift: shift - x, optax.sgd(0.5))
    result = ss.run(method, normal(20, 2), 100, arguments=Batches(), progress=False)
    np.testing.assert_allclose(result.particles.mean(0), 1, atol=0.1)


def test_a_run_stops_when_told():
    calls = []
    stop = lambda state, info: calls.append(float(info.discrepancy)) or len(calls) == 2
    result = ss.run(METHODS["svgd"](lambda x: -x), normal(20, 2), 1000, every=10, callback=stop, progress=False)
    assert (len(calls), len(result.history.spread)) == (2, 20)
    result = ss.run(METHODS["svgd"](lambda x: -x), normal(20, 2), 1000, every=10, tolerance=1e9, progress=False)
    assert len(result.history.spread) == 10


def test_faults_are_named():
    method = ss.svgd(lambda x: -x[:, :1], optax.adam(0.1))
    with pytest.raises(ValueError, match=r"score_fn.* must return arrays shaped as the particles"):
        method.step(method.init(X))
    with pytest.raises(ValueError, match="at least two"):
        method.init(X[:1])
    with pytest.raises(ValueError, match="particles has 1 values that are NaN"):
        method.init(jnp.asarray(X).at[0, 0].set(jnp.nan))
    with pytest.raises(ValueError, match="bandwidth_rule must be one of"):
        ss.svgd(lambda x: -x, optax.adam(0.1), bandwidth_rule="mean")
    with pytest.raises(ValueError, match="basis must be one of"):
        ss.sliced_svgd(lambda x: -x, optax.adam(0.1), basis="random")
    with pytest.raises(ValueError, match="slice_dim must divide"):
        ss.grassmann_svgd(lambda x: -x, optax.adam(0.1), key=0).init(X)
    with pytest.raises(FloatingPointError, match="smaller learning rate"):
        ss.run(ss.svgd(lambda x: -(x**3), optax.sgd(1e6)), X, 200, progress=False)
    with pytest.raises(ValueError, match="num_steps"):
        ss.run(method, X, 0)
    with pytest.raises(ValueError, match=r"optimizer must be an optax optimiser.* got 0\.1"):
        ss.svgd(lambda x: -x, 0.1)
    with pytest.raises(ValueError, match="score_fn must be a function, got ndarray"):
        ss.svgd(-np.asarray(X), optax.adam(0.1))
    with pytest.raises(ValueError, match="kernel must be RBF"):
        ss.grassmann_svgd(lambda x: -x, optax.adam(0.1), key=0, kernel="rbf")
    with pytest.raises(ValueError, match=r"bandwidth must be a number or have shape \(3,\)"):
        ss.sliced_svgd(lambda x: -x, optax.adam(0.1), kernel=ss.RBF(np.ones(2))).init(X)
    with pytest.raises(ValueError, match="step_size must be positive, got GradientTransformation"):
        ss.noisy_svgd(lambda x: -x, optax.adam(0.1), key=0)
    with pytest.raises(ValueError, match="refresh_every must be positive, got 0"):
        ss.sliced_svgd(lambda x: -x, optax.adam(0.1), refresh_every=0)


@pytest.mark.parametrize("name", METHODS)
def test_particles_in_one_place_have_no_median_distance(name):
    with pytest.raises(ValueError, match=r"no column of particles varies|column 0 of particles does not vary"):
        METHODS[name](lambda x: -x).init(np.ones((5, 2)))
    if name == "sliced":  # a line with one point; distances in the full space are not zero
        with pytest.raises(ValueError, match="column 1 of particles does not vary: start them apart, or pass a fixed"):
            METHODS[name](lambda x: -x).init(jnp.asarray(X).at[:, 1].set(0.0))


def test_a_score_in_numpy_is_refused_in_one_line():
    method = ss.svgd(lambda x: np.negative(np.asarray(x)), optax.adam(0.1))
    with pytest.raises(ss.InputError, match=r"score_fn calls NumPy, which JAX cannot trace: write it with jax\.numpy"):
        ss.run(method, np.eye(4), 1, progress=False)
