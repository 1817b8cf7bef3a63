import numpy as np
import pytest

from slicestein._directions.whitening import whiten


def gaussian(n=60, d=5, seed=0):
    """Samples, scores and covariance of a correlated Gaussian with scales from 1e-2 to 1e2."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) * np.logspace(-2, 2, d)[:, None]
    covariance = root @ root.T
    x = rng.standard_t(4, size=(n, d)) @ root.T + 3  # not from the model
    return x, (-np.linalg.solve(covariance, (x - x.mean(0)).T).T), covariance


@pytest.mark.parametrize("n", [60, 8])
def test_a_gaussian_model_is_made_round_whatever_the_samples(n):
    x, s, covariance = gaussian(n)
    forward, inverse = whiten(x, s)
    np.testing.assert_allclose(forward @ covariance @ forward.T, np.eye(5), atol=1e-6)
    np.testing.assert_allclose(forward @ inverse, np.eye(5), atol=1e-8)


def test_products_of_samples_and_scores_are_kept():
    x, s, _ = gaussian()
    y, z = whiten(x, s)(x, s)
    np.testing.assert_allclose(np.sum(y * z, axis=1), np.sum(x * s, axis=1), rtol=1e-6)


def test_units_do_not_matter_and_independent_coordinates_are_not_mixed():
    x, s, _ = gaussian()
    units = np.array([1e-3, 1.0, 1e3, 5.0, 0.2])
    one, other = whiten(x, s)(x, s)[0], whiten(x * units, s / units)(x * units, s / units)[0]
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    rng = np.random.default_rng(1)
    x = np.asarray(rng.standard_normal((50, 3)) * [1.0, 10.0, 0.1])
    forward, _ = whiten(x, -(x - x.mean(0)) / np.array([1.0, 100.0, 0.01]))
    np.testing.assert_allclose(forward, np.diag([1, 0.1, 10]), atol=1e-6)


def test_an_affine_map_only_rotates():
    x, s, _ = gaussian()
    matrix = np.random.default_rng(2).standard_normal((5, 5))
    y, _ = whiten(x, s)(x, s)
    moved, moved_score = x @ matrix.T, s @ np.linalg.inv(matrix)
    z, _ = whiten(moved, moved_score)(moved, moved_score)
    distances = lambda a: np.linalg.norm(a[:, None] - a[None], axis=-1)
    np.testing.assert_allclose(distances(y), distances(z), rtol=1e-3)
