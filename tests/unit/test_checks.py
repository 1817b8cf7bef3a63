"""Every fault of the input gets a message that names the argument and the remedy."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss

X = np.random.default_rng(0).standard_normal((10, 3))
BASIS = ss.Slices.basis(3)
NAN = np.where(np.arange(30).reshape(10, 3) == 7, np.nan, X)
CONSTANT = np.where(np.arange(3) == 1, 2.0, X)

FAULTS = [
    (lambda: ss.sksd(X[:, 0], -X, BASIS), r"x must have shape \(N, D\), got \(10,\); .* pass x\[:, None\]"),
    (lambda: ss.sksd(X[None], -X, BASIS), r"x must have shape"),
    (lambda: ss.sksd(X[:1], -X[:1], BASIS), "x must hold at least two samples"),
    (lambda: ss.sksd(np.zeros((10, 0)), np.zeros((10, 0)), BASIS), "x has no columns"),
    (lambda: ss.sksd(np.array([["a"]]), -X, BASIS), "x must be a numeric array"),
    (lambda: ss.sksd(X + 1j, -X, BASIS), "x must hold real numbers"),
    (lambda: ss.sksd(NAN, -X, BASIS), r"x has 1 values that are NaN or infinite, the first at \(2, 1\)"),
    (lambda: ss.sksd(X, NAN, BASIS), "score has 1 values that are NaN or infinite"),
    (lambda: ss.sksd(X, -X[:, :2], BASIS), r"score must have the shape of x, \(10, 3\), got \(10, 2\)"),
    (lambda: ss.sksd(X, lambda x: x.sum(1), BASIS), r"score\(x\) must return shape \(10, 3\).*got \(10,\)"),
    (lambda: ss.sksd(X, -X, np.eye(3)), r"slices must be a Slices\(r, g\), got ndarray"),
    (lambda: ss.sksd(X, -X, ss.Slices.basis(4)), "slices.r has dimension 4, but the samples have 3"),
    (lambda: ss.sksd(X, -X, BASIS, statistic="w"), "statistic must be one of"),
    (lambda: ss.sksd(X, -X, BASIS, engine="fast"), "engine must be one of"),
    (
        lambda: ss.sksd(X, -X, BASIS, kernel=ss.IMQ(), engine="fourier"),
        '"fourier" needs a kernel with a spectrum',
    ),
    (lambda: ss.sksd(X, -X, BASIS, kernel="rbf"), r"kernel must be RBF\(\)"),
    (lambda: ss.sksd(X, -X, BASIS, kernel=ss.RBF(-1.0)), "bandwidth must be positive"),
    (lambda: ss.sksd(X, -X, BASIS, kernel=ss.RBF(np.ones(2))), r"bandwidth must be a number or have shape \(3,\)"),
    (lambda: ss.sksd(CONSTANT, -X, BASIS), "x does not vary along slice 1.*Drop constant columns"),
    (lambda: ss.ksd(np.ones((5, 2)), np.ones((5, 2))), "no column of x varies, all rows are the same"),
    (lambda: ss.sksd(X, -X, BASIS, kernel=ss.RBF(scale=0.0)), "scale must be positive, got 0.0"),
    (lambda: ss.sksd(X, -X, BASIS, feature_map=lambda x: x[0]), r"feature_map must take one sample \(D,\) to a vector"),
    (lambda: ss.sksd(X, -X, BASIS, feature_map=lambda x: x[:2]), "slices.g has dimension 3, but the samples have 2"),
    (lambda: ss.sksd(X, -X, BASIS, feature_map=lambda x: x / 0), "feature_map has 30 values that are NaN or infinite"),
    (lambda: ss.IMQ(exponent=0.5), "exponent must be negative, got 0.5"),
    (lambda: ss.RBF("mean"), 'bandwidth must be "median"'),
    (lambda: ss.Matern(smoothness=2.0), "smoothness must be 1.5 or 2.5"),
    (lambda: ss.Slices(np.zeros((1, 3)), np.ones((1, 3))), r"r has a row of zeros \(row 0\)"),
    (lambda: ss.Slices(np.ones((2, 3)), np.ones((1, 3))), "r and g must have as many rows"),
    (lambda: ss.Slices(np.ones(3), np.ones((1, 3))), r"r must have shape"),
    (lambda: ss.Slices.random("a", 2, 2), "key must be an int seed"),
    (lambda: ss.witness(X, -X, BASIS, np.zeros((2, 2))), r"t must have shape \(T,\) or \(T, 3\)"),
    (lambda: ss.ssd(X, -X, BASIS, num_basis=3), "num_basis must be from 4"),
    (lambda: ss.ssd(X, -X, np.eye(3)), "slices must be a Slices"),
]


@pytest.mark.parametrize(("call", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_faults_are_named(call, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        call()


def test_checks_of_values_stand_aside_under_transformations():
    value = jax.jit(lambda x: ss.sksd(x, -x, BASIS))(jnp.asarray(NAN))
    assert jnp.isnan(value)
    with pytest.raises(ValueError, match="score must have the shape"):  # shapes are known, so still checked
        jax.jit(lambda x: ss.sksd(x, x[:, :2], BASIS))(jnp.asarray(X))


def test_old_and_new_keys_are_the_same():
    a = ss.Slices.random(jax.random.PRNGKey(1), 2, 3)
    np.testing.assert_array_equal(a.g, ss.Slices.random(1, 2, 3).g)


def test_scores_in_a_table_are_matched_by_the_names_of_the_columns():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(X, columns=["a", "b", "c"])
    for turned in ((-x)[["c", "a", "b"]], (-x)[["b", "c", "a"]]):
        assert ss.sksd(x, turned, BASIS) == ss.sksd(X, -X, BASIS)
    with pytest.raises(ValueError, match="score has a column 'd', which x has not"):
        ss.sksd(x, (-x).assign(d=0.0), BASIS)
