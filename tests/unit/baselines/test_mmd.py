"""MMD: check values and level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slicestein import RBF
from slicestein._stein.bandwidths import median_distance
from slicestein.gof import null
from slicestein.gof.baselines import mmd, mmd_test
from tests.unit.standard_input import MEAN, RTOL, VARIANCE, X, assert_calibrated, normal, rejections

Y = jnp.asarray(MEAN + np.sqrt(VARIANCE) * np.random.default_rng(5).standard_normal((20, 3)))
POOLED = jnp.concatenate([X, Y])
MEDIAN = median_distance(POOLED)


def u(h):
    return (h.sum() - jnp.trace(h)) / (len(h) * (len(h) - 1))


def test_matrix_has_the_check_values():
    h = mmd.mmd_matrix(X, Y)
    np.testing.assert_allclose([MEDIAN, u(h), h.mean()], [2.189129434, 0.02070166033, 0.06244923055], rtol=RTOL)
    cross = jnp.exp(-jnp.sum((X - Y) ** 2, axis=1) / (2 * MEDIAN**2))  # k(x_i, y_i), left out of the paired form
    trace = jnp.trace(h)
    np.testing.assert_allclose(trace, jnp.sum(2 - 2 * cross), rtol=1e-10)


def test_draws_have_the_check_values():
    counts = np.random.default_rng(7).multinomial(20, np.full(20, 1 / 20), size=4)
    _, draws = null.statistic_and_draws(mmd.mmd_matrix(X, Y), jnp.asarray((counts - 1) / 20), "u")
    np.testing.assert_allclose(draws, [-0.02366610211, -0.02135265308, 0.01469739201, 0.01165976394], rtol=RTOL)


@pytest.mark.parametrize(("seed", "expected"), [(50, 0.01426505952), (51, -0.01385924501)])
def test_permuted_statistics_have_the_check_values(seed, expected):
    permuted = POOLED[np.random.default_rng(seed).permutation(40)]
    np.testing.assert_allclose(u(mmd.mmd_matrix(permuted[:20], permuted[20:])), expected, rtol=RTOL)


def test_a_sign_swaps_a_pair():
    swap = np.random.default_rng(0).integers(0, 2, 20).astype(bool)[:, None]
    kernel = RBF(MEDIAN)
    swapped = mmd.mmd_matrix(jnp.where(swap, Y, X), jnp.where(swap, X, Y), kernel)
    signs = 1 - 2.0 * swap
    np.testing.assert_allclose(swapped, signs * mmd.mmd_matrix(X, Y, kernel) * signs.T, atol=1e-12)


def test_test_gives_the_u_statistic():
    outcome = mmd_test(X, key=jax.random.key(0), model_samples=Y)
    np.testing.assert_allclose(outcome.statistic, 0.02070166033, rtol=RTOL)
    assert 0.05 < outcome.pvalue < 1


def test_unequal_sizes_are_refused():
    with pytest.raises(ValueError, match="model_samples must have the shape of x"):
        mmd_test(X, key=jax.random.key(0), model_samples=Y[:10])


@pytest.mark.statistical
def test_level_and_power_of_a_small_sample():
    def pvalue(key, shift, x, y):
        return mmd_test(x + shift, key=key, model_samples=y, num_draws=199).pvalue

    true, wrong = rejections(pvalue, 0.0, 2.0, normal(1020, 20, 2), normal(1020, 20, 2, seed=1))
    assert_calibrated(true, 1000)
    assert wrong >= 18
