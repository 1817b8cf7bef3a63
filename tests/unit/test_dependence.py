"""How long chains remember: autocorrelation times, and what the bootstrap makes of them."""

import warnings

import numpy as np
import pytest
from scipy import stats

from slicestein.gof import dependence, null
from slicestein.gof.method import CorrelatedDraws, warn_of_dependence
from slicestein.rows.arrays import as_chains
from tests.unit.standard_input import autoregression, normal

DTYPES = ["float64", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chains", [1, 4])
def test_autocorrelation_time_of_an_autoregression(chains, dtype):
    """(1 + rho) / (1 - rho). The window makes it noisy by sqrt(2 (8 tau + 1) / N), 6% for the slowest."""
    x = autoregression(np.array([0.0, 0.5, 0.8]), chains, 40_000 // chains, 3).astype(dtype)
    tau = dependence.autocorrelation_times(x)
    np.testing.assert_allclose(tau, [1.0, 3.0, 9.0], rtol=0.15)


@pytest.mark.parametrize(("chains", "draws"), [(1, 400), (4, 100)])
def test_short_chains_are_not_taken_for_fast_ones(chains, draws):
    """The mean of a chain takes its share of every autocorrelation: not given back, 9 becomes 5 in chains of 100."""
    tau = [dependence.autocorrelation_times(x)[0] for x in autoregression(0.8, chains, draws, 1, trials=(400,))]
    assert 7 < np.mean(tau) < 11


def test_time_is_the_sum_over_the_window_by_hand():
    """Autocovariances pair by pair, summed to the first lag beyond so many times the sum."""
    x = autoregression(0.6, 2, 300, 1)
    length = x.shape[1]
    deviations = x[:, :, 0] - x[:, :, 0].mean(1, keepdims=True)
    lagged = [sum(chain[: length - k] @ chain[k:] for chain in deviations) for k in range(length)]
    tau, window = 1.0, 0
    while window < dependence.WINDOW * tau:
        window += 1
        tau += 2 * lagged[window] / lagged[0]
    expected = tau * (1 + (2 * window + 1) / length) / (1 + tau / length)
    np.testing.assert_allclose(dependence.autocorrelation_times(x), expected, rtol=1e-10)


def test_the_variance_of_a_mean_is_that_of_so_many_fewer_samples():
    rho, draws = 0.7, 1000
    means = autoregression(rho, 2000, draws, 1)[:, :, 0].mean(1)
    tau = dependence.autocorrelation_times(autoregression(rho, 4, 10_000, 1, seed=1))[0]
    np.testing.assert_allclose(means.var() * draws, tau, rtol=0.15)


@pytest.mark.parametrize("dtype", DTYPES)
def test_chains_that_disagree_are_not_slow(dtype):
    """Each is looked at around its own mean: that they are elsewhere is for `chains` to find."""
    x = (normal(4, 250, 2) + 10 * np.arange(4.0)[:, None, None]).astype(dtype)
    assert np.all(dependence.autocorrelation_times(x) < 2)
    np.testing.assert_allclose(
        dependence.autocorrelation_times(x), dependence.autocorrelation_times(normal(4, 250, 2)), rtol=1e-3
    )
    assert dependence.autocorrelation_times(x.reshape(1, 1000, 2))[0] > 50  # one chain that does this *is* slow


def test_one_chain_is_the_average_of_chains_that_are_alike():
    x = autoregression(0.5, 1, 500, 2)
    np.testing.assert_allclose(
        dependence.autocorrelation_times(np.concatenate([x, x + 5, -x])), dependence.autocorrelation_times(x)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_column_that_does_not_vary_is_not_slow(dtype):
    x = normal(2, 300, 3).astype(dtype)
    x[:, :, 1] = 1 / 3
    assert dependence.autocorrelation_times(x)[1] == 1
    assert dependence.flip_probability(np.full((1, 1000, 5), 1 / 3, dtype)) == 0.5


def test_times_are_at_least_one_for_draws_that_alternate():
    x = autoregression(-0.8, 1, 4000, 2)
    np.testing.assert_array_equal(dependence.autocorrelation_times(x), 1)


def test_a_long_chain_is_judged_by_its_first_stretch(monkeypatch):
    x = autoregression(0.5, 2, 1000, 2)
    monkeypatch.setattr(dependence, "LONGEST_STRETCH", 300)
    np.testing.assert_array_equal(
        dependence.autocorrelation_times(x), dependence.autocorrelation_times(np.ascontiguousarray(x[:, :300]))
    )
    with_squares = dependence.times_with_squares(x)
    np.testing.assert_array_equal(with_squares, dependence.times_with_squares(x[:, :300]))


def test_far_from_the_origin_single_precision_is_enough():
    x = autoregression(0.8, 2, 1000, 2)
    far = (x + 1000).astype(np.float32)
    np.testing.assert_allclose(dependence.times_with_squares(far), dependence.times_with_squares(x), rtol=0.01)


# --- the bootstrap -----------------------------------------------------------------------------


def test_flip_probability_falls_with_dependence_and_stays_in_bounds():
    def of(coefficient, dim=5, chains=1):
        return dependence.flip_probability(autoregression(coefficient, chains, 1000 // chains, dim))

    assert 0.5 >= of(0.0) > 0.1 > of(0.5) > of(0.8) > of(0.99) >= 5 / 1000
    assert of(np.array([0.9, 0, 0, 0, 0])) < of(0.5)  # one slow parameter among fast ones counts
    # Each chain starts afresh, so that fewer flips are needed to keep all signs of a draw from being equal.
    assert of(0.999, chains=4) >= (5 - 3 * np.log(2)) / 1000
    assert isinstance(of(0.5), float)


def test_flip_probability_is_the_formula():
    x = autoregression(np.array([0.3, 0.7]), 2, 500, 2)
    tau = dependence.times_with_squares(x)
    slowness = np.sum(tau**2 * (tau - 1 / tau)) / np.sum(tau**2)
    expected = 0.9 * (1000 * (1 + tau.sum() ** 2 / np.sum(tau**2)) * slowness**2) ** (-1 / 3)
    assert dependence.flip_probability(x) == pytest.approx(min(expected, 0.5), rel=1e-12)


def test_few_draws_of_a_slow_chain_are_rarely_the_statistic():
    """All signs of a draw are equal with a probability below exp(-5)."""
    x = np.cumsum(normal(1, 200, 3), axis=1)  # as slow as can be
    flip = dependence.flip_probability(x)
    signs = null.draw_weights("dependent", np.random.default_rng(0), 20_000, (200,), flip)
    assert np.mean(np.abs(signs.sum(1)) == 200) < 1.5 * np.exp(-5)


def test_alternating_draws_are_not_taken_for_independent_ones():
    """Draws of HMC swing around the mean: their autocorrelation time is 1, that of their squares is not."""
    x, noise = autoregression(-0.8, 1, 4000, 2), normal(1, 4000, 2)
    assert np.all(dependence.autocorrelation_times(x) < 1.5)
    assert dependence.flip_probability(x) < 0.5 * dependence.flip_probability(noise)


@pytest.mark.parametrize(("flip", "rows"), [(0.1, 1), (0.1, 7), (0.02, 30), (0.5, 3)])
def test_signs_of_blocks_flip_as_often_as_signs_of_rows_that_far_apart(flip, rows):
    signs = null.draw_weights("dependent", np.random.default_rng(0), 40_000, (rows + 1,), flip)
    found = np.mean(signs[:, 0] != signs[:, -1])
    np.testing.assert_allclose(dependence.between_blocks(flip, rows), found, atol=4 * 0.5 / np.sqrt(40_000))
    assert dependence.between_blocks(flip, 1) == pytest.approx(flip)


# --- the warning -------------------------------------------------------------------------------


def test_independent_samples_are_warned_of_where_they_look_like_a_chain():
    notes = []
    with pytest.warns(CorrelatedDraws, match=r"autocorrelation time up to \d+.*Pass Markov chains as an array"):
        warn_of_dependence(as_chains(autoregression(0.7, 1, 1000, 3)[0], np.negative), notes)
    assert [note[:36] for note in notes] == ["the samples look serially correlated"]
    one_slow = normal(1000, 20)
    one_slow[:, 3:4] = autoregression(0.9, 1, 1000, 1)[0]
    with pytest.warns(UserWarning, match="serially correlated"):
        warn_of_dependence(as_chains(one_slow, np.negative), [])


@pytest.mark.parametrize(("count", "dim"), [(20, 1), (50, 1), (100, 1), (50, 2), (200, 2), (1000, 10)])
def test_independent_samples_are_rarely_warned_of(count, dim):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x in normal(200, count, dim):
            warn_of_dependence(as_chains(x, np.negative), [])
    assert len(caught) <= 8  # 4%


# --- the law of sums ---------------------------------------------------------------------------


def test_law_of_sums_of_skewed_chains():
    r"""Squares of autoregressions: variance and third cumulant of the sum, against those of many sums.

    For squares of an AR(1) process the cumulants have closed forms: $N \sum_k 2 \\rho^{2 |k|}$ and
    $8 N \\sum_{jk} \\rho^{|j|} \\rho^{|k|} \\rho^{|j - k|}$.
    """
    rho, count = 0.6, 2000
    lags = np.arange(-60, 61)
    variance = count * np.sum(2 * rho ** (2 * np.abs(lags)))
    cumulant = 8 * count * np.sum(rho ** (np.abs(lags) + np.abs(lags[:, None]) + np.abs(lags - lags[:, None])))
    x = autoregression(rho, 4, 500, 1, trials=(400,)) ** 2 - 1
    laws = [dependence.law_of_sums(chains.reshape(-1, 1), 4) for chains in x]
    np.testing.assert_allclose(np.mean([law.variance for law in laws]), variance, rtol=0.06)
    # Stretches that are twice as long as the memory miss a part; single terms would miss three quarters.
    assert 0.6 * cumulant < np.mean([law.cumulant for law in laws]) < 1.1 * cumulant
    assert np.mean([law.cumulant for law in (dependence.law_of_sums(z.reshape(-1, 1), None) for z in x)]) < cumulant / 3


def test_a_variance_is_known_from_as_many_values_as_its_noise_says():
    """Relative variance 2 / known, of independent terms: known from N / (2 W + 1) of them."""
    x = autoregression(0.5, 1, 2000, 1, trials=(600,))
    laws = [dependence.law_of_sums(chain.reshape(-1, 1), 1) for chain in x]
    known = 2 / np.var(np.log([law.variance[0] for law in laws]))
    np.testing.assert_allclose(np.mean([law.known[0] for law in laws]), known, rtol=0.35)


def test_columns_with_the_same_memory_know_each_others():
    """Twice as much is known of every one of them, and the noise of their variances is no larger than that says."""
    x = autoregression(0.5, 4, 500, 20, trials=(60,))
    laws = [dependence.law_of_sums(chains.reshape(-1, 20), 4) for chains in x]
    alone = [dependence.law_of_sums(chains[:, :, :1].reshape(-1, 1), 4) for chains in x]
    known = np.mean([law.known for law in laws])
    assert 1.7 < known / np.mean([law.known for law in alone]) < 2.1
    assert np.var(np.log([law.variance for law in laws])) < 2 / known
    np.testing.assert_allclose(np.mean([law.variance for law in laws]), 3 * 2000, rtol=0.06)


def test_a_slow_column_among_fast_ones_keeps_its_time():
    x = np.concatenate([autoregression(0.2, 4, 500, 19), autoregression(0.9, 4, 500, 1)], axis=2)
    together = dependence.law_of_sums(x.reshape(-1, 20), 4)
    alone = dependence.law_of_sums(x[:, :, 19:].reshape(-1, 1), 4)
    np.testing.assert_allclose(together.variance[19], alone.variance[0])
    np.testing.assert_allclose(together.known[19], alone.known[0])
    assert together.known[19] < together.known[:19].min() / 4


def test_sums_over_an_error_that_is_known_from_few_values_have_the_tails_of_student():
    rng = np.random.default_rng(0)
    found = dependence.with_estimated_error(rng.standard_normal((200_000, 1)), np.array([10.0]), rng)
    np.testing.assert_allclose(np.quantile(np.abs(found), 0.99), stats.t(10).ppf(0.995), rtol=0.02)


def test_huge_and_constant_terms_have_a_law():
    terms = np.column_stack([np.full(40, 3e30), np.linspace(-3e30, 3e30, 40), np.zeros(40)]).astype(np.float32)
    for chains in (None, 4):
        law = dependence.law_of_sums(terms, chains)
        assert np.isfinite(law.variance).all()
        assert np.isfinite(law.cumulant).all()
        assert law.variance[0] > 0  # a chain that does not move has an error all the same
        assert law.variance[2] == 0
