"""Plain KSD: check values and level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from slicestein import IMQ, RBF, Matern, ksd
from slicestein._stein.bandwidths import median_distance
from slicestein.gof.baselines import ksd_matrix, linear_ksd_test
from slicestein.gof.baselines.ksd import linear_ksd_terms
from tests.unit.standard_input import MEDIAN, RTOL, S, X, assert_calibrated, normal, rejections

KEY = jax.random.key(0)


def test_the_standard_input_is_the_one_of_the_note():
    np.testing.assert_allclose([X[0, 0], X[19, 2], X.sum()], [-1.423825036, -1.261623782, 2.326787741], rtol=RTOL)
    np.testing.assert_allclose(median_distance(X), MEDIAN, rtol=RTOL)


def u_and_v(h):
    n = len(h)
    return (h.sum() - jnp.trace(h)) / (n * (n - 1)), h.mean()


def test_matrix_has_the_check_values_of_rbf():
    h = ksd_matrix(X, S)
    np.testing.assert_allclose([h[0, 1], h[0, 0]], [3.904341064, 9.387845896], rtol=RTOL)
    np.testing.assert_allclose(u_and_v(h), [0.7106674503, 1.046311360], rtol=RTOL)


def test_matrix_has_the_check_values_of_imq():
    one = ksd_matrix(X, S, IMQ(1.0))
    np.testing.assert_allclose([one[0, 1], *u_and_v(one)], [2.476407999, 0.4953349577, 0.9601562483], rtol=RTOL)
    # The note's c = median is (c^2 + q)^(-1/2), ours (1 + q / c^2)^(-1/2).
    median = ksd_matrix(X, S, IMQ())
    np.testing.assert_allclose(u_and_v(median / median_distance(X)), [0.2939756768, 0.4496124716], rtol=RTOL)
    np.testing.assert_allclose(u_and_v(median)[0], 0.6406007103, rtol=RTOL)


@pytest.mark.parametrize(
    "kernel", [RBF(), RBF(scale=0.5), IMQ(2.0, exponent=-0.3), Matern(1.5), Matern(smoothness=2.5)]
)
def test_matrix_sums_to_the_discrepancy(kernel):
    u, v = u_and_v(ksd_matrix(X, S, kernel))
    np.testing.assert_allclose(u, ksd(X, S, kernel=kernel, statistic="u"), rtol=1e-10)
    np.testing.assert_allclose(v, ksd(X, S, kernel=kernel, statistic="v"), rtol=1e-10)


def test_matrix_survives_a_far_origin_in_single_precision():
    far = (X + 1000).astype(jnp.float32)
    exact = ksd_matrix(far.astype(float), S)
    np.testing.assert_allclose(ksd_matrix(far, S.astype(jnp.float32)), exact, atol=1e-4 * float(exact.max()))


@pytest.mark.parametrize(
    ("pairing", "mean", "statistic", "deviation", "pvalue", "with_variance"),
    [
        ("halves", -0.9330484854, -2.950558381, 1.946096715, 0.9352582369, 0.9493932399),
        ("neighbours", 0.2037469092, 0.6443042994, 2.959532972, 0.4138295926, 0.4179955522),
    ],
)
def test_linear_test_has_the_check_values(pairing, mean, statistic, deviation, pvalue, with_variance):
    terms = linear_ksd_terms(X, S, pairing=pairing)
    np.testing.assert_allclose(terms.mean(), mean, rtol=RTOL)
    np.testing.assert_allclose(stats.norm.sf(statistic / np.std(terms, ddof=1)), with_variance, rtol=10 * RTOL)
    outcome = linear_ksd_test(X, S, key=KEY, pairing=pairing, num_draws=100_000)
    np.testing.assert_allclose([outcome.statistic, outcome.pvalue], [statistic, pvalue], rtol=RTOL)
    np.testing.assert_allclose(outcome.null_distribution.std(), deviation, rtol=0.01)


def test_linear_terms_are_entries_of_the_matrix():
    h, (first, second) = ksd_matrix(X, S), np.arange(20).reshape(2, 10)
    np.testing.assert_allclose(linear_ksd_terms(X, S), h[first, second], rtol=1e-10)
    np.testing.assert_allclose(linear_ksd_terms(X, S, pairing="neighbours"), h[::2, 1::2].diagonal(), rtol=1e-10)
    assert linear_ksd_terms(X[:7], S[:7]).shape == (3,)


@pytest.mark.statistical
def test_linear_test_has_level_and_power():
    def pvalue(key, shift, x):
        return linear_ksd_test(x, -(x - shift), key=key, num_draws=1, kernel=RBF(1.5)).pvalue

    true, wrong = rejections(pvalue, 0.0, 1.0, normal(1020, 200, 2))
    assert_calibrated(true, 1000)
    assert wrong >= 18
