"""Input "A": 20 samples in 3 dimensions and a diagonal Gaussian model, with published check values."""

import numpy as np
from scipy import stats

X = np.random.default_rng(12345).standard_normal((20, 3))
MEAN = np.array([0.1, -0.2, 0.3])
VARIANCE = np.array([1.0, 1.5, 0.5])
S = -(X - MEAN) / VARIANCE
MEDIAN = 2.179094261  # to the 10 digits printed; tests use the function

# Check values are printed with 10 significant digits.
RTOL = 6e-10
# What is left of them in single precision: some hundred roundings.
SINGLE = 2e-5


def normal(*shape, seed=0):
    """Standard normal variables."""
    return np.random.default_rng(seed).standard_normal(shape)


def autoregression(coefficient, chains, draws, dim, *, trials=(), seed=0):
    """Chains with normal margins, (*trials, chains, draws, dim)."""
    x = np.random.default_rng(seed).standard_normal((*trials, chains, draws, dim))
    for t in range(1, draws):
        x[..., t, :] = coefficient * x[..., t - 1, :] + np.sqrt(1 - coefficient**2) * x[..., t, :]
    return x


def rejections(pvalue_of, *data):
    """How many p-values are at most 0.05: ``pvalue_of(seed, *rows)`` with a row of each array of data."""
    found = np.array([pvalue_of(seed, *rows) for seed, rows in enumerate(zip(*data, strict=True))])
    assert np.all((found > 0) & (found <= 1))
    return int(np.sum(found <= 0.05))


def assert_calibrated(count, num_trials, level=0.05):
    """A frequency of ``level``, within what 999 of 1000 fair tests show; a test that never rejects is seen."""
    low, high = stats.binom.interval(0.999, num_trials, level)
    assert low > 0, "too few trials"
    assert low <= count <= high, f"{count} of {num_trials} rejected"
