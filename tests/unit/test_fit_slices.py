import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss
from slicestein._directions.ascent import _geodesic
from slicestein._directions.starts import Pairs, Samples, moment_slices, signal, slope_matrix, strongest


@pytest.fixture(params=[False, True], ids=["single", "double"])
def x64(request):
    with jax.enable_x64(request.param):
        yield request.param


def samples(n=200, d=10, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    x[:, 2] *= 0.5
    return x


def stein_matrix(x, s, r, g):
    """h of one slice between all samples by its definition (RBF at the median gap), and the bandwidth."""
    t, a, c = x @ g, s @ r, r @ g
    tau = t[:, None] - t
    h = np.median(np.abs(tau)[np.triu_indices(len(t), 1)])
    k = np.exp(-0.5 * (tau / h) ** 2)
    slope, bend = -tau / h**2 * k, (tau**2 / h**4 - 1 / h**2) * k
    return np.outer(a, a) * k + c * (a - a[:, None]) * slope - c * c * bend


def signal_to_noise(x, s, slices):
    """U of every slice in units of the mean of h(x, x)."""
    out = []
    for r, g in zip(*(np.asarray(rows, float) for rows in (slices.r, slices.g)), strict=True):
        h = stein_matrix(x.astype(float), s.astype(float), r, g)
        out.append((h.sum() - np.trace(h)) / (len(h) - 1) / np.trace(h))
    return np.array(out)


# --- ascent ------------------------------------------------------------------------------------


def test_geodesics_stay_on_the_sphere_and_turn_by_the_angle(x64):
    rng = np.random.default_rng(0)
    rows = ss.Slices(rng.standard_normal((4, 3)), np.ones((4, 3))).r
    angle = jnp.asarray([0.0, 0.1, 0.5, 1.0])
    moved = _geodesic(rows, jnp.asarray(rng.standard_normal((4, 3))), angle)
    np.testing.assert_allclose(jnp.linalg.norm(moved, axis=1), 1, rtol=1e-6)
    sine = np.linalg.norm(np.cross(rows, moved), axis=1)  # the cosine has no digits at small angles
    np.testing.assert_allclose(np.arctan2(sine, np.sum(rows * moved, axis=1)), angle, atol=1e-12 if x64 else 1e-6)
    np.testing.assert_array_equal(_geodesic(rows, rows, angle), rows)  # no tangent, no move


@pytest.mark.parametrize("optimize", ["g", "rg"])
@pytest.mark.parametrize("init", ["best", "basis", "active", "moments", "random"])
def test_steps_raise_the_signal_on_the_end_of_every_chain(optimize, init):
    """Recomputed by the definition on the last 30% of each of three chains, which are the rows held out."""
    x = samples(240).reshape(3, 80, 10).astype(np.float32)
    held = x[:, 56:].reshape(-1, 10)
    with jax.enable_x64(False):
        options = {"key": 0, "optimize": optimize, "init": init, "num_slices": None if optimize == "g" else 6}
        start = ss.fit_slices(x, -x, steps=0, **options).slices
        slices, history = ss.fit_slices(x, -x, steps=10, **options)
    before, after = (signal_to_noise(held, -held, z) for z in (start, slices))
    assert np.all(after >= before - 1e-6)
    assert np.all(np.diff(history["held_out"]) >= -1e-6)
    np.testing.assert_allclose(history["held_out"][-1], after.sum(), rtol=2e-4, atol=1e-5)
    if init == "random":
        assert after.sum() > before.sum() + 0.01
    if optimize == "g":
        np.testing.assert_array_equal(slices.r, np.eye(10))
    np.testing.assert_allclose(np.linalg.norm(slices.g, axis=1), 1, rtol=1e-6)


def test_ascent_finds_the_direction_from_random_starts(x64):
    x = samples(n=1000)
    start = ss.Slices(*np.random.default_rng(1).standard_normal((2, 3, 10)))
    fit = ss.fit_slices(x, -x, key=0, optimize="rg", init=start, steps=100, hold_out=0.0)
    axis = np.eye(10)[2:3]
    found, on_axis, first = (signal_to_noise(x, -x, z) for z in (fit.slices, ss.Slices(axis, axis), start))
    best = int(np.argmax(found))
    assert found[best] > 0.99 * on_axis[0] > 20 * abs(first).max()
    assert abs(fit.slices.r[best]).argmax() == abs(fit.slices.g[best]).argmax() == 2
    assert abs(fit.slices.g[best, 2]) > 0.9


def test_the_null_is_not_fitted():
    """Ungated ascent multiplies the training value under the null; gated ascent leaves the axes where they are."""
    x = np.random.default_rng(3).standard_normal((200, 50))
    gated = ss.fit_slices(x, -x, key=0, init="basis", steps=30)
    free = ss.fit_slices(x, -x, key=0, init="basis", steps=30, hold_out=0.0)
    value = lambda slices: float(ss.sksd(x, -x, slices, statistic="v"))
    assert value(free.slices) > 5 * value(ss.Slices.basis(50))
    assert value(gated.slices) < value(free.slices) / 2


def test_with_nothing_held_out_the_history_is_that_of_all_samples():
    x = samples()
    slices, history = ss.fit_slices(x, -x, key=0, init="basis", steps=5, hold_out=0.0)
    np.testing.assert_allclose(history["held_out"][-1], signal_to_noise(x, -x, slices).sum(), rtol=1e-6)
    # The V-statistic before the first step: U and its diagonal, one per slice.
    start = signal_to_noise(x, -x, ss.Slices.basis(10))
    np.testing.assert_allclose(history["fit"][0], np.sum((start * 199 + 1) / 200), rtol=1e-6)


# --- starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_signal_is_that_of_the_definition(dtype):
    rng = np.random.default_rng(5)
    x = samples(60).astype(dtype)
    r, g = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in rng.standard_normal((2, 4, 10)))
    expected = signal_to_noise(x, -x, Pairs(r, g))
    found = signal(Pairs(r.astype(dtype), g.astype(dtype)), Samples(x, -x), ss.RBF())
    # Features are cut off at 1e-5 of the kernel; U is a difference of numbers around 1 / N.
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_moment_slices_are_where_a_linear_function_sees_most():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 6))
    x[:, 1] += 0.7
    x[:, 4] *= 1.6
    pairs = moment_slices(Samples(x, -x), 3)
    for row, where in ((pairs.r[0], 1), (pairs.g[0], 1), (pairs.r[1], 4), (pairs.g[1], 4)):
        assert abs(row[where]) > 0.95
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(pairs), axis=1), 1)


def test_slope_matrix_is_zero_for_the_model_and_the_covariance_error_otherwise():
    x = np.random.default_rng(0).standard_normal((100_000, 3)) * [1.0, 2.0, 1.0]
    expected = np.diag([0.0, -3.0, 0.0])  # I - E[x x^T] for the model N(0, I)
    np.testing.assert_allclose(slope_matrix(x, -x), expected, atol=0.08)


def test_at_least_so_many_slices_are_kept():
    strength = np.array([0.1, 5.0, 0.2, 0.0])
    np.testing.assert_array_equal(strongest(strength, None, 0, fewest=2), [1, 2])
    np.testing.assert_array_equal(strongest(strength, None, 0, fewest=9), [1, 2, 0, 3])  # all there are


def test_slices_that_climb_are_eight_or_more():
    x = np.random.default_rng(0).standard_normal((400, 20))
    x[:, 3] *= 0.5  # one slice shows it all
    standing, climbing = (ss.fit_slices(x, -x, key=0, optimize="rg", steps=steps).slices for steps in (0, 1))
    assert standing.num < 8 <= climbing.num


@pytest.mark.parametrize(
    ("strength", "num", "always", "kept"),
    [
        ([0.1, 5.0, 0.2, 0.0], None, 0, [1]),
        ([3.0, 3.1, 3.2, 3.3], None, 0, [3, 2, 1, 0]),
        ([0.1, 5.0, 0.2, 0.0], 2, 0, [1, 2]),
        ([0.0, 0.0, 9.0, -1.0], None, 2, [0, 1, 2]),
        ([-1.0, -2.0, -3.0, -4.0], None, 0, [0]),
    ],
)
def test_the_strongest_slices_are_those_that_raise_the_ratio_of_signal_to_noise(strength, num, always, kept):
    np.testing.assert_array_equal(strongest(np.array(strength), num, always), kept)


def test_few_slices_are_kept_where_one_is_wrong_and_many_where_all_are():
    rng = np.random.default_rng(4)
    one = rng.standard_normal((300, 40))
    one[:, 5] *= 0.5
    every = rng.laplace(scale=np.sqrt(0.5), size=(300, 40))
    counts = [ss.fit_slices(x, -x, key=0, optimize="rg", steps=0).slices.num for x in (one, every)]
    assert counts[0] < 16 < counts[1]


@pytest.mark.parametrize("optimize", ["g", "rg"])
def test_rows_held_out_that_are_all_the_same_are_no_obstacle(optimize):
    """A chain that is stuck for a while, or a column of a few ones: no bandwidth, and once a crash."""
    x = samples(100).reshape(1, 100, 10).astype(np.float32)
    x[:, 65:] = x[:, 65:66]
    sparse = samples(100).astype(np.float32)
    sparse[:, 1] = 0
    sparse[3, 1] = 1
    for rows in (x, sparse):
        slices = ss.fit_slices(rows, -rows, key=0, optimize=optimize, steps=0).slices
        assert np.isfinite(slices.r).all()
        assert np.isfinite(slices.g).all()


# --- the door ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("steps", [0, 3])
def test_half_precision_is_fitted_in_single(dtype, steps):
    with jax.enable_x64(False):
        x = jnp.asarray(samples(), dtype)
        slices = ss.fit_slices(x, lambda z: -z, key=0, optimize="rg", num_slices=1, steps=steps).slices
    assert slices.r.dtype == slices.g.dtype == np.float32
    assert abs(slices.r[0]).argmax() == abs(slices.g[0]).argmax() == 2


def test_options_are_checked():
    x = samples()
    for options, message in [
        ({"optimize": "r"}, "optimize must be one of"),
        ({"num_slices": 3}, "num_slices must be positive, and D = 10"),
        ({"num_slices": 0, "optimize": "rg"}, "num_slices must be positive"),
        ({"init": "best of all"}, "init must be one of"),
        ({"hold_out": 1.0}, "hold_out must be at least 0"),
        ({"init": ss.Slices.basis(4)}, "slices.r has dimension 4"),
        ({"kernel": "rbf"}, "kernel must be RBF"),
        ({"kernel": ss.RBF(-1.0)}, "bandwidth must be positive"),
    ]:
        with pytest.raises(ss._checks.InputError, match=message):
            ss.fit_slices(x, -x, key=0, **options)
    with pytest.raises(ValueError, match="too few samples"):
        ss.fit_slices(x[:3], -x[:3], key=0)
    x[:, 4] = 1
    with pytest.raises(ValueError, match="column 4 of x does not vary: drop it, or mend the sampler"):
        ss.fit_slices(x, -x, key=0)


def test_traced_samples_are_refused():
    with pytest.raises(ss._checks.InputError, match="x is traced: call this outside of jit"):
        jax.jit(lambda x: ss.fit_slices(x, -x, key=0).slices.g)(samples())


def test_results_depend_on_the_key_alone():
    x = samples()
    one, again, other = (
        ss.fit_slices(x, -x, key=key, init="random", steps=5, batch_size=50).slices.g for key in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert np.any(one != other)
    typed, raw = (
        ss.fit_slices(x, -x, key=key, init="random", steps=0).slices.g
        for key in (jax.random.key(7), jax.random.PRNGKey(7))
    )
    np.testing.assert_array_equal(typed, raw)
