"""R-hat and effective sample size from closed forms; a chain that is elsewhere is found, at its level."""

import numpy as np
import pytest
from scipy import stats

import slicestein as ss
from slicestein.gof import chains, null
from slicestein.gof.measure import Sums, block_ends
from tests.unit.standard_input import assert_calibrated, autoregression, normal

DTYPES = ["float64", "float32"]


def normal_scores_by_hand(x):
    """Blom's scores of the ranks among all draws, column by column."""
    count, out = x.shape[0] * x.shape[1], np.empty(x.shape)
    for d in range(x.shape[2]):
        flat = x[:, :, d].ravel()
        ranks = np.array([np.sum(flat < value) + (np.sum(flat == value) + 1) / 2 for value in flat])
        out[:, :, d] = stats.norm.ppf((ranks - 3 / 8) / (count + 1 / 4)).reshape(x.shape[:2])
    return out


# --- R-hat -------------------------------------------------------------------------------------


def test_rhat_by_hand():
    """Two chains of five draws: halves of two, the middle one left out."""
    x = np.array([[3.0, 1.0, 9.0, 4.0, 1.5], [2.0, 6.0, 7.0, 8.0, 5.0]])[:, :, None]
    halves = np.stack([x[0, :2], x[1, :2], x[0, -2:], x[1, -2:]])

    def plain(z):
        z = normal_scores_by_hand(z)[:, :, 0]
        within = np.mean([np.sum((row - row.mean()) ** 2) for row in z])  # / (2 - 1)
        between = 2 * np.sum((z.mean(1) - z.mean()) ** 2) / 3
        return np.sqrt((within / 2 + between / 2) / within)

    expected = max(plain(halves), plain(np.abs(halves - np.median(halves))))
    np.testing.assert_allclose(chains.rhat(x), [expected], rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rhat_of_chains_that_agree_is_near_one(dtype):
    found = chains.rhat(normal(4, 1000, 20).astype(dtype))
    assert np.all((found > 0.999) & (found < 1.01))


def test_rhat_sees_location_spread_and_drift():
    x = normal(4, 500, 4)
    x[1, :, 1] += 1  # a chain is elsewhere
    x[1, :, 2] *= 4  # a chain is wider
    x[:, :, 3] += np.linspace(0, 3, 500)[:, None].T  # all chains drift alike
    found = chains.rhat(x)
    assert found[0] < 1.01
    assert np.all(found[1:] > 1.05)


@pytest.mark.parametrize("shape", [(4, 50), (2, 8), (3, 101)])
def test_rhat_of_chains_that_are_stuck_is_infinite_where_they_disagree(shape):
    """Within a chain nothing varies: a quotient of 0 would make it the best R-hat of all."""
    places = np.linspace(0.1, 0.7, shape[0])
    x = np.broadcast_to(places[:, None, None], (*shape, 1))
    assert chains.rhat(x) == [np.inf]
    assert chains.ess(x) <= 2.5 * shape[0]
    assert chains.rhat(np.full((*shape, 1), 0.1)) == [1.0]
    assert chains.ess(np.full((*shape, 1), 0.1)) == [shape[0] * (shape[1] // 2 * 2)]


def test_rhat_of_two_values_is_a_number():
    """Around the median their distances are all the same: nothing to compare, and no 0 / 0."""
    x = np.sign(normal(4, 100, 1))
    assert 0.99 < chains.rhat(x)[0] < 1.05


def test_rank_normalised_values_do_not_change_with_monotone_maps():
    x = normal(4, 200, 2)
    np.testing.assert_allclose(chains.ess(np.exp(3 * x)), chains.ess(x), rtol=1e-12)
    location = chains._plain_rhat(chains._normal_scores(chains._split(x)))
    np.testing.assert_allclose(chains._plain_rhat(chains._normal_scores(chains._split(np.exp(x)))), location)


def test_normal_scores_are_blom_scores_with_ties_averaged():
    x = np.round(normal(3, 20, 2), 1)
    np.testing.assert_allclose(chains._normal_scores(x), normal_scores_by_hand(x), rtol=1e-10)


# --- effective sample size ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_ess_of_an_autoregression(rho, dtype):
    x = autoregression(rho, 4, 5000, 3).astype(dtype)
    np.testing.assert_allclose(chains.ess(x), 20_000 * (1 - rho) / (1 + rho), rtol=0.15)


def test_ess_of_draws_that_alternate_is_capped():
    """More than independent draws, but at most N log10 N."""
    found = chains.ess(autoregression(-0.5, 4, 1000, 2))
    np.testing.assert_allclose(found, 4000 * 3, rtol=0.2)
    np.testing.assert_allclose(chains.ess(autoregression(-0.95, 4, 1000, 2)), 4000 * np.log10(4000), rtol=1e-10)


def test_ess_of_chains_that_disagree_is_about_their_number():
    x = normal(4, 1000, 1) + 10 * np.arange(4.0)[:, None, None]
    assert chains.ess(x)[0] < 10


def geyer(rho):
    """Geyer's initial monotone sequence, lag by lag as ArviZ and Stan have it."""
    draws = len(rho)
    kept, lag, even, odd = [1.0, rho[1]], 1, 1.0, rho[1]
    while lag < draws - 3 and even + odd > 0:
        even, odd = rho[lag + 1], rho[lag + 2]
        kept += [even, odd] if even + odd >= 0 else [0.0, 0.0]
        lag += 2
    last = lag - 2
    if even > 0:
        kept[last + 1] = even
    for t in range(1, last - 1, 2):
        if kept[t + 1] + kept[t + 2] > kept[t - 1] + kept[t]:
            kept[t + 1] = kept[t + 2] = (kept[t - 1] + kept[t]) / 2
    return -1 + 2 * sum(kept[: last + 1]) + kept[last + 1]


@pytest.mark.parametrize("rho", [0.9, 0.5, 0.0, -0.3])
@pytest.mark.parametrize(("num", "draws"), [(2, 10), (4, 15), (4, 100), (3, 1001)])
def test_ess_is_the_sum_lag_by_lag(rho, num, draws):
    x = autoregression(rho, num, draws, 5, seed=draws)
    for d, found in enumerate(chains.ess(x)):
        z = chains._normal_scores(chains._split(x[:, :, d : d + 1]))[:, :, 0]
        count, length = z.shape
        deviations = z - z.mean(1, keepdims=True)
        lagged = [np.mean([row[: length - k] @ row[k:] for row in deviations]) / length for k in range(length)]
        within = lagged[0] * length / (length - 1)
        total = lagged[0] + np.sum((z.mean(1) - z.mean()) ** 2) / (count - 1)
        tau = geyer([1 - (within - c) / total for c in lagged])
        np.testing.assert_allclose(found, z.size / max(tau, 1 / np.log10(z.size)), rtol=1e-9)


def test_eight_draws_of_a_slow_chain_are_not_independent():
    x = autoregression(0.95, 4, 8, 10)
    assert np.median(chains.ess(x)) < 16


# --- a chain that is elsewhere -----------------------------------------------------------------


def disagreement(x, seed=0, num_bootstrap=199, most=1024):
    """Of chains (chains, draws, D), in at most so many blocks."""
    num, draws, dim = x.shape
    ends = block_ends(num, draws, most)
    positions = np.add.reduceat(x.reshape(-1, dim), np.concatenate([[0], ends[:-1]]), axis=0)
    sums = Sums(np.diff(ends, prepend=0), np.zeros((len(ends), 1, 1)), positions=positions)
    found = chains.disagreement(sums, num, np.random.default_rng(seed), num_bootstrap)
    assert found.shape == (num_bootstrap + 1, num)
    return found


def pvalue(of_chains):
    largest = of_chains.max(1)
    return null.pvalue(largest[0], largest[1:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_chain_that_is_elsewhere_is_named(dtype):
    x = normal(4, 100, 3)
    x[2, :, 1] += 1.5
    of_chains = disagreement(x.astype(dtype))
    assert of_chains[0].argmax() == 2
    assert pvalue(of_chains) == 0.005


def test_a_chain_that_is_elsewhere_and_hardly_moves_is_named():
    x = normal(4, 100, 3)
    x[2] = 3 + 1e-3 * x[2]
    of_chains = disagreement(x)
    assert of_chains[0].argmax() == 2
    assert pvalue(of_chains) == 0.005


@pytest.mark.parametrize("dtype", DTYPES)
def test_chains_that_are_all_stuck_disagree_and_give_numbers(dtype):
    x = np.broadcast_to(np.arange(4.0)[:, None, None] / 3, (4, 100, 2)).astype(dtype)
    of_chains = disagreement(x)
    assert np.isfinite(of_chains).all()
    assert pvalue(of_chains) == 0.005
    assert pvalue(disagreement(np.full((4, 100, 2), 1 / 3, dtype))) == 1


def test_means_of_slow_chains_may_differ_by_more():
    """The same distance between chains: an error for independent draws, nothing for draws that are worth a tenth."""
    shift = 0.5 * np.array([1.0, 0, 0, 0])[:, None, None]
    for rho, found in ((0.0, True), (0.9, False)):
        x = autoregression(rho, 4, 400, 1)
        assert (pvalue(disagreement(x - x.mean(1, keepdims=True) + shift)) <= 0.05) == found


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rho", "num", "draws", "dim"), [(0.0, 4, 400, 3), (0.6, 4, 200, 3), (0.9, 4, 800, 3), (0.6, 8, 200, 20)]
)
def test_chains_that_agree_disagree_at_the_level(rho, num, draws, dim):
    """With signs that persist for their noise 0.30, 0.35 and more of the last three would be called different."""
    x = autoregression(rho, num, draws, dim, trials=(400,)).astype(np.float32)
    found = sum(pvalue(disagreement(chains, seed)) <= 0.05 for seed, chains in enumerate(x))
    assert_calibrated(found, 400)


@pytest.mark.statistical
def test_blocks_of_draws_have_the_level_too():
    x = autoregression(0.6, 4, 2000, 2, trials=(400,))
    assert_calibrated(sum(pvalue(disagreement(chains, seed, most=400)) <= 0.05 for seed, chains in enumerate(x)), 400)


@pytest.mark.statistical
def test_the_test_of_chains_that_mix_has_its_level():
    """All of it: what compares chains is one of the entries of the largest."""
    x = autoregression(0.6, 4, 250, 3, trials=(200,)).astype(np.float32)
    found = [ss.gof_test(chains, -chains, key=seed, num_bootstrap=199) for seed, chains in enumerate(x)]
    assert_calibrated(sum(result.reject for result in found), 200)
    assert sum(result.stray_chain is not None for result in found) <= 8  # level 0.01


def test_ranks_are_those_of_scipy():
    values = np.random.default_rng(0).integers(0, 9, 50) / 4
    np.testing.assert_array_equal(chains._average_ranks(values), stats.rankdata(values))


def test_one_parameter_that_is_narrow_is_found_and_named_beside_a_slow_one():
    """Signs that persist as the slow one asks for would widen the null by the error of the fast one."""
    slow = autoregression(np.array([0.95, 0, 0, 0, 0, 0]), 4, 250, 6, trials=(20,))
    x = slow * [1, 1, 1, 0.82, 1, 1]
    found = [ss.gof_test(chains, -chains, key=seed) for seed, chains in enumerate(x)]
    named = [result.reject and result.parameters[0].name == "x[3]" for result in found]
    assert sum(named) >= 18
    assert sum(result.parameters[0].finding == "too narrow" for result in found) >= 18


def test_chains_that_change_for_good_are_not_taken_for_right_ones():
    """The last third is twice as wide, all of it: nothing tells this from a memory as long as the chain."""
    x = np.random.default_rng(0).standard_normal((1, 3000, 2))
    x[:, 2000:] *= 2
    result = ss.gof_test(x, -x, key=0)
    assert result.verdict != "fits"
    assert result.reject or "the chains have not settled: x[" in result.reason
