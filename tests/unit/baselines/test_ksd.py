"""Plain KSD: check values and level."""

import numpy as np
import pytest
from scipy import stats

import slicestein as ss
from slicestein import IMQ, RBF, Matern
from slicestein._stein.numpy_bandwidths import median_distance
from slicestein.gof.baselines.ksd import ksd_matrix, linear_ksd_terms
from tests.unit.standard_input import MEDIAN, RTOL, SINGLE, S, X, assert_calibrated, normal, rejections

KERNELS = [RBF(), RBF(scale=0.5), IMQ(2.0, exponent=-0.3), Matern(1.5), Matern(smoothness=2.5)]


def test_the_standard_input_is_the_one_of_the_note():
    np.testing.assert_allclose([X[0, 0], X[19, 2], X.sum()], [-1.423825036, -1.261623782, 2.326787741], rtol=RTOL)
    np.testing.assert_allclose(median_distance(X), MEDIAN, rtol=RTOL)


def u_and_v(h):
    n = len(h)
    return (h.sum() - np.trace(h)) / (n * (n - 1)), h.mean()


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", RTOL), ("float32", SINGLE)])
def test_matrix_has_the_check_values_of_rbf(dtype, rtol):
    h = ksd_matrix(X.astype(dtype), S.astype(dtype))
    assert type(h) is np.ndarray
    assert h.dtype == dtype
    np.testing.assert_allclose([h[0, 1], h[0, 0]], [3.904341064, 9.387845896], rtol=rtol)
    np.testing.assert_allclose(u_and_v(h), [0.7106674503, 1.046311360], rtol=rtol)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", RTOL), ("float32", SINGLE)])
def test_matrix_has_the_check_values_of_imq(dtype, rtol):
    x, s = X.astype(dtype), S.astype(dtype)
    one = ksd_matrix(x, s, IMQ(1.0))
    np.testing.assert_allclose([one[0, 1], *u_and_v(one)], [2.476407999, 0.4953349577, 0.9601562483], rtol=rtol)
    # The note's c = median is (c^2 + q)^(-1/2), ours (1 + q / c^2)^(-1/2).
    median = ksd_matrix(x, s, IMQ())
    np.testing.assert_allclose(u_and_v(median / median_distance(x)), [0.2939756768, 0.4496124716], rtol=rtol)
    np.testing.assert_allclose(u_and_v(median)[0], 0.6406007103, rtol=rtol)


def stein_kernel(x, s, y, t, kernel, bandwidth):
    """h by its definition, with the gradients of the kernel by central differences."""

    def k(a, b):
        return float(kernel.derivatives(np.sum((a - b) ** 2, keepdims=True) / bandwidth**2)[0][0])

    steps = 1e-4 * np.eye(len(x))
    by_x = [(k(x + e, y) - k(x - e, y)) / 2e-4 for e in steps]
    by_y = [(k(x, y + e) - k(x, y - e)) / 2e-4 for e in steps]
    both = [(k(x + e, y + e) - k(x + e, y - e) - k(x - e, y + e) + k(x - e, y - e)) / 4e-8 for e in steps]
    return k(x, y) * (s @ t) + s @ by_y + t @ by_x + sum(both)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_matrix_is_the_stein_operator_of_the_kernel(kernel):
    h, bandwidth = ksd_matrix(X, S, kernel), (kernel.bandwidth or median_distance(X)) * kernel.scale
    for i, j in ((0, 1), (2, 7), (5, 19)):
        expected = stein_kernel(X[i], S[i], X[j], S[j], kernel, bandwidth)
        np.testing.assert_allclose(h[i, j], expected, rtol=1e-5, atol=1e-6)
        assert h[i, j] == pytest.approx(h[j, i], rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_matrix_sums_to_the_discrepancy(kernel):
    u, v = u_and_v(ksd_matrix(X, S, kernel))
    np.testing.assert_allclose(u, ss.ksd(X, S, kernel=kernel, statistic="u"), rtol=SINGLE)
    np.testing.assert_allclose(v, ss.ksd(X, S, kernel=kernel, statistic="v"), rtol=SINGLE)


def test_matrix_survives_a_far_origin_in_single_precision():
    far = (X + 1000).astype(np.float32)
    exact = ksd_matrix(far.astype(float), S)
    np.testing.assert_allclose(ksd_matrix(far, S.astype(np.float32)), exact, atol=1e-4 * exact.max())


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
    method = ss.gof.LinearKSD(pairing=pairing)
    found = ss.gof_test(X, S, key=0, method=method, num_bootstrap=100_000)
    np.testing.assert_allclose([found.statistic, found.pvalue], [statistic, pvalue], rtol=RTOL)
    np.testing.assert_allclose(found.null_distribution.std(), deviation, rtol=0.01)
    assert (found.num_train, found.num_test) == (0, 20)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_linear_terms_are_entries_of_the_matrix(dtype):
    x, s = X.astype(dtype), S.astype(dtype)
    h, (first, second) = ksd_matrix(x, s), np.arange(20).reshape(2, 10)
    close = {"rtol": 1e-10} if dtype == "float64" else {"atol": SINGLE}
    np.testing.assert_allclose(linear_ksd_terms(x, s), h[first, second], **close)
    np.testing.assert_allclose(linear_ksd_terms(x, s, pairing="neighbours"), h[::2, 1::2].diagonal(), **close)
    assert linear_ksd_terms(x[:7], s[:7]).shape == (3,)


def test_linear_test_with_no_pair_in_reach_finds_nothing():
    """All terms are 0, and so is their deviation."""
    x = normal(50, 20)
    assert ss.gof_test(x, -x, key=0, method=ss.gof.LinearKSD(kernel=RBF(0.05))).pvalue == 0.5


@pytest.mark.parametrize(
    "method",
    ["ksd", "linear-ksd", "ksdagg", "fssd-rand", "fssd-opt", "rfsd-l1imq", "rfsd-l2sech", "rff-gaussian", "rff-cauchy"],
)
def test_samples_that_are_all_the_same_are_refused(method):
    same = np.ones((50, 2), np.float32)
    with pytest.raises(ss._checks.InputError, match="no column of x varies, all rows are the same: mend the sampler"):
        ss.gof_test(same, -same, key=0, method=method, num_bootstrap=19)


@pytest.mark.parametrize("method", [ss.gof.KSD, ss.gof.LinearKSD])
def test_the_remedy_for_samples_that_are_all_the_same_helps(method):
    same = np.ones((50, 2), np.float32)
    with pytest.raises(ValueError, match="or pass a fixed bandwidth"):
        ss.gof_test(same, -same, key=0, method=method())
    assert ss.gof_test(same, -same, key=0, method=method(kernel=RBF(1.0))).reject  # all at (1, 1) is not N(0, I)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("method", ["ksd", "linear-ksd"])
def test_results_are_numbers_of_python_in_every_precision(method, dtype):
    x = normal(60, 2).astype(dtype)
    found = ss.gof_test(x, -x, key=0, method=method, num_bootstrap=19)
    assert type(found.statistic) is type(found.pvalue) is float
    assert type(found.null_distribution) is np.ndarray


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:the samples look serially correlated")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_linear_test_has_level_and_power(dtype):
    method = ss.gof.LinearKSD(kernel=RBF(1.5))

    def pvalue(seed, x, shift=0.0):
        return ss.gof_test(x, -(x - x.dtype.type(shift)), key=seed, method=method, num_bootstrap=19).pvalue

    x = normal(1050, 200, 2).astype(dtype)
    assert_calibrated(rejections(pvalue, x[:1000]), 1000)
    assert rejections(lambda seed, x: pvalue(seed, x, 1.0), x[1000:]) >= 45
