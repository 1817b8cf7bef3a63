"""Random feature Stein discrepancies: check values, features, level."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slicestein._stein.bandwidths import median_distance
from slicestein.gof.baselines import rff_cauchy_test, rff_gaussian_test, rfsd, rfsd_l1imq_test, rfsd_l2sech_test
from tests.unit.standard_input import RTOL, S, X, assert_calibrated, normal, rejections

KEY = jax.random.key(0)
TESTS = [rfsd_l1imq_test, rfsd_l2sech_test, rff_gaussian_test, rff_cauchy_test]
MEDIAN = median_distance(X)


def imq():
    law, rng = rfsd.imq_law(X), np.random.default_rng(21)
    normal = rng.standard_normal((5, 3))
    return law, law.locations(jnp.asarray(normal), jnp.asarray(rng.chisquare(0.5, 5)))


def sech():
    law = rfsd.sech_law(X)
    return law, law.locations(jnp.asarray(np.random.default_rng(22).random((5, 3))))


def test_l1imq_has_the_check_values():
    law, z = imq()
    found = [law.power, law.offset, law.offset**2 / law.df, z[0, 0], law.log_density(z)[0]]
    np.testing.assert_allclose(found, [-10.9375, 4.176597334, 34.88793058, 1.884427274, -11.83111493], rtol=RTOL)
    log_r2 = jax.jit(lambda z: rfsd.log_discrepancy(law.features(z, X, S), exponent=1))(z)
    np.testing.assert_allclose([log_r2, np.log(20) + log_r2], [-74.39032351, -71.39459124], rtol=RTOL)


def test_l2sech_has_the_check_values():
    law, z = sech()
    found = [rfsd.median_l1_distance(X), law.rate, law.location_steepness, z[0, 0], law.log_density(z)[0]]
    expected = [3.239281710, 0.7697352300, 0.6174208293, -0.9856684412, -6.798417922]
    np.testing.assert_allclose(found, expected, rtol=RTOL)
    r2 = jnp.exp(jax.jit(lambda z: rfsd.log_discrepancy(law.features(z, X, S), exponent=2))(z))
    np.testing.assert_allclose(r2, 0.9161007438, rtol=RTOL)


@pytest.mark.parametrize(
    ("frequencies", "expected"),
    [
        (np.random.default_rng(23).standard_normal((5, 3)), 1.176737755),
        (np.random.default_rng(25).laplace(size=(5, 3)), 1.371816862),
    ],
    ids=["gaussian", "cauchy"],
)
def test_fourier_features_have_the_check_values(frequencies, expected):
    phases = jnp.asarray(2 * np.pi * np.random.default_rng(24).random(5))
    features = rfsd.fourier_features(jnp.asarray(frequencies) / MEDIAN, phases, X, S)
    np.testing.assert_allclose(jnp.exp(rfsd.log_discrepancy(features, exponent=2)), expected, rtol=RTOL)


@pytest.mark.parametrize(
    ("test", "kernel"),
    [
        (rff_gaussian_test, lambda gap: jnp.exp(-jnp.sum(gap**2) / 2)),
        (rff_cauchy_test, lambda gap: jnp.prod(1 / (1 + gap**2))),
    ],
)
def test_many_fourier_features_give_the_ksd_of_the_kernel(test, kernel):
    def h(x, s, y, t):
        slope = jax.grad(kernel)
        gap = (x - y) / MEDIAN
        trace = -jnp.trace(jax.jacfwd(slope)(gap)) / MEDIAN**2
        return kernel(gap) * (s @ t) - slope(gap) @ (s - t) / MEDIAN + trace

    pairs = jax.jit(jax.vmap(jax.vmap(h, (None, None, 0, 0)), (0, 0, None, None)))
    outcome = test(X, S, key=KEY, num_features=20_000, num_draws=1)
    np.testing.assert_allclose(np.exp(outcome.statistic) / 20, pairs(X, S, X, S).mean(), rtol=0.03)


@pytest.mark.parametrize("with_model", [True, False])
def test_null_has_the_second_moment_of_the_model_or_the_covariance_of_the_sample(with_model):
    frequencies, phases = normal(5, 3) / MEDIAN, jnp.linspace(0, 6, 5)
    wrong, y = S + 1, normal(30, 3, seed=1)
    features_of = functools.partial(rfsd.fourier_features, frequencies, phases)
    model = (y, -y) if with_model else None
    options = {"key": KEY, "num_draws": 20_000, "exponent": 2, "model_samples": model}
    draws = np.exp(rfsd.feature_test(features_of, X, wrong, **options).null_distribution)
    features = np.asarray(features_of(y, -y).bracket if with_model else features_of(X, wrong).bracket)
    trace = np.sum(np.mean(features**2, axis=0) if with_model else np.var(features, axis=0, ddof=1))
    np.testing.assert_allclose(draws.mean(), trace, rtol=0.03)


@pytest.mark.parametrize("make", [imq, sech])
def test_bracket_is_the_gradient_of_the_logarithm(make):
    law, z = make()

    def log_size(x):
        return law.features(z, x[None], jnp.zeros((1, 3))).log_size[0]

    slopes = jax.jit(jax.vmap(jax.jacobian(log_size)))(X)  # (N, M, D)
    bracket = jax.jit(law.features)(z, X, S).bracket
    np.testing.assert_allclose(bracket, S[:, :, None] + jnp.swapaxes(slopes, 1, 2), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["imq", "sech"])
def test_density_is_that_of_the_draws(name):
    """Weights must match the draws: E[1 / nu(Z); |Z| < r] is the volume of the ball, here in one dimension."""
    rng, shape = np.random.default_rng(0), (200_000, 1)
    if name == "imq":
        law = rfsd.imq_law(X[:, :1], df=2.6)
        z = law.locations(jnp.asarray(rng.standard_normal(shape)), jnp.asarray(rng.chisquare(2.6, shape[0])))
    else:
        law = rfsd.sech_law(X[:, :1])
        z = law.locations(jnp.asarray(rng.random(shape)))
    distance = np.abs(z - law.centre)[:, 0]
    radius = np.median(distance)
    volume = np.mean(np.where(distance < radius, np.exp(-law.log_density(z)), 0))
    np.testing.assert_allclose(volume, 2 * radius, rtol=0.02)


@pytest.mark.parametrize("test", TESTS)
def test_high_dimension_stays_finite(test):
    """In 60 dimensions log F spans hundreds: features must not be lost to underflow, nor results to overflow."""
    x = normal(100, 60).astype("float32")
    outcome = test(x, -x, key=KEY, num_draws=50)
    assert outcome.statistic.dtype == outcome.null_distribution.dtype == "float32"
    assert np.isfinite(outcome.statistic)
    assert np.isfinite(outcome.null_distribution).all()


def test_locations_are_finite_at_the_ends_of_single_precision():
    law = rfsd.sech_law(X.astype(jnp.float32))
    ends = jnp.array([[jnp.finfo("float32").tiny, 0.5, 1 - 2.0**-24]], jnp.float32)
    assert np.isfinite(law.locations(ends)).all()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("test", "with_model"), [*((test, False) for test in TESTS), (rfsd_l2sech_test, True), (rff_gaussian_test, True)]
)
def test_level_and_power(test, with_model):
    """In two dimensions. L1 IMQ is not calibrated (it rejects about 0.11 here): it must not be worse."""

    def pvalue(key, precision, x, y):
        y = y / jnp.sqrt(precision)
        model = {"model_samples": (y, -precision * y)} if with_model else {}
        return test(x, -precision * x, key=key, num_draws=199, **model).pvalue

    true, wrong = rejections(pvalue, 1.0, 3.0, normal(220, 100, 2), normal(220, 300, 2, seed=1))
    if test is rfsd_l1imq_test:
        assert true < 50
    else:
        assert_calibrated(true, 200)
    assert wrong >= 12
