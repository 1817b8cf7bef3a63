"""MMD: check values and level."""

import numpy as np
import pytest

import slicestein as ss
from slicestein import IMQ, RBF
from slicestein._stein.numpy_bandwidths import median_distance
from slicestein.gof import null
from slicestein.gof.baselines.mmd import mmd_matrix
from tests.unit.standard_input import MEAN, RTOL, SINGLE, VARIANCE, S, X, assert_calibrated, normal, rejections

Y = MEAN + np.sqrt(VARIANCE) * np.random.default_rng(5).standard_normal((20, 3))
POOLED = np.concatenate([X, Y])
MEDIAN = median_distance(POOLED)


def u(h):
    return (h.sum() - np.trace(h)) / (len(h) * (len(h) - 1))


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", RTOL), ("float32", 10 * SINGLE)])  # U cancels
def test_matrix_has_the_check_values(dtype, rtol):
    h = mmd_matrix(X.astype(dtype), Y.astype(dtype))
    assert type(h) is np.ndarray
    assert h.dtype == dtype
    np.testing.assert_allclose([MEDIAN, u(h), h.mean()], [2.189129434, 0.02070166033, 0.06244923055], rtol=rtol)
    cross = np.exp(-np.sum((X - Y) ** 2, axis=1) / (2 * MEDIAN**2))  # k(x_i, y_i), left out of the paired form
    np.testing.assert_allclose(np.trace(h), np.sum(2 - 2 * cross), rtol=rtol)


def test_matrix_is_the_definition_in_single_entries():
    h = mmd_matrix(X, Y, IMQ(2.0))

    def k(a, b):
        return (1 + np.sum((a - b) ** 2) / 4) ** -0.5

    for i, j in ((0, 1), (3, 3), (19, 7)):
        expected = k(X[i], X[j]) + k(Y[i], Y[j]) - k(X[i], Y[j]) - k(Y[i], X[j])
        np.testing.assert_allclose(h[i, j], expected, rtol=1e-10)


def test_draws_have_the_check_values():
    counts = np.random.default_rng(7).multinomial(20, np.full(20, 1 / 20), size=4)
    draws = null.quadratic_forms(mmd_matrix(X, Y), (counts - 1) / 20, diagonal=False)
    np.testing.assert_allclose(draws, [-0.02366610211, -0.02135265308, 0.01469739201, 0.01165976394], rtol=RTOL)


@pytest.mark.parametrize(("seed", "expected"), [(50, 0.01426505952), (51, -0.01385924501)])
def test_permuted_statistics_have_the_check_values(seed, expected):
    permuted = POOLED[np.random.default_rng(seed).permutation(40)]
    np.testing.assert_allclose(u(mmd_matrix(permuted[:20], permuted[20:])), expected, rtol=RTOL)


def test_a_sign_swaps_a_pair():
    swap = np.random.default_rng(0).integers(0, 2, 20).astype(bool)[:, None]
    kernel = RBF(MEDIAN)
    swapped = mmd_matrix(np.where(swap, Y, X), np.where(swap, X, Y), kernel)
    signs = 1 - 2.0 * swap
    np.testing.assert_allclose(swapped, signs * mmd_matrix(X, Y, kernel) * signs.T, atol=1e-12)


@pytest.mark.parametrize("bootstrap", ["wild", "multinomial"])
def test_test_gives_the_u_statistic(bootstrap):
    found = ss.gof_test(X, S, key=0, method=ss.gof.MMD(Y, bootstrap=bootstrap))
    np.testing.assert_allclose(found.statistic, 0.02070166033, rtol=RTOL)
    assert 0.05 < found.pvalue < 1
    assert found.method == "mmd"


def test_more_model_samples_than_samples_are_left_out():
    one, more = (
        ss.gof_test(X, S, key=0, method=ss.gof.MMD(samples)).statistic for samples in (Y, np.concatenate([Y, Y + 9]))
    )
    assert one == more


@pytest.mark.parametrize("shape", [(10, 3), (20, 2)])
def test_unequal_sizes_are_refused(shape):
    with pytest.raises(ValueError, match="model_samples must have the shape of x"):
        ss.gof_test(X, S, key=0, method=ss.gof.MMD(Y[: shape[0], : shape[1]]))


def test_faults_name_the_model_samples():
    spoilt = Y.copy()
    spoilt[4, 1] = np.nan
    with pytest.raises(ValueError, match="model_samples has 1 values that are NaN"):
        ss.gof_test(X, S, key=0, method=ss.gof.MMD(spoilt))
    with pytest.raises(ValueError, match="model_samples must have shape"):
        ss.gof_test(X, S, key=0, method=ss.gof.MMD(Y[:, 0]))


def test_samples_that_are_all_the_same_are_refused():
    same = np.ones((20, 2))
    with pytest.raises(ValueError, match="no column of x varies, all rows are the same"):
        ss.gof_test(same, same, key=0, method=ss.gof.MMD(same))
    assert ss.gof_test(same, same, key=0, method=ss.gof.MMD(normal(20, 2))).reject


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_level_and_power_of_a_small_sample(dtype):
    """With signs the test is a permutation test: the level holds at N = 20, not only in the limit."""

    def pvalue(seed, x, y):
        return ss.gof_test(x, -x, key=seed, method=ss.gof.MMD(y), num_bootstrap=99).pvalue

    x, y = normal(2, 1050, 20, 2).astype(dtype)
    assert_calibrated(rejections(pvalue, x[:1000], y[:1000]), 1000)
    assert rejections(pvalue, x[1000:] + 2, y[1000:]) >= 45
