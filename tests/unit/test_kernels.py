"""Bandwidth rules and spectra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicestein as ss
from slicestein._stein import bandwidths, fourier
from tests.kernels import WITH_SPECTRUM, TwoScales
from tests.rounding import rounding

median_gap = jax.jit(bandwidths.median_gap)


def all_gaps(t):
    i, j = np.triu_indices(t.shape[1], 1)
    return np.abs(t[:, i] - t[:, j])


@settings(deadline=None, max_examples=200)
@given(
    n=st.sampled_from([2, 3, 4, 7, 16, 33]),
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(["normal", "cauchy", "integers", "rounded"]),
)
def test_median_gap_is_that_of_all_pairs(n, seed, kind):
    rng = np.random.default_rng(seed)
    t = {
        "normal": lambda: rng.standard_normal((3, n)),
        "cauchy": lambda: rng.standard_cauchy((3, n)),
        "integers": lambda: rng.integers(0, 4, (3, n)).astype(float),
        "rounded": lambda: np.round(rng.standard_normal((3, n)), 1),
    }[kind]()
    t = jnp.asarray(t)
    gaps = all_gaps(np.asarray(t, float))
    expected = np.where(np.median(gaps, axis=1) > 0, np.median(gaps, axis=1), gaps.mean(1))
    np.testing.assert_allclose(median_gap(t), expected, rtol=rounding(30, 1e-13))


def test_portable_median_is_the_compiled_one():
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.standard_normal((3, 500)), rng.integers(0, 5, (1, 500)), np.zeros((1, 500))])
    t[4, 0] = 1.0  # nearly all gaps are zero
    portable = bandwidths._portable_median_gap(jnp.asarray(t))
    np.testing.assert_allclose(portable[:4], median_gap(jnp.asarray(t))[:4], rtol=rounding(4, 1e-12))
    assert portable[4] == 0


@pytest.mark.parametrize(("count", "most"), [(251, 250), (1234, 250), (100_000, 250), (1001, 1000), (58, 20)])
def test_thinning_keeps_as_many_rows_as_it_may_from_the_whole_length(count, most):
    kept = bandwidths.evenly_spread(np.arange(count)[:, None], most)[:, 0]
    assert len(kept) == most
    assert (kept[0], kept[-1]) == (0, count - 1)
    gaps = np.diff(kept)
    assert gaps.min() >= 1
    assert np.ptp(gaps) <= 1


def test_few_rows_are_all_kept():
    assert bandwidths.evenly_spread(np.zeros((250, 2))).shape == (250, 2)


def test_equal_kernels_share_their_quadrature_and_others_do_not():
    rules = [fourier.quadrature(kernel, "float64") for kernel in (TwoScales(2.0), TwoScales(3.0), TwoScales(ratio=2.0))]
    assert rules[0] is rules[1]
    assert rules[2].reach > rules[0].reach


@pytest.mark.parametrize("kernel", WITH_SPECTRUM, ids=repr)
def test_the_spectrum_is_that_of_the_kernel(kernel):
    """The trapezoid rule gives the kernel back on the range that it is meant for."""
    rules = fourier.quadrature(kernel, "float64", fourier.PERIODS + fourier.LONG_PERIODS)
    for spacing, weights, widest in zip(rules.spacing, rules.weights, rules.widest_range, strict=True):
        tau = np.linspace(0, widest, 50)
        w = np.arange(len(weights)) * spacing
        series = np.cos(np.outer(tau, w)) @ weights
        np.testing.assert_allclose(series, kernel.derivatives(tau**2)[0], atol=2e-10)
    assert np.all(np.diff(rules.widest_range) > 0)


@pytest.mark.parametrize("kernel", [ss.RBF(2.0), ss.RBF(np.array([1.0, 2.0])), ss.IMQ(2.0), ss.Matern()], ids=repr)
def test_kernels_are_pytrees(kernel):
    leaves, structure = jax.tree.flatten(kernel)
    assert jax.tree.unflatten(structure, leaves).derivatives(jnp.asarray(1.0)) == kernel.derivatives(jnp.asarray(1.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 3, 4, 31])
def test_median_distance_is_that_of_all_pairs(n, dtype):
    x = np.random.default_rng(n).standard_normal((n, 3)).astype(dtype)
    i, j = np.triu_indices(n, 1)
    expected = np.median(np.linalg.norm(x[i] - x[j], axis=1))
    found = bandwidths.median_distance(jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=20 * np.finfo(found.dtype).eps)


def test_median_distance_of_ties_is_the_mean():
    x = jnp.zeros((5, 2)).at[0].set(3.0)  # four of ten pairs differ
    np.testing.assert_allclose(bandwidths.median_distance(x), 0.4 * np.sqrt(18), rtol=rounding(4, 1e-12))
