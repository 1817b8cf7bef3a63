"""Ranking of sample sets: the order is right, and the standard error is that of repeated samples."""

import jax
import numpy as np
import pytest

import slicestein as ss
from slicestein import quality
from slicestein.quality import compare
from slicestein.rows.arrays import Chains, as_chains
from tests.unit.standard_input import autoregression

DIM = 4


@pytest.fixture(autouse=True)
def _default_precision():
    with jax.enable_x64(False):
        yield


def normal(seed, count=1000):
    return np.random.default_rng(seed).standard_normal((count, DIM))


def score_fn(x):
    return -x


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_worse_samples_rank_behind(dtype):
    sets = {"wide": 1.4 * normal(0), "right": normal(1), "narrow": 0.8 * normal(2)}
    ranked = compare({name: x.astype(dtype) for name, x in sets.items()}, score_fn, key=0)
    assert [q.name for q in ranked] == ["right", "narrow", "wide"]
    assert ranked[0].behind == 0
    assert 3 < ranked[1].behind < ranked[2].behind


def test_errors_of_opposite_sign_do_not_cancel():
    """A small shift of all of 20 parameters: slices fitted on the pool would not see it."""
    right, up, down = np.random.default_rng(0).standard_normal((3, 1000, 20))
    ranked = compare({"up": up + 0.1, "right": right, "down": down - 0.1}, score_fn, key=0)
    assert ranked[0].name == "right"
    assert min(q.behind for q in ranked[1:]) > 3


def test_the_same_samples_in_other_units_rank_alike():
    scales = np.array([1e-3, 1.0, 10.0, 1e4])
    sets = {"wide": 1.3 * normal(0), "right": normal(1)}
    plain = compare(sets, score_fn, key=0)
    scaled = compare({k: v * scales for k, v in sets.items()}, lambda x: -x / scales**2, key=0)
    for a, b in zip(plain, scaled, strict=True):
        assert a.name == b.name
        assert b.discrepancy == pytest.approx(a.discrepancy, rel=1e-6, abs=1e-9)


def test_an_origin_far_away_does_not_matter_in_single_precision():
    """Samples around 1000 have 13 bits left behind the point: the order and the numbers stay."""
    sets = {"wide": 1.3 * normal(0), "right": normal(1)}
    plain = compare(sets, score_fn, key=0)
    far = compare({k: (v + 1000).astype(np.float32) for k, v in sets.items()}, lambda x: 1000 - x, key=0)
    for a, b in zip(plain, far, strict=True):
        assert a.name == b.name
        assert b.discrepancy == pytest.approx(a.discrepancy, rel=0.02, abs=1e-4)


# --- the number --------------------------------------------------------------------------------


def stein_matrix(ruler, x, s):
    """The weighted sum over slices of h between all rows by its definition; bandwidths and weights are in the lines."""
    y, sy = ruler.coordinates((x - ruler.origin).astype(float), s.astype(float))
    lines = ruler.lines
    total = 0.0
    for r, g, c in zip(lines.r, lines.g, lines.c, strict=True):
        t, a = y @ g, sy @ r
        tau = t[:, None] - t
        k = np.exp(-0.5 * tau**2)
        total = total + np.outer(a, a) * k - c * (a - a[:, None]) * tau * k - c * c * (tau**2 - 1) * k
    return total


@pytest.mark.parametrize("chains", [1, 3])
def test_the_discrepancy_is_a_u_statistic_and_its_error_a_jackknife(chains):
    """With blocks of few rows every row is a part of its own, and only a row and itself are not compared."""
    rows = as_chains(1.2 * normal(3, 231).reshape(chains, -1, DIM), score_fn)
    ruler = quality._ruler([rows], np.random.default_rng(0))
    value, error, num_samples = quality._measure(ruler, rows, 0)
    draws = num_samples // chains
    h = stein_matrix(ruler, *rows.part(slice(-draws, None)).flat)  # what does not fill a block is left out at the start
    np.fill_diagonal(h, 0)
    count = len(h)
    np.testing.assert_allclose(value, h.sum() / (count * (count - 1)), rtol=1e-4)  # features end at 1e-5
    blocks = chains * -(-20 // chains)
    block = np.repeat(np.arange(blocks), count // blocks)
    assert len(block) == count
    without = [h[np.ix_(block != k, block != k)] for k in range(blocks)]
    values = np.array([part.sum() / (len(part) * (len(part) - 1)) for part in without])
    np.testing.assert_allclose(error, np.sqrt((blocks - 1) / blocks * np.sum((values - values.mean()) ** 2)), rtol=1e-3)


def test_long_blocks_leave_out_pairs_of_neighbours_only():
    """2000 rows in 20 blocks of 50 parts: pairs within two neighbours are not compared, all others are."""
    rows = as_chains(1.2 * normal(3, 2000), score_fn)
    ruler = quality._ruler([rows], np.random.default_rng(0))
    h = stein_matrix(ruler, *rows.flat)
    part = np.arange(2000) // 2
    others = part[:, None] != part
    np.testing.assert_allclose(quality._measure(ruler, rows, 0)[0], h[others].mean(), rtol=1e-4)


def test_all_blocks_have_one_length():
    """25 draws of three chains are seven blocks of three: the first four are left out, whatever they are."""
    rows = as_chains(1.2 * normal(3, 75).reshape(3, 25, DIM), score_fn)
    ruler = quality._ruler([rows], np.random.default_rng(0))
    other = Chains(rows.x.copy(), rows.s.copy(), True)
    other.x[:, :4] = 7.0
    found = quality._measure(ruler, rows, 0)
    assert found == quality._measure(ruler, other, 0)
    assert found[2] == 3 * 21
    other.x[:, 4] = 7.0
    assert found != quality._measure(ruler, other, 0)


def test_the_number_of_samples_is_that_of_those_measured():
    sizes = {q.name: q.num_samples for q in compare({"a": normal(0, 1013), "b": normal(1, 500)}, score_fn, key=0)}
    assert sizes == {"a": 800, "b": 400}  # without the fifth that chose, and what does not fill a block


# --- the error ---------------------------------------------------------------------------------


def test_the_standard_error_is_that_of_repeated_samples():
    """With one ruler for all of them. 300 repetitions know a standard deviation to 4%; the jackknife is biased too."""
    ruler = quality._ruler([as_chains(1.3 * normal(999), score_fn)], np.random.default_rng(0))
    found = [quality._measure(ruler, as_chains(1.3 * normal(i, 400), score_fn), 0)[:2] for i in range(300)]
    values, errors = np.array(found).T
    np.testing.assert_allclose(errors.mean(), values.std(ddof=1), rtol=0.15)


def test_dependence_along_chains_widens_the_error():
    slow, fast = (1.2 * autoregression(rho, 4, 2000, DIM) for rho in (0.95, 0.0))
    ranked = {q.name: q for q in compare({"slow": slow, "fast": fast}, score_fn, key=0)}
    # The variance of a mean is 39 times larger; jackknife blocks of 320 draws see nearly all of it.
    assert 3 < ranked["slow"].standard_error / ranked["fast"].standard_error < 12


# --- faults ------------------------------------------------------------------------------------

CONSTANT = normal(0)
CONSTANT[:, 2] = 1.0
FAULTS = [
    ({"a": normal(0), "b": normal(1)[:, :2]}, r"differ in dimension \(a: 4, b: 2\)"),
    ({"a": normal(0)[:50]}, "a: holds 50 samples: at least 100"),
    ({"a": np.full((200, DIM), np.nan)}, "a: x has 800 values that are NaN"),
    ({"a": normal(0)[:, 0]}, r"a: x must have shape \(N, D\)"),
    ({"a": (normal(0), -normal(0))}, r"a: is a tuple: .* rows.open\(x, score\)"),
    ({"a": CONSTANT, "b": CONSTANT}, "column 2 of x does not vary"),
    ({}, "sets is empty"),
    ([normal(0), normal(1)], r'sets must be a dict of sample sets by name, {"first": x, "second": y}, got list'),
]


@pytest.mark.parametrize(("sets", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_faults_name_the_set(sets, message):
    with pytest.raises(ValueError, match=message):
        compare(sets, score_fn, key=0)


def test_sets_bring_their_own_scores():
    """Those of an adapter, or rows with scores; one array cannot be the scores of two sets."""
    x, y = normal(0), 1.3 * normal(1)
    expected = compare({"a": x, "b": y}, score_fn, key=0)
    inside = {name: ss.adapters.Draws(z[None], score_fn(z)[None], "abcd") for name, z in {"a": x, "b": y}.items()}
    assert compare(inside, key=0) == compare({name: draws.x for name, draws in inside.items()}, score_fn, key=0)
    rows = {"a": ss.rows.open(x, score_fn(x)), "b": ss.rows.open(y, score_fn(y))}
    assert compare(rows, key=0) == expected
    with pytest.raises(ss.InputError, match=r"score must be a function.*for every set has its own rows, got ndarray"):
        compare({"a": x, "b": y}, score_fn(x), key=0)
    with pytest.raises(ss.InputError, match="a: score is missing"):
        compare({"a": x, "b": y}, key=0)


def test_the_share_that_chooses_lies_between_zero_and_one():
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="train_fraction must lie between 0 and 1"):
            compare({"a": normal(0)}, score_fn, key=0, train_fraction=share)


def test_a_set_with_a_column_that_is_stuck_is_measured():
    """In the pool it varies, in this set it does not: that is what a ranking is to find."""
    ranked = compare({"stuck": CONSTANT, "right": normal(1)}, score_fn, key=0)
    assert [q.name for q in ranked] == ["right", "stuck"]
    assert ranked[1].behind > 3


def test_chains_too_short_to_be_split_are_named():
    sets = {name: np.random.default_rng(i).standard_normal((50, 2, 3)) for i, name in enumerate("ab")}
    with pytest.raises(ss.InputError, match="a: chains of 2 draws cannot be split"):
        ss.quality.compare(sets, lambda x: -x, key=0)
