"""The paper's own search for slices: its steps, what it leaves alone, and its level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss
from slicestein.gof import PublishedMaxSKSD
from slicestein.gof.baselines.published import climb, start_directions
from slicestein.slices import unit_rows
from tests import reference
from tests.unit.standard_input import S, X, assert_calibrated, normal, rejections

RATE = 1e-3


def summed_v(rows):
    """By double loops; at bandwidths that do not follow the directions, as gradients do not go through them."""
    r, g = unit_rows(rows["r"]), unit_rows(rows["g"])
    return sum(reference.slice_statistics(X, S, r[m], g[m], h=BANDWIDTH)[1] for m in range(3))


BANDWIDTH = 1.3


@pytest.mark.parametrize("move_r", [False, True], ids=["g", "rg"])
def test_the_first_step_climbs_the_v_statistic(move_r):
    """Adam's first step is the learning rate times the signs of the gradient."""
    rows = start_directions(np.random.default_rng(0), 3, "normal")
    samples = tuple(jnp.asarray(z, jnp.float32) for z in (X, S))
    found = climb(
        {name: jnp.asarray(some, jnp.float32) for name, some in rows.items()},
        samples,
        jax.random.key(0),
        ss.RBF(BANDWIDTH),
        RATE,
        epochs=1,
        batch_size=len(X),
        move_r=move_r,
    )
    for name in rows:
        moved = np.asarray(found[name]) - rows[name]
        if name == "r" and not move_r:
            assert np.abs(moved).max() == 0
            continue
        for index in np.ndindex(3, 3):
            up, down = ({k: v.copy() for k, v in rows.items()} for _ in range(2))
            up[name][index] += 1e-4
            down[name][index] -= 1e-4
            slope = (summed_v(up) - summed_v(down)) / 2e-4
            if abs(slope) > 1e-4:  # along a row there is none
                np.testing.assert_allclose(moved[index], RATE * np.sign(slope), rtol=1e-3)


def test_an_epoch_is_a_pass_in_batches():
    """Steps of equal sign: after k steps of Adam no entry has moved further than k times the learning rate."""
    rows = {
        name: jnp.asarray(some, jnp.float32)
        for name, some in start_directions(np.random.default_rng(1), 3, "unit").items()
    }
    samples = tuple(jnp.asarray(z, jnp.float32) for z in (normal(17, 3) * 0.3, -normal(17, 3) * 0.3))
    found = climb(rows, samples, jax.random.key(0), ss.RBF(), RATE, epochs=2, batch_size=5, move_r=False)
    furthest = float(jnp.abs(found["g"] - rows["g"]).max())
    assert 2 * RATE < furthest <= 6 * RATE * (1 + 1e-3)  # three whole batches of 17, twice


def test_starts_are_unit_rows_or_normal_entries():
    unit, entries = (start_directions(np.random.default_rng(0), 50, start)["g"] for start in ("unit", "normal"))
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(unit_rows(entries), unit, rtol=1e-12)
    assert 45 < np.mean(np.linalg.norm(entries, axis=1) ** 2) < 55


def test_the_statistic_is_u_of_the_other_rows():
    x = normal(120, 4) * 0.8
    result = ss.gof_test(x, -x, key=3, method=PublishedMaxSKSD(epochs=2), num_bootstrap=99)
    tested = x[np.random.default_rng(3).permutation(120)[24:]]
    assert (result.method, result.num_train, result.num_test, result.bootstrap) == (
        "maxsksd-g-published",
        24,
        96,
        "multinomial",
    )
    assert np.array_equal(result.slices.r, np.eye(4))
    expected = float(ss.sksd(tested, -tested, result.slices))
    np.testing.assert_allclose(result.statistic, expected, rtol=1e-3)  # features are cut off at 1e-5 of the kernel


def test_r_moves_where_both_are_searched():
    x = normal(100, 3) * 0.5
    result = ss.gof_test(x, -x, key=0, method="maxsksd-rg-published", num_bootstrap=19)
    assert result.method == "maxsksd-rg-published"
    assert np.abs(np.asarray(result.slices.r) - np.eye(3)).max() > 0.01


def test_more_epochs_find_more():
    """Laplace coordinates: the optimum is g = r (label "eq: Closed form maxSSD g"), far from random starts."""
    x = np.random.default_rng(0).laplace(scale=0.5**0.5, size=(400, 20))
    slices = [PublishedMaxSKSD(epochs=e).choose(x, -x, np.random.default_rng(1)) for e in (5, 500)]
    few, many = (float(np.mean(np.sum(np.asarray(z.r) * np.asarray(z.g), axis=1) ** 2)) for z in slices)
    assert few < 0.15 < 0.4 < many


@pytest.mark.parametrize("optimize", ["g", "rg"])
def test_level(optimize):
    method = PublishedMaxSKSD(optimize, epochs=5)
    pvalue = lambda seed, x: ss.gof_test(x, -x, key=seed, method=method, num_bootstrap=99).pvalue
    assert_calibrated(rejections(pvalue, normal(300, 250, 5)), 300)


def test_options_are_checked():
    for make, message in [
        (lambda: PublishedMaxSKSD("r"), "optimize must be one of"),
        (lambda: PublishedMaxSKSD(start="basis"), "start must be one of"),
        (lambda: PublishedMaxSKSD(bootstrap="dependent"), "bootstrap must be one of"),
        (lambda: PublishedMaxSKSD(epochs=0), "epochs must be positive"),
    ]:
        with pytest.raises(ss.InputError, match=message):
            make()
    with pytest.raises(ss.InputError, match="maxsksd-g-published has no null for dependent samples"):
        ss.gof_test(X[None], S[None], key=0, method=PublishedMaxSKSD())
