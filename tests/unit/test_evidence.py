"""Evidence of one statistic, and of several together."""

import numpy as np
import pytest
from scipy import stats

from slicestein.gof.evidence import as_deviations, combined, evidence


def test_evidence_of_a_known_null_is_minus_the_logarithm_of_its_p_value():
    null = np.random.default_rng(0).exponential(size=200_000)
    x = np.array([0.1, 1.0, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(evidence(x, null), x, atol=0.1)  # P(X > x) = exp(-x), far beyond the sample too
    assert np.all(evidence(np.array([3.0, 4.0]), np.random.default_rng(0).standard_normal(999)) > [5, 7])


@pytest.mark.parametrize("count", [20, 100, 1001])
def test_evidence_is_finite_and_keeps_the_order_of_the_values(count):
    values = np.random.default_rng(1).standard_normal(count)
    values[0] = 1e6
    found = evidence(values)
    assert np.isfinite(found).all()
    assert np.all(found > 0)
    order = np.argsort(values)
    assert np.all(np.diff(found[order]) >= 0)
    assert found[0] > 100  # not measured by its own size


def test_a_null_without_spread_says_nothing():
    assert not evidence(np.ones(50)).any()
    assert not evidence(np.r_[5.0, np.zeros(49)]).any()


def test_evidence_together_is_that_of_the_weighted_harmonic_mean_of_p_values():
    pvalues, weights = np.array([[0.5, 0.01], [0.02, 0.3], [0.9, 0.04]]), np.array([1.0, 2.0, 5.0])
    expected = weights.sum() / (weights[:, None] / pvalues).sum(0)
    np.testing.assert_allclose(combined(list(-np.log(pvalues)), weights), -np.log(expected))


def test_deviations_are_those_of_a_normal_variable():
    np.testing.assert_allclose(as_deviations(-stats.norm.logsf([0.0, 1.0, 6.0, 40.0])), [0, 1, 6, 40], atol=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("num_bootstrap", [19, 99])
def test_several_statistics_together_keep_the_level(num_bootstrap):
    """Nulls with long and short tails, one of them much noisier than the others."""
    rng = np.random.default_rng(2)
    trials, hits = 4000, 0
    for _ in range(trials):
        columns = [*rng.chisquare([1, 50], (num_bootstrap + 1, 2)).T, rng.standard_cauchy(num_bootstrap + 1)]
        together = combined([evidence(column) for column in columns], [1, 3, 1])
        hits += np.mean(together >= together[0]) <= 0.05
    assert stats.binomtest(hits, trials, 0.05).pvalue > 1e-3
