"""Input "A": 20 samples in 3 dimensions and a diagonal Gaussian model, with published check values."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

X = jnp.asarray(np.random.default_rng(12345).standard_normal((20, 3)))
MEAN = np.array([0.1, -0.2, 0.3])
VARIANCE = np.array([1.0, 1.5, 0.5])
S = -(X - MEAN) / VARIANCE
MEDIAN = 2.179094261  # to the 10 digits printed; tests use the function

# Check values are printed with 10 significant digits.
RTOL = 6e-10


def normal(*shape, seed=0):
    """Standard normal variables."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


@functools.partial(jax.jit, static_argnums=0)
def _map(fn, *args):
    return jax.lax.map(lambda arg: fn(*arg), args)


def pvalues(pvalue_of, *data):
    """One p-value per trial: ``pvalue_of(key, *rows)`` with a row of each array of data."""
    keys = jax.random.split(jax.random.key(0), len(data[0]))
    found = np.asarray(_map(pvalue_of, keys, *data))
    assert np.all((found > 0) & (found <= 1))
    return found


def rejections(pvalue_of, true, wrong, *data):
    """How many p-values are at most 0.05 with the true model, and with the wrong one.

    ``pvalue_of(key, parameter, *rows)`` takes a parameter of the model and a row of each array of data: ``true``
    in all trials but the last 20, ``wrong`` in those.
    """
    is_true = jnp.arange(len(data[0])) < len(data[0]) - 20
    found = pvalues(pvalue_of, jnp.where(is_true, true, wrong), *data) <= 0.05
    return found[:-20].sum(), found[-20:].sum()


def assert_calibrated(count, num_trials):
    """A frequency of 0.05, within what 999 of 1000 fair tests show."""
    low, high = stats.binom.interval(0.999, num_trials, 0.05)
    assert low <= count <= high, f"{count} of {num_trials} rejected"
