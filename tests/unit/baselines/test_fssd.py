"""FSSD: check values, optimisation and level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slicestein._stein.bandwidths import median_distance
from slicestein.gof.baselines import fssd, fssd_opt_test, fssd_rand_test
from tests.unit.standard_input import RTOL, S, X, assert_calibrated, normal, rejections

KEY = jax.random.key(0)
LOCATIONS = jnp.asarray(np.random.default_rng(3).standard_normal((2, 3)))
MEDIAN = median_distance(X)
TAU = jax.jit(fssd.fssd_features)(X, S, LOCATIONS, MEDIAN)
criterion = jax.jit(fssd.power_criterion)


def test_statistic_has_the_check_values():
    np.testing.assert_allclose(fssd.fssd_statistic(TAU), 0.1022340608, rtol=RTOL)
    np.testing.assert_allclose(jnp.sum(TAU.mean(0) ** 2), 0.1290422930, rtol=RTOL)
    np.testing.assert_allclose(fssd.fssd_variance(TAU), 0.1517797600, rtol=RTOL)


def test_criterion_and_gradient_have_the_check_values():
    value, (by_location, by_bandwidth) = jax.value_and_grad(criterion, (2, 3))(X, S, LOCATIONS, MEDIAN)
    found = [value, by_location[0, 0], by_bandwidth]
    np.testing.assert_allclose(found, [0.2541754014, -0.006349621619, -0.009124921627], rtol=RTOL)


def test_null_has_the_check_values():
    eigenvalues = np.linalg.eigvalsh(np.cov(TAU.T))[::-1]
    expected = [0.3954654761, 0.1000899893, 0.03270522782, 0.005332802412, 0.002029917811, 0.0005412320349]
    np.testing.assert_allclose(eigenvalues, expected, rtol=RTOL)
    num_draws = 400_000
    outcome = fssd.fssd_test(X, S, key=KEY, locations=LOCATIONS, bandwidth=MEDIAN, num_draws=num_draws)
    np.testing.assert_allclose(outcome.statistic, 2.044681215, rtol=RTOL)
    np.testing.assert_allclose(outcome.null_distribution.mean(), 0, atol=4 * 0.5788 / num_draws**0.5)
    np.testing.assert_allclose(outcome.null_distribution.std(), 0.5788150533, rtol=0.01)
    imhof = 0.01337913514
    np.testing.assert_allclose(outcome.pvalue, imhof, atol=4 * np.sqrt(imhof / num_draws))


def test_features_are_the_stein_operator_of_the_kernel():
    def kernel(x, v):
        return jnp.exp(-jnp.sum((x - v) ** 2) / (2 * MEDIAN**2))

    values = jax.vmap(lambda x: jax.vmap(lambda v: kernel(x, v))(LOCATIONS))(X)
    slopes = jax.vmap(lambda x: jax.vmap(lambda v: jax.grad(kernel)(x, v))(LOCATIONS))(X)
    expected = (S[:, None, :] * values[:, :, None] + slopes) / np.sqrt(6)
    np.testing.assert_allclose(TAU.reshape(20, 3, 2), jnp.swapaxes(expected, 1, 2), rtol=1e-10)


def test_more_features_than_samples_keep_the_null():
    locations = jnp.asarray(np.random.default_rng(3).standard_normal((10, 3)))  # 30 features of 20 samples
    tau = fssd.fssd_features(X, S, locations, MEDIAN)
    outcome = fssd.fssd_test(X, S, key=KEY, locations=locations, bandwidth=MEDIAN, num_draws=100_000)
    variance = 2 * np.sum(np.linalg.eigvalsh(np.cov(tau.T)) ** 2)
    np.testing.assert_allclose(outcome.null_distribution.var(), variance, rtol=0.03)


def test_fit_raises_the_criterion_in_the_box():
    x = normal(200, 10).astype(jnp.float32)
    s = -x.at[:, 0].mul(3)
    locations, bandwidth = fssd.fit_locations(x, s, key=KEY, num_locations=3)
    assert locations.shape == (3, 10)
    assert locations.dtype == bandwidth.dtype == jnp.float32
    widths = median_distance(x) * fssd.BANDWIDTH_GRID.astype(np.float32)
    first = fssd.initial_locations(x, KEY, 3)
    starts = [criterion(x, s, first, width) for width in widths]
    assert criterion(x, s, locations, bandwidth) > 1.5 * max(starts)  # after one step: 1.0x
    assert 0.1 < bandwidth / median_distance(x) < 10


def test_initial_locations_follow_the_samples():
    x = normal(50, 2) @ jnp.array([[1.0, 2.0], [0.0, 0.5]]) + 3
    locations = fssd.initial_locations(x, KEY, 50_000)
    np.testing.assert_allclose(locations.mean(0), x.mean(0), atol=0.05)
    np.testing.assert_allclose(np.cov(locations.T), np.cov(x.T), atol=0.1)


@pytest.mark.statistical
def test_random_locations_have_level_and_power():
    def pvalue(key, precision, x):
        return fssd_rand_test(x, -precision * x, key=key, num_draws=199).pvalue

    true, wrong = rejections(pvalue, 1.0, 3.0, normal(220, 100, 2))
    assert_calibrated(true, 200)
    assert wrong >= 10


@pytest.mark.statistical
def test_fitted_locations_have_level_and_power():
    """Fitted on the test samples themselves, half of the true models would be rejected."""
    count = {1.0: 0, 3.0: 0}
    data = zip(jax.random.split(KEY, 80), normal(80, 50, 2), normal(80, 150, 2, seed=1), strict=True)
    for i, (key, train, test) in enumerate(data):
        precision = 1.0 if i < 60 else 3.0
        outcome = fssd_opt_test(
            test, -precision * test, key=key, train=(train, -precision * train), num_draws=199, num_locations=2
        )
        count[precision] += int(outcome.pvalue <= 0.05)
    assert_calibrated(count[1.0], 60)
    assert count[3.0] >= 18
