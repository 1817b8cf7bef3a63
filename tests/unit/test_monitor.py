"""Watching a run: the sums are those of all draws, memory is bounded, and looking often costs no level."""

import numpy as np
import pytest

import slicestein as ss
from slicestein.gof import Monitor, measure, monitor
from tests.unit.standard_input import autoregression, normal


def score_fn(x):
    return -x


def test_what_comes_in_parts_is_what_comes_at_once():
    x = autoregression(0.5, 3, 4000, 2)
    once, parts = (Monitor(score_fn, key=0) for _ in range(2))
    once.update(x)
    for start, stop in zip([0, 1, 3, 400, 401, 3000], [1, 3, 400, 401, 3000, 4000], strict=True):
        parts.update(x[:, start:stop])
    one, other = once.verdict(), parts.verdict()
    np.testing.assert_allclose(one.statistic, other.statistic, rtol=1e-6)
    assert one.pvalue == other.pvalue
    assert (one.num_train, one.num_test) == (1002, 12_000 - 1002)
    np.testing.assert_array_equal(one.ess, other.ess)
    np.testing.assert_array_equal(one.rhat, other.rhat)


def test_sums_are_those_of_all_draws_and_blocks_are_few():
    x = normal(3, 5001, 2)
    watched = Monitor(key=0, train=(normal(500, 2, seed=1), score_fn))
    for part in np.array_split(x, 23, axis=1):
        watched.update(part, -part)
    assert watched._block == 16  # 341 blocks of a chain at most
    for c, span in enumerate(watched._spans):
        direct = measure.measure(watched._plan, x[c], -x[c], np.append(np.arange(16, 5001, 16), 5001))
        for found, expected in zip(span.sums, direct, strict=True):
            if expected is None:  # the covariance of parameters that are not correlated
                assert found is None
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_what_is_kept_of_the_draws_is_bounded_and_spread_over_all(monkeypatch):
    monkeypatch.setattr(monitor, "SHORTEST_STRETCH", 100)
    monkeypatch.setattr(monitor, "STRETCH_VALUES", 0)
    watched = Monitor(score_fn, key=0, train=(normal(500, 1), score_fn))
    x = np.arange(1000.0)[None, :, None]
    for part in np.array_split(x, 7, axis=1):
        watched.update(part)
    np.testing.assert_array_equal(watched._seen.begin[0, :, 0], np.arange(100))
    np.testing.assert_array_equal(watched._seen.spread[0, :, 0], np.arange(0, 1000, 16))


def test_looking_again_without_draws_costs_nothing():
    watched = Monitor(score_fn, key=0, names=["a", "b"])
    watched.update(normal(2000, 2))
    first = watched.verdict()
    assert watched.verdict() is first
    assert (watched.looks, first.alpha) == (1, 0.025)
    watched.update(normal(1, 2, seed=1))  # a single draw
    second = watched.verdict()
    assert (watched.looks, second.alpha) == (2, pytest.approx(0.05 / 6))
    assert "look 2, at level 0.0083" in str(second)
    assert watched.pvalue == min(1, 2 * first.pvalue, 6 * second.pvalue)
    assert second.parameters[0].name in ("a", "b")


def test_a_late_look_can_still_reject():
    watched = Monitor(score_fn, key=0, num_bootstrap=19)
    for i in range(13):
        watched.update(normal(500, 2, seed=i) * [1, 1.2])
        if i > 1:
            result = watched.verdict()
    assert watched.looks == 11
    assert len(result.null_distribution) == 2 * 11 * 12 / 0.05
    assert result.reject
    assert watched.rejected
    assert watched.pvalue <= 0.05


def test_chains_that_disagree_are_found():
    x = autoregression(0.5, 4, 1500, 2)
    x[2] += 2
    watched = Monitor(score_fn, key=0, train=(normal(1000, 2), score_fn))
    watched.update(x)
    result = watched.verdict()
    assert result.verdict == "wrong"
    assert result.stray_chain == 2
    assert result.rhat.max() > 1.1


@pytest.mark.slow
@pytest.mark.statistical
def test_many_looks_reject_a_right_model_as_rarely_as_one():
    """Ten looks at level 0.05 each would reject a fifth of right models."""
    rejected = naive = 0
    for seed in range(150):
        watched = Monitor(score_fn, key=seed, num_bootstrap=199, plan_draws=400)
        x = normal(4400, 2, seed=seed)
        watched.update(x[:400])
        found = []
        for part in np.array_split(x[400:], 6):
            watched.update(part)
            found.append(watched.verdict().pvalue)
        rejected += watched.rejected
        naive += min(found) <= 0.05
    assert rejected <= 15  # binomial(150, 0.05), 99.5%
    assert naive > rejected


def test_faults():
    watched = Monitor(score_fn, key=0)
    with pytest.raises(ss.InputError, match="50 more are the least to test; 0 came"):
        watched.verdict()
    watched.update(normal(2, 300, 3))
    for draws, options, message in [
        (normal(3, 10, 3), {}, "draws came in 2 chains of dimension 3, now in 3 of dimension 3"),
        (normal(2, 10, 4), {}, "now in 2 of dimension 4"),
        (np.full((2, 10, 3), np.nan), {}, "draws has 60 values that are NaN"),
        (normal(2, 10, 3), {"score": normal(2, 9, 3)}, "must have the shape of draws"),
    ]:
        with pytest.raises(ss.InputError, match=message):
            watched.update(draws, **options)
    with pytest.raises(ss.InputError, match="score is missing"):
        Monitor(key=0).update(normal(100, 2))
    with pytest.raises(ss.InputError, match="draws have dimension 3, those of train 2"):
        Monitor(score_fn, key=0, train=(normal(100, 2), score_fn)).update(normal(100, 3))
    for options, message in [({"alpha": 0}, "alpha must lie"), ({"plan_draws": 5}, "plan_draws must be at least 20")]:
        with pytest.raises(ss.InputError, match=message):
            Monitor(score_fn, key=0, **options)
    with pytest.raises(ss.InputError, match="score must be a function"):
        Monitor(normal(10, 2), key=0)


def test_a_handful_of_draws_is_not_judged_and_costs_no_look():
    monitor = ss.gof.Monitor(lambda x: -x, key=0)
    monitor.update(np.random.default_rng(0).standard_normal((1020, 3)))
    with pytest.raises(ss.InputError, match="50 more are the least to test; 1020 came"):
        monitor.verdict()
    assert monitor.looks == 0


def test_a_monitor_says_where_it_stands():
    monitor = Monitor(lambda x: -x, key=0, plan_draws=400)
    assert repr(monitor) == "Monitor: 0 draws measured, not looked at yet; verdict() looks"
    monitor.update(1.5 * np.random.default_rng(0).standard_normal((4, 300, 2)))
    monitor.verdict()
    assert repr(monitor) == "Monitor: 800 draws measured, found wrong in 1 look; verdict() looks"
