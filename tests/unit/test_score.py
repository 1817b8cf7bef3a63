"""Scores of log-densities: gradients, and no number where there is no density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss


def gamma(x):
    """Log-density of Gamma(2, 1) in every coordinate; the derivative of its formula is finite below zero too."""
    return jnp.sum(jnp.log(x) - x)


def exponential(x):
    """The same for an exponential law, with its support spelled out."""
    return jnp.where(x.min() > 0, -jnp.sum(x), -jnp.inf)


X = np.array([[1.0, 2.0], [-1.0, 2.0], [3.0, 0.5]])


@pytest.mark.parametrize(("log_density", "inside"), [(gamma, 1 / X - 1), (exponential, -np.ones_like(X))])
def test_there_is_no_score_where_the_model_excludes_the_sample(log_density, inside):
    score_fn = ss.score_from(log_density)
    expected = np.where([[True], [False], [True]], inside, np.nan)
    np.testing.assert_allclose(score_fn(X), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(score_fn)(X), expected, rtol=1e-6)


def test_samples_outside_the_support_are_refused_by_the_test():
    x = np.random.default_rng(0).gamma(2, size=(300, 2))
    assert ss.gof_test(x, ss.score_from(gamma), key=0).verdict in ("fits", "wrong")
    x[17, 1] = -0.5
    with pytest.raises(ss.InputError, match=r"score has 2 values that are NaN or infinite, the first at \(17, 0\)"):
        ss.gof_test(x, ss.score_from(gamma), key=0)


def test_scores_can_be_differentiated():
    slope = jax.grad(lambda x: ss.score_from(gamma)(x).sum())(jnp.array([[1.0, 2.0]]))
    np.testing.assert_allclose(slope, [[-1.0, -0.25]], rtol=1e-6)


def test_a_log_density_of_a_batch_is_told_how_it_is_called():
    with pytest.raises(ValueError, match="axis 1") as failed:
        ss.score_from(lambda x: -0.5 * jnp.sum(x**2, axis=1))(np.ones((4, 3)))
    assert "with one sample, shape (3,), at a time" in failed.value.__notes__[-1]
