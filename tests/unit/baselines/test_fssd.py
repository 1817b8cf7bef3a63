"""FSSD: check values, optimisation and level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss
from slicestein._stein.numpy_bandwidths import median_distance
from slicestein.gof.baselines import fssd
from tests.unit.standard_input import RTOL, SINGLE, S, X, assert_calibrated, normal, rejections

LOCATIONS = np.random.default_rng(3).standard_normal((2, 3))
MEDIAN = median_distance(X)
TAU = fssd.fssd_features(X, S, LOCATIONS, MEDIAN)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", RTOL), ("float32", SINGLE)])
def test_statistic_has_the_check_values(dtype, rtol):
    tau = fssd.fssd_features(X.astype(dtype), S.astype(dtype), LOCATIONS.astype(dtype), MEDIAN)
    assert type(tau) is np.ndarray
    assert tau.dtype == dtype
    np.testing.assert_allclose(fssd.fssd_statistic(tau), 0.1022340608, rtol=rtol)
    np.testing.assert_allclose(np.sum(tau.mean(0) ** 2), 0.1290422930, rtol=rtol)
    np.testing.assert_allclose(fssd.fssd_variance(tau), 0.1517797600, rtol=rtol)


@pytest.mark.parametrize(("x64", "rtol"), [(True, RTOL), (False, 10 * SINGLE)])  # derivatives of differences
def test_criterion_and_gradient_have_the_check_values(x64, rtol):
    with jax.enable_x64(x64):
        arguments = [jnp.asarray(a) for a in (X, S, LOCATIONS, MEDIAN)]
        value, (by_location, by_bandwidth) = jax.jit(jax.value_and_grad(fssd.power_criterion, (2, 3)))(*arguments)
        found = [float(value), float(by_location[0, 0]), float(by_bandwidth)]
    np.testing.assert_allclose(found, [0.2541754014, -0.006349621619, -0.009124921627], rtol=rtol)
    np.testing.assert_allclose(fssd.power_criterion(X, S, LOCATIONS, MEDIAN), 0.2541754014, rtol=RTOL)


def test_null_has_the_check_values():
    eigenvalues = np.linalg.eigvalsh(np.cov(TAU.T))[::-1]
    expected = [0.3954654761, 0.1000899893, 0.03270522782, 0.005332802412, 0.002029917811, 0.0005412320349]
    np.testing.assert_allclose(eigenvalues, expected, rtol=RTOL)
    num_bootstrap = 400_000
    found = fssd.fssd_outcome(X, S, LOCATIONS, MEDIAN, rng(), num_bootstrap)
    np.testing.assert_allclose(found.statistic, 2.044681215, rtol=RTOL)
    np.testing.assert_allclose(found.null_distribution.mean(), 0, atol=4 * 0.5788 / num_bootstrap**0.5)
    np.testing.assert_allclose(found.null_distribution.std(), 0.5788150533, rtol=0.01)
    imhof = 0.01337913514
    np.testing.assert_allclose(found.pvalue, imhof, atol=4 * np.sqrt(imhof / num_bootstrap))


def test_features_are_the_stein_operator_of_the_kernel():
    def kernel(x, v):
        return jnp.exp(-jnp.sum((x - v) ** 2) / (2 * MEDIAN**2))

    with jax.enable_x64(True):
        x, locations = jnp.asarray(X), jnp.asarray(LOCATIONS)
        values = jax.vmap(lambda x: jax.vmap(lambda v: kernel(x, v))(locations))(x)
        slopes = jax.vmap(lambda x: jax.vmap(lambda v: jax.grad(kernel)(x, v))(locations))(x)
        expected = (S[:, None, :] * np.asarray(values)[:, :, None] + np.asarray(slopes)) / np.sqrt(6)
    np.testing.assert_allclose(TAU.reshape(20, 3, 2), np.swapaxes(expected, 1, 2), rtol=1e-10)


def test_more_features_than_samples_keep_the_null():
    locations = np.random.default_rng(3).standard_normal((10, 3))  # 30 features of 20 samples
    tau = fssd.fssd_features(X, S, locations, MEDIAN)
    found = fssd.fssd_outcome(X, S, locations, MEDIAN, rng(), 100_000)
    variance = 2 * np.sum(np.linalg.eigvalsh(np.cov(tau.T)) ** 2)
    np.testing.assert_allclose(found.null_distribution.var(), variance, rtol=0.03)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fit_raises_the_criterion_in_the_box(dtype):
    x = normal(200, 10).astype(dtype)
    s = -x.copy()
    s[:, 0] *= 3
    locations, bandwidth = fssd.fit_locations(x, s, rng(), num_locations=3)
    assert locations.shape == (3, 10)
    assert locations.dtype == dtype
    first = fssd.initial_locations(x, rng(), 3)
    starts = [fssd.power_criterion(x, s, first, width) for width in median_distance(x) * fssd.BANDWIDTH_GRID]
    assert fssd.power_criterion(x, s, locations, bandwidth) > 1.5 * max(starts)  # after one step: 1.0x
    assert 0.1 <= bandwidth / median_distance(x) <= 10
    margin = fssd.LOCATION_MARGIN * x.std(0)
    assert np.all((x.min(0) - 1.01 * margin <= locations) & (locations <= x.max(0) + 1.01 * margin))


def test_initial_locations_follow_the_samples():
    x = normal(50, 2) @ np.array([[1.0, 2.0], [0.0, 0.5]]) + 3
    locations = fssd.initial_locations(x, rng(), 50_000)
    np.testing.assert_allclose(locations.mean(0), x.mean(0), atol=0.05)
    np.testing.assert_allclose(np.cov(locations.T), np.cov(x.T), atol=0.1)


def test_fitted_locations_are_tested_on_other_samples():
    x = normal(100, 2)
    found = ss.gof_test(x, -x, key=0, method="fssd-opt", num_bootstrap=19)
    assert (found.num_train, found.num_test) == (20, 80)
    train = normal(30, 2, seed=1)
    method = ss.gof.FSSD(train=(train, np.negative), num_locations=2)
    found = ss.gof_test(x, -x, key=0, method=method, num_bootstrap=19)
    assert (found.num_train, found.num_test) == (30, 100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ss.gof.FSSD("best"), "locations must be one of"),
        (lambda: ss.gof.FSSD(num_locations=0), "num_locations must be positive"),
        (lambda: ss.gof.FSSD("rand", train=(X, S)), 'train is for locations="opt"'),
        (
            lambda: ss.gof_test(X, S, key=0, method=ss.gof.FSSD(train=(X * np.nan, S))),
            "train has 60 values that are NaN",
        ),
        (
            lambda: ss.gof_test(X, S, key=0, method=ss.gof.FSSD(train=(X, S[:9]))),
            "the score of train must have the shape",
        ),
        (
            lambda: ss.gof_test(X, S, key=0, method=ss.gof.FSSD(train=(X[:, :2], S[:, :2]))),
            "train has 2 columns, x has 3",
        ),
        (lambda: ss.gof_test(X[None], S[None], key=0, method="fssd-opt"), "no null for dependent samples"),
    ],
)
def test_faults_say_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        make()


LEVEL = pytest.mark.filterwarnings("ignore:the samples look serially correlated")


@LEVEL
@pytest.mark.statistical
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_random_locations_have_level_and_power(dtype):
    def pvalue(seed, x, precision=1):
        return ss.gof_test(x, -precision * x, key=seed, method="fssd-rand", num_bootstrap=199).pvalue

    x = normal(1050, 200, 2).astype(dtype)
    assert_calibrated(rejections(pvalue, x[:1000]), 1000)
    assert rejections(lambda seed, x: pvalue(seed, x, 3), x[1000:]) >= 40


@LEVEL
@pytest.mark.statistical
def test_fitted_locations_have_level_and_power():
    """Fitted on the test samples themselves, half of the true models would be rejected."""

    def pvalue(seed, x, precision=1):
        method = ss.gof.FSSD(num_locations=2)
        return ss.gof_test(x, -precision * x, key=seed, method=method, num_bootstrap=199, train_fraction=0.25).pvalue

    x = normal(440, 200, 2).astype(np.float32)
    assert_calibrated(rejections(pvalue, x[:400]), 400)
    assert rejections(lambda seed, x: pvalue(seed, x, 3), x[400:]) >= 36
