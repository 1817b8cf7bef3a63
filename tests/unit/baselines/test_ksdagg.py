"""KSDAgg: check values, the published search for its level, level and power."""

import numpy as np
import pytest

import slicestein as ss
from slicestein.gof import KSDAgg
from slicestein.gof.baselines.ksdagg import aggregate, aggregated_bandwidths, aggregated_forms, inverse_weights
from tests.unit.standard_input import RTOL, SINGLE, S, X, assert_calibrated, normal, rejections

BANDWIDTHS = [0.3333333333, 0.4882260776, 0.7150941086, 1.047382775, 1.534078753]
STATISTICS = [0.2155863104, 0.3059504515, 0.4056101460, 0.5073281363, 0.5935403409]
QUANTILES = [0.2155863104, 0.3059504515, 0.4056101460, 0.4831597606, 0.5935403409]


def signs_of_the_note():
    """The statistic's signs first: in the note they are between the two hundreds."""
    signs = 2 * np.random.default_rng(11).integers(0, 2, size=(201, 20)) - 1
    signs[100] = 1
    return signs[[100, *range(100), *range(101, 201)]].astype(np.float32)


def published(forms, weights, alpha):
    """The largest u by bisection, the quantiles there, and which kernels reject: step by step as published."""
    count = forms.shape[1] // 2
    first, fresh = np.sort(forms[:, : 1 + count]), forms[:, 1 + count :]

    def quantiles(u):
        index = np.ceil(np.round((1 + count) * (1 - u * weights), 9)).astype(int)
        return first[np.arange(len(forms)), np.maximum(index, 1) - 1]

    low, high = 0.0, np.min(1 / weights)
    for _ in range(50):
        u = (low + high) / 2
        share = np.mean((fresh - quantiles(u)[:, None]).max(0) > 0)
        low, high = (u, high) if share <= alpha else (low, u)
    low = max(low - 1e-6, 0.0)  # away from the step
    return low, quantiles(low), forms[:, 0] > quantiles(low)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", RTOL), ("float32", SINGLE)])
def test_check_values(dtype, rtol):
    x, s = X.astype(dtype), S.astype(dtype)
    bandwidths = aggregated_bandwidths(x, 5)
    np.testing.assert_allclose(bandwidths, BANDWIDTHS, rtol=rtol)
    forms = aggregated_forms(x, s, bandwidths, signs_of_the_note())
    assert forms.dtype == dtype
    np.testing.assert_allclose(forms[:, 0], STATISTICS, rtol=rtol)
    u, quantiles, rejected = published(forms, np.full(5, 0.2), 0.05)
    np.testing.assert_allclose(u, 20 / 101, atol=2e-6)
    np.testing.assert_allclose(quantiles, QUANTILES, rtol=rtol)
    np.testing.assert_array_equal(rejected, [False, False, False, True, False])
    found = aggregate(forms, inverse_weights("uniform", 5))
    # The fourth kernel ranks third, and 4 of the 100 draws have a kernel that ranks as high.
    np.testing.assert_allclose([-found.statistic, found.pvalue], [5 * 3 / 101, 5 / 101], rtol=1e-12)


@pytest.mark.parametrize("weights", ["uniform", "decreasing", "increasing", "centred"])
def test_pvalue_is_the_least_level_at_which_the_published_test_rejects(weights):
    """With c of 60 draws allowed, the published level is c / 60 and ours, which counts the statistic, (c + 1) / 61."""
    inverse = inverse_weights(weights, 4)
    rng = np.random.default_rng(0)
    found = []
    for shift in np.linspace(0, 4, 12):
        forms = rng.standard_normal((4, 121)) + 0.7 * rng.standard_normal(121)
        forms[:, 0] += shift
        pvalue = aggregate(forms, inverse).pvalue
        found.append(pvalue)
        for allowed in range(60):
            _, _, rejected = published(forms, 1 / inverse / np.sum(1 / inverse), allowed / 60)
            assert rejected.any() == (pvalue <= (allowed + 1) / 61 + 1e-9)
    assert min(found) < 0.05 < 0.2 < max(found)


def test_weights_are_those_of_the_article():
    first = np.arange(1, 6)
    for weights, expected in {
        "uniform": np.ones(5),
        "decreasing": 1 / first,
        "increasing": 1 / (6 - first),
        "centred": 1 / (abs(3 - first) + 1),
    }.items():
        np.testing.assert_allclose(1 / inverse_weights(weights, 5), expected)
    np.testing.assert_allclose(1 / inverse_weights("centred", 4), 1 / (abs(2.5 - first[:4]) + 0.5))


def test_result_in_single_precision_is_that_of_double():
    x = normal(100, 4) + 0.15
    double, single = (ss.gof_test(z, -z, key=0, method="ksdagg") for z in (x, x.astype(np.float32)))
    assert (double.method, double.bootstrap, double.num_train, double.num_test) == ("ksdagg", "wild", 0, 100)
    assert len(double.null_distribution) == 1000
    # A rank may change by rounding, and with it one draw in a thousand or two.
    np.testing.assert_allclose(single.pvalue, double.pvalue, atol=0.005)
    assert 0.001 < double.pvalue < 0.9


def test_bad_options_are_refused():
    with pytest.raises(ss.InputError, match="weights must be one of"):
        KSDAgg(weights="even")
    with pytest.raises(ss.InputError, match="num_bandwidths must be positive"):
        KSDAgg(num_bandwidths=0)
    with pytest.raises(ss.InputError, match="ksdagg has no null for dependent samples"):
        ss.gof_test(X[None], S[None], key=0, method="ksdagg")


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:the samples look serially correlated")
@pytest.mark.parametrize(("dtype", "weights"), [("float64", "uniform"), ("float32", "centred")])
def test_level_and_power(dtype, weights):
    method = KSDAgg(num_bandwidths=4, weights=weights)

    def pvalue(seed, x, shift=0.0):
        return ss.gof_test(x, -(x - x.dtype.type(shift)), key=seed, method=method, num_bootstrap=99).pvalue

    x = normal(450, 50, 2).astype(dtype)
    assert_calibrated(rejections(pvalue, x[:400]), 400)
    assert rejections(lambda seed, x: pvalue(seed, x, 0.6), x[400:]) >= 40
