"""Ranking of sample sets: the order is right, and the standard error is that of repeated samples."""

import jax.numpy as jnp
import numpy as np
import pytest

from slicestein.quality import compare

DIM = 4


def normal(seed, count=1000):
    return np.random.default_rng(seed).standard_normal((count, DIM))


def score_fn(x):
    return -x


def test_worse_samples_rank_behind():
    sets = {"wide": 1.4 * normal(0), "right": normal(1), "narrow": 0.8 * normal(2)}
    ranked = compare(sets, score_fn, key=0)
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


@pytest.mark.slow
def test_the_standard_error_is_that_of_repeated_samples():
    reference = 1.5 * normal(99)  # keeps the ruler about the same
    found = [
        {q.name: q for q in compare({"a": 1.3 * normal(i), "b": reference}, score_fn, key=0)}["a"] for i in range(20)
    ]
    spread = np.std([q.discrepancy for q in found], ddof=1)
    # 20 repetitions know a standard deviation to a factor of about 1.4; the ruler adds some spread of its own.
    assert 0.5 < np.mean([q.standard_error for q in found]) / spread < 2


@pytest.mark.slow
def test_dependence_along_chains_widens_the_error():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((4, 2000, DIM))
    slow = noise.copy()
    for t in range(1, 2000):
        slow[:, t] = 0.95 * slow[:, t - 1] + np.sqrt(1 - 0.95**2) * noise[:, t]
    ranked = {q.name: q for q in compare({"slow": 1.2 * slow, "fast": 1.2 * noise}, score_fn, key=0)}
    assert ranked["slow"].standard_error > 2 * ranked["fast"].standard_error


FAULTS = [
    ({"a": normal(0), "b": normal(1)[:, :2]}, r"differ in dimension \(a: 4, b: 2\)"),
    ({"a": normal(0)[:50]}, "a: holds 50 samples: at least 100"),
    ({"a": np.full((200, DIM), np.nan)}, "a: x has 800 values that are NaN"),
    ({"a": normal(0)[:, 0]}, r"a: x must have shape \(N, D\)"),
]


@pytest.mark.parametrize(("sets", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_faults_name_the_set(sets, message):
    with pytest.raises(ValueError, match=message):
        compare(sets, score_fn, key=0)


def test_all_blocks_have_one_length():
    from slicestein.quality import _whole_blocks

    blocks = _blocks(jnp.arange(3 * 25).reshape(3, 25, 1))
    assert blocks.shape == (21, 3, 1)
    assert int(blocks[-1, -1, 0]) == 74
    assert set(np.unique(np.diff(blocks[..., 0], axis=1))) == {1}
