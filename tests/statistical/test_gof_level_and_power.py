"""The level and the power of the tests, by repetition. Bounds are two-sided: a test that never rejects fails too."""

import numpy as np
import pytest
import scipy.stats

import slicestein as ss
from slicestein.gof import KSD, MaxSKSD
from slicestein.gof.words import detectable
from tests.unit.standard_input import autoregression

AXIS = np.eye(8)[3]

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def pvalues(draw, trials, num_bootstrap=199, **options):
    return np.array(
        [
            ss.gof_test(
                *draw(np.random.default_rng([1, seed])), key=seed, num_bootstrap=num_bootstrap, **options
            ).pvalue
            for seed in range(trials)
        ]
    )


def gaussian(rng, n=300, d=8):
    x = rng.standard_normal((n, d))
    return x, -x


def assert_level(p, level=0.05, confidence=0.999):
    low, high = scipy.stats.binom.interval(confidence, len(p), level)
    assert 0 < low <= np.sum(p <= level) <= high


@pytest.mark.parametrize(
    "method",
    [MaxSKSD("g", bootstrap="multinomial"), MaxSKSD(), MaxSKSD(omnibus=False, bootstrap="eigenvalues"), KSD()],
    ids=["g, multinomial", "rg, wild", "fitted slices, eigenvalues", "ksd"],
)
def test_pvalues_are_uniform_under_the_model(method):
    p = pvalues(gaussian, 400, method=method)
    assert_level(p)
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.001


@pytest.mark.parametrize("num_bootstrap", [19, 99])
def test_the_level_is_kept_at_every_number_of_draws(num_bootstrap):
    """Of the largest of many entries too: standardised without the statistic it would be 0.12 at 19 draws."""
    assert_level(pvalues(gaussian, 400, num_bootstrap))


def test_the_level_is_kept_with_few_samples_for_the_dimension():
    """The largest of 50 parameters: terms with long tails, or with skewness, would be seen here."""
    assert_level(pvalues(lambda rng: gaussian(rng, 200, 50), 300))


def test_the_level_is_kept_for_a_model_that_is_not_gaussian():
    """Correlated and skewed: x = log of a gamma variable, mixed."""
    mix = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0] * np.linspace(0.5, 3, 6)

    def draw(rng):
        z = np.log(rng.gamma(2.0, size=(400, 6)))
        return z @ mix.T, (2 - np.exp(z)) @ np.linalg.inv(mix)

    assert_level(pvalues(draw, 300))


@pytest.mark.parametrize("coefficient", [0.8, -0.5])
def test_the_level_is_kept_for_chains(coefficient):
    """AR(1) that targets the model. The dependent bootstrap is good to some hundredths, not to binomial bounds."""

    def draw(rng):
        x = autoregression(coefficient, 4, 300, 4, seed=int(rng.integers(2**31)))
        return x, -x

    rate = np.mean(pvalues(draw, 200) <= 0.05)
    assert 0.005 <= rate <= 0.11  # 0.03 to 0.07, widened by some two and a half standard errors


def test_the_bootstrap_for_independent_samples_rejects_a_chain():
    def draw(rng):
        x = autoregression(0.8, 1, 1000, 4, seed=int(rng.integers(2**31)))
        return x, -x

    with pytest.warns(UserWarning, match="serially correlated"):
        assert np.mean(pvalues(draw, 30, method=MaxSKSD(bootstrap="wild")) <= 0.05) > 0.5


WRONG = {
    "laplace": lambda rng, x: rng.laplace(scale=np.sqrt(0.5), size=x.shape),
    "diffusion": lambda rng, x: x * np.where(np.arange(x.shape[1]) == 0, np.sqrt(0.3), 1),
    "one variance of 0.7": lambda rng, x: x * np.where(np.arange(x.shape[1]) == 7, np.sqrt(0.7), 1),
    "one mean of 0.25": lambda rng, x: x + np.where(np.arange(x.shape[1]) == 7, 0.25, 0),
    "rotated laplace": lambda rng, x: rng.laplace(scale=np.sqrt(0.5), size=x.shape) @ TURN,
    "some draws too far": lambda rng, x: x * np.where(rng.random((len(x), 1)) < 0.03, 2.0, 1),
}
TURN = np.linalg.qr(np.random.default_rng(3).standard_normal((50, 50)))[0]


@pytest.mark.parametrize("problem", WRONG)
def test_power_in_fifty_dimensions(problem):
    def draw(rng):
        x = WRONG[problem](rng, rng.standard_normal((1000, 50)))
        return x, -x

    assert np.mean(pvalues(draw, 12) <= 0.05) >= 11 / 12  # each has a power of 0.98 and more


@pytest.mark.parametrize("method", ["maxsksd-g", MaxSKSD(omnibus=False)])
def test_fitted_slices_alone_find_one_narrow_coordinate(method):
    def draw(rng):
        x = rng.standard_normal((1000, 50))
        x[:, 0] *= np.sqrt(0.3)
        return x, -x

    assert np.all(pvalues(draw, 5, method=method) <= 0.05)


def test_many_samples_cost_no_level():
    assert_level(pvalues(lambda rng: gaussian(rng, 20_000, 3), 150, 99))


@pytest.mark.parametrize(("moved", "widened"), [(1, 0), (0, -1), (0, 1)], ids=["moved", "narrow", "wide"])
@pytest.mark.parametrize("chains", [False, True], ids=["independent", "chains"])
def test_an_error_as_large_as_the_words_say_is_most_likely_seen(moved, widened, chains):
    trials = 50

    def draw(seed):
        x = np.random.default_rng([2, seed]).standard_normal((400, 8))
        return autoregression(0.5, 4, 250, 8, seed=seed) if chains else x

    good = [ss.gof_test(x, -x, key=0, num_bootstrap=199) for x in map(draw, range(trials, trials + 5))]
    shift, spread = np.mean([detectable(result) for result in good], axis=0)

    def found(size):
        changed = lambda x: x * (1 + size * spread * widened * AXIS) + size * shift * moved * AXIS
        samples = (changed(draw(seed)) for seed in range(trials))
        return sum(ss.gof_test(x, -x, key=seed, num_bootstrap=199).reject for seed, x in enumerate(samples))

    # Chains find more than the words say: their errors are known from few values. Half as large, most are missed.
    assert scipy.stats.binom.ppf(0.001, trials, 0.9) <= found(1)
    assert found(0.5) <= scipy.stats.binom.ppf(0.999, trials, 0.5)
