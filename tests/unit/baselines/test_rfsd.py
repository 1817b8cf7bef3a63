"""Random feature Stein discrepancies: check values, features, level."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import slicestein as ss
from slicestein._stein.numpy_bandwidths import median_distance
from slicestein.gof.baselines import rfsd
from tests.unit.standard_input import RTOL, SINGLE, S, X, assert_calibrated, normal, rejections

METHODS = ["rfsd-l1imq", "rfsd-l2sech", "rff-gaussian", "rff-cauchy"]
MEDIAN = median_distance(X)
PRECISIONS = [("float64", RTOL), ("float32", SINGLE)]


def imq(dtype="float64"):
    law, rng = rfsd.imq_law(X.astype(dtype)), np.random.default_rng(21)
    normal = rng.standard_normal((5, 3))
    return law, law.locations(normal, rng.chisquare(0.5, 5))


def sech(dtype="float64"):
    law = rfsd.sech_law(X.astype(dtype))
    return law, law.locations(np.random.default_rng(22).random((5, 3)))


@pytest.mark.parametrize(("dtype", "rtol"), PRECISIONS)
def test_l1imq_has_the_check_values(dtype, rtol):
    law, z = imq(dtype)
    found = [law.power, law.offset, law.offset**2 / law.df, z[0, 0], law.log_density(z)[0]]
    np.testing.assert_allclose(found, [-10.9375, 4.176597334, 34.88793058, 1.884427274, -11.83111493], rtol=rtol)
    features = law.features(z, X.astype(dtype), S.astype(dtype))
    log_r2 = rfsd.log_discrepancy(features, exponent=1)
    np.testing.assert_allclose([log_r2, np.log(20) + log_r2], [-74.39032351, -71.39459124], rtol=rtol)


@pytest.mark.parametrize(("dtype", "rtol"), PRECISIONS)
def test_l2sech_has_the_check_values(dtype, rtol):
    law, z = sech(dtype)
    found = [rfsd.median_l1_distance(X), law.rate, law.location_steepness, z[0, 0], law.log_density(z)[0]]
    expected = [3.239281710, 0.7697352300, 0.6174208293, -0.9856684412, -6.798417922]
    np.testing.assert_allclose(found, expected, rtol=rtol)
    r2 = np.exp(rfsd.log_discrepancy(law.features(z, X.astype(dtype), S.astype(dtype)), exponent=2))
    np.testing.assert_allclose(r2, 0.9161007438, rtol=rtol)


@pytest.mark.parametrize(
    ("frequencies", "expected"),
    [
        (np.random.default_rng(23).standard_normal((5, 3)), 1.176737755),
        (np.random.default_rng(25).laplace(size=(5, 3)), 1.371816862),
    ],
    ids=["gaussian", "cauchy"],
)
@pytest.mark.parametrize(("dtype", "rtol"), PRECISIONS)
def test_fourier_features_have_the_check_values(frequencies, expected, dtype, rtol):
    phases = 2 * np.pi * np.random.default_rng(24).random(5)
    features = rfsd.fourier_features(
        (frequencies / MEDIAN).astype(dtype), phases.astype(dtype), X.astype(dtype), S.astype(dtype)
    )
    np.testing.assert_allclose(np.exp(rfsd.log_discrepancy(features, exponent=2)), expected, rtol=rtol)


@pytest.mark.parametrize(
    ("method", "kernel"),
    [
        ("gaussian", lambda gap: jnp.exp(-jnp.sum(gap**2) / 2)),
        ("cauchy", lambda gap: jnp.prod(1 / (1 + gap**2))),
    ],
)
def test_many_fourier_features_give_the_ksd_of_the_kernel(method, kernel):
    def h(x, s, y, t):
        slope = jax.grad(kernel)
        gap = (x - y) / MEDIAN
        trace = -jnp.trace(jax.jacfwd(slope)(gap)) / MEDIAN**2
        return kernel(gap) * (s @ t) - slope(gap) @ (s - t) / MEDIAN + trace

    pairs = jax.jit(jax.vmap(jax.vmap(h, (None, None, 0, 0)), (0, 0, None, None)))
    found = ss.gof_test(X, S, key=0, method=ss.gof.RFF(method, num_features=20_000), num_bootstrap=19)
    np.testing.assert_allclose(np.exp(found.statistic) / 20, pairs(X, S, X, S).mean(), rtol=0.03)


@pytest.mark.parametrize("with_model", [True, False])
def test_null_has_the_second_moment_of_the_model_or_the_covariance_of_the_sample(with_model):
    frequencies, phases = normal(5, 3) / MEDIAN, np.linspace(0, 6, 5)
    wrong, y = S + 1, normal(30, 3, seed=1)
    off = 1 - y  # features with a mean: the second moment is not the covariance
    features_of = functools.partial(rfsd.fourier_features, frequencies, phases)
    model = (y, off) if with_model else None
    found = rfsd.feature_outcome(features_of, (X, wrong), model, 2, np.random.default_rng(0), 20_000)
    features = features_of(y, off).bracket if with_model else features_of(X, wrong).bracket
    trace = np.sum(np.mean(features**2, axis=0) if with_model else np.var(features, axis=0, ddof=1))
    np.testing.assert_allclose(np.exp(found.null_distribution).mean(), trace, rtol=0.03)


@pytest.mark.parametrize("make", [imq, sech])
def test_bracket_is_the_gradient_of_the_logarithm(make):
    law, z = make()
    steps = 1e-5 * np.eye(3)

    def log_size(x):
        return law.features(z, x, np.zeros_like(x)).log_size

    slopes = np.stack([(log_size(X + e) - log_size(X - e)) / 2e-5 for e in steps], axis=1)  # (N, D, M)
    np.testing.assert_allclose(law.features(z, X, S).bracket, S[:, :, None] + slopes, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["imq", "sech"])
def test_density_is_that_of_the_draws(name):
    """Weights must match the draws: E[1 / nu(Z); |Z| < r] is the volume of the ball, here in one dimension."""
    rng, shape = np.random.default_rng(0), (200_000, 1)
    if name == "imq":
        law = rfsd.imq_law(X[:, :1], df=2.6)
        z = law.locations(rng.standard_normal(shape), rng.chisquare(2.6, shape[0]))
    else:
        law = rfsd.sech_law(X[:, :1])
        z = law.locations(rng.random(shape))
    distance = np.abs(z - law.centre)[:, 0]
    radius = np.median(distance)
    volume = np.mean(np.where(distance < radius, np.exp(-law.log_density(z)), 0))
    np.testing.assert_allclose(volume, 2 * radius, rtol=0.02)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_high_dimension_stays_finite(method, dtype):
    """In 60 dimensions log F spans hundreds: features must not be lost to underflow, nor results to overflow."""
    x = normal(100, 60).astype(dtype)
    found = ss.gof_test(x, -x, key=0, method=method, num_bootstrap=50)
    assert np.isfinite(found.statistic)
    assert np.isfinite(found.null_distribution).all()
    assert np.ptp(found.null_distribution) > 0


def test_locations_are_finite_at_the_ends_of_single_precision():
    law = rfsd.sech_law(X.astype(np.float32))
    ends = np.array([[np.finfo("float32").tiny, 0.5, 1 - 2.0**-24]], np.float32)
    assert np.isfinite(law.locations(ends)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ss.gof.RFSD("l3"), "features must be one of"),
        (lambda: ss.gof.RFF("laplace"), "kernel must be one of"),
        (lambda: ss.gof.RFF(num_features=0), "num_features must be positive"),
        (lambda: ss.gof.RFSD("l2sech", df=2.6), 'scale and df are for features="l1imq"'),
        (lambda: ss.gof_test(X, S, key=0, method=ss.gof.RFF(model_samples=X)), "pass score as a function"),
        (
            lambda: ss.gof_test(X, np.negative, key=0, method=ss.gof.RFF(model_samples=X[:, :2])),
            "model_samples has 2 columns, x has 3",
        ),
        (
            lambda: ss.gof_test(X, np.negative, key=0, method=ss.gof.RFSD(model_samples=X * np.inf)),
            "model_samples has 60 values that are NaN or infinite",
        ),
    ],
)
def test_faults_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Frequencies at which true models are rejected at level 0.05, from 4000 other trials. The normal limit is slow.
LEVELS = {("rfsd-l1imq", False): 0.112, ("rfsd-l2sech", False): 0.031}


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:the samples look serially correlated")
@pytest.mark.parametrize(
    ("method", "with_model"), [*((method, False) for method in METHODS), ("rfsd-l2sech", True), ("rff-gaussian", True)]
)
def test_level_and_power(method, with_model):
    """In two dimensions. What is not calibrated must be neither worse nor better than we say."""
    level = LEVELS.get((method, with_model), 0.05)
    kind, features = method.split("-")
    make = {"rfsd": ss.gof.RFSD, "rff": ss.gof.RFF}[kind]

    def pvalue(seed, x, y, precision=1):
        model = y / np.float32(np.sqrt(precision)) if with_model else None
        chosen = make(features, model_samples=model)
        return ss.gof_test(x, lambda z: -precision * z, key=seed, method=chosen, num_bootstrap=199).pvalue

    x, y = normal(1050, 100, 2).astype(np.float32), normal(1050, 300, 2, seed=1).astype(np.float32)
    assert_calibrated(rejections(pvalue, x[:1000], y[:1000]), 1000, level)
    assert rejections(functools.partial(pvalue, precision=3), x[1000:], y[1000:]) >= 30
    assert stats.binom.sf(29, 50, level) < 1e-6  # no accident
