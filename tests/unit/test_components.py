"""Each Stein kernel computed three ways: as a matrix, as a quadratic form, and by its definition."""

import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss
from slicestein._stein import exact
from slicestein._stein import tiles as _tiles
from slicestein._stein.sliced import problem
from slicestein.gof.components import Covariance, Shift, Slicewise

N, D, M = 60, 4, 7
RNG = np.random.default_rng(0)
X, S = jnp.asarray(RNG.standard_normal((2, N, D)))
SLICES = ss.Slices.random(0, M, D)
WEIGHTS = jnp.asarray(RNG.uniform(0.5, 2, M))


def slicewise(x=X, kernel=None):
    kernel = kernel or ss.RBF()
    return Slicewise(problem(x, S, SLICES.r, SLICES.g, kernel).projected, WEIGHTS, SLICES, kernel)


COMPONENTS = {
    "rbf": slicewise(),
    "imq": slicewise(kernel=ss.IMQ()),
    "far outlier": slicewise(X.at[0].add(1e3)),
    "shift": Shift(S),
    "covariance": Covariance(X, S),
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_quadratic_form_is_that_of_the_matrix(name):
    part = COMPONENTS[name]
    h, w = part.matrix(), jnp.asarray(RNG.standard_normal(N))
    np.testing.assert_allclose(part.quadratic_form(w), w @ h @ w, rtol=1e-7)
    np.testing.assert_allclose(part.diagonal(), jnp.diag(h), rtol=1e-7)


@pytest.mark.parametrize("name", ["rbf", "shift", "covariance"])
def test_blocks_of_features_change_nothing(name, monkeypatch):
    part, w = COMPONENTS[name], jnp.asarray(RNG.standard_normal(N))
    whole = part.quadratic_form(w)
    monkeypatch.setattr(_tiles, "FEATURE_ELEMENTS", 7 * part.num_features)  # 60 samples in blocks of 7
    np.testing.assert_allclose(part.quadratic_form(w), whole, rtol=1e-12)


@pytest.mark.parametrize("name", ["rbf", "imq", "far outlier"])
def test_the_matrix_of_slices_is_the_exact_one(name):
    part = COMPONENTS[name]
    np.testing.assert_allclose(part.matrix(), exact.matrix(part.data, part.kernel), atol=1e-8)


def test_slices_are_weighted():
    x = jnp.asarray(RNG.standard_normal((N, D)))
    part = slicewise(x)
    plain = ss.sksd(x, S, SLICES, per_slice=True)
    np.testing.assert_allclose(part.per_slice(), WEIGHTS * plain, rtol=1e-8)
    h = part.matrix()
    np.testing.assert_allclose((h.sum() - jnp.trace(h)) / (N * (N - 1)), part.per_slice().sum(), rtol=1e-8)


def test_shift_and_covariance_are_sums_over_all_slices_of_their_definition():
    for i, j in ((0, 1), (3, 3)):
        shift = sum(S[i, r] * S[j, r] for r in range(D))
        np.testing.assert_allclose(COMPONENTS["shift"].matrix()[i, j], shift, rtol=1e-10)
        # f(t) = t: the Stein operator gives s_r t + <r, g>, with t = x_g
        slope = lambda k, r, g: S[k, r] * X[k, g] + (r == g)
        covariance = sum(slope(i, r, g) * slope(j, r, g) for r in range(D) for g in range(D))
        np.testing.assert_allclose(COMPONENTS["covariance"].matrix()[i, j], covariance, rtol=1e-10)


@pytest.mark.parametrize(("component", "where"), [("shift", 1), ("covariance", 2)])
def test_the_wrong_coordinate_carries_the_moment_components(component, where):
    x = np.random.default_rng(1).standard_normal((2000, D))
    x[:, 1] += 0.5
    x[:, 2] *= 1.5
    part = Shift(jnp.asarray(-x)) if component == "shift" else Covariance(jnp.asarray(x - x.mean(0)), jnp.asarray(-x))
    share = np.asarray(part.by_coordinate())
    assert share.argmax() == where
    assert share[where] > 0.6 * share.sum()
