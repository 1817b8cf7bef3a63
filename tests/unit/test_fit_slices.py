import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss
from slicestein._directions.fitting import _geodesic, slice_weights


def samples(n=200, d=10, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    x[:, 2] *= 0.5
    return x


def test_geodesics_stay_on_the_sphere_and_turn_by_the_angle():
    rng = np.random.default_rng(0)
    rows = ss.Slices(rng.standard_normal((4, 3)), np.ones((4, 3))).r
    angle = jnp.asarray([0.0, 0.1, 0.5, 1.0])
    moved = _geodesic(rows, jnp.asarray(rng.standard_normal((4, 3))), angle)
    np.testing.assert_allclose(jnp.linalg.norm(moved, axis=1), 1)
    np.testing.assert_allclose(jnp.arccos(jnp.clip(jnp.sum(rows * moved, axis=1), -1, 1)), angle, atol=1e-7)
    np.testing.assert_array_equal(_geodesic(rows, rows, angle), rows)  # no tangent, no move


@pytest.mark.parametrize("optimize", ["g", "rg"])
@pytest.mark.parametrize("init", ["best", "basis", "active", "moments", "random"])
def test_steps_never_lower_the_held_out_value(optimize, init):
    x = samples()
    slices, history = ss.fit_slices(x, -x, key=0, optimize=optimize, init=init, steps=10)
    assert np.all(np.diff(history["held_out"]) >= 0)
    if optimize == "g":
        np.testing.assert_array_equal(slices.r, np.eye(10))
    np.testing.assert_allclose(jnp.linalg.norm(slices.g, axis=1), 1, rtol=1e-6)


def test_ascent_finds_the_direction_from_random_starts():
    x = samples(n=1000)
    start = ss.Slices.random(1, 3, 10)
    fit = ss.fit_slices(x, -x, key=0, optimize="rg", init=start, steps=100, hold_out=0.0)
    signal = lambda z: ss.sksd(x, -x, z, per_slice=True) * slice_weights(z, jnp.asarray(x), jnp.asarray(-x), ss.RBF())
    axis = np.eye(10)[2:3]
    best = int(jnp.argmax(signal(fit.slices)))
    assert signal(fit.slices)[best] > signal(ss.Slices(axis, axis))[0] > 100 * abs(signal(start)).max()
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


def test_few_slices_are_kept_where_one_is_wrong_and_many_where_all_are():
    rng = np.random.default_rng(4)
    one = rng.standard_normal((300, 40))
    one[:, 5] *= 0.5
    every = rng.laplace(scale=np.sqrt(0.5), size=(300, 40))
    counts = [ss.fit_slices(x, -x, key=0, optimize="rg", steps=0).slices.num for x in (one, every)]
    assert counts[0] < 16 < counts[1]


def test_options_are_checked():
    x = samples()
    for options, message in [
        ({"optimize": "r"}, "optimize must be one of"),
        ({"num_slices": 3}, "num_slices must be positive, and D = 10"),
        ({"init": "best of all"}, "init must be one of"),
        ({"hold_out": 1.0}, "hold_out must be at least 0"),
        ({"init": ss.Slices.basis(4)}, "slices.r has dimension 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            ss.fit_slices(x, -x, key=0, **options)
    with pytest.raises(ValueError, match="too few samples"):
        ss.fit_slices(x[:3], -x[:3], key=0)


def test_results_depend_on_the_key_alone():
    x = samples()
    one, again, other = (
        ss.fit_slices(x, -x, key=key, init="random", steps=5, batch_size=50).slices.g
        for key in (0, jax.random.key(0), 1)
    )
    np.testing.assert_array_equal(one, again)
    assert jnp.any(one != other)
