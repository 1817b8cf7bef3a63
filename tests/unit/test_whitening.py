import numpy as np
import pytest

from slicestein._directions.whitening import roots, scales, whiten


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
    whitening = whiten(x, s)
    forward, inverse = whitening
    np.testing.assert_allclose(forward @ covariance @ forward.T, np.eye(5), atol=1e-6)
    np.testing.assert_allclose(forward @ inverse, np.eye(5), atol=1e-8)
    relative = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(whitening.covariance / relative, covariance / relative, atol=1e-6)
    np.testing.assert_allclose(whitening.variances, np.diag(covariance), rtol=1e-6)


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


def test_where_the_samples_lie_does_not_matter():
    x, s, _ = gaussian()
    np.testing.assert_allclose(whiten(x + 100, s).forward, whiten(x, s).forward, rtol=1e-6, atol=1e-9)


def test_an_affine_map_only_rotates():
    x, s, _ = gaussian()
    matrix = np.random.default_rng(2).standard_normal((5, 5))
    y, _ = whiten(x, s)(x, s)
    moved, moved_score = x @ matrix.T, s @ np.linalg.inv(matrix)
    z, _ = whiten(moved, moved_score)(moved, moved_score)
    distances = lambda a: np.linalg.norm(a[:, None] - a[None], axis=-1)
    np.testing.assert_allclose(distances(y), distances(z), rtol=1e-3)


@pytest.mark.parametrize("n", [3, 9])
def test_what_few_samples_do_not_reach_is_scaled_and_not_mixed(n):
    """Fewer samples than half the dimensions: the map is invertible, and the rest of the space is left alone."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 20)) * np.logspace(-2, 2, 20)
    s = -x / np.logspace(-4, 4, 20)
    forward, inverse = whiten(x, s)
    np.testing.assert_allclose(forward @ inverse, np.eye(20), atol=1e-9)
    scale = scales(x, s)
    y, z = (x - x.mean(0)) / scale, (s - s.mean(0)) * scale
    unreached = np.linalg.svd(np.concatenate([y, z]))[2][2 * n :]  # rows orthogonal to all of them
    np.testing.assert_allclose((forward * scale) @ unreached.T, unreached.T, atol=1e-9)


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-12), ("float32", 1e-5)])
def test_scales_are_those_of_independent_gaussians(dtype, atol):
    deviations = np.array([1e-3, 1.0, 50.0])
    x = np.random.default_rng(0).standard_normal((40, 3)) * deviations * [3, 1, 0.2]  # of another spread than the model
    found = scales(x.astype(dtype), (-x / deviations**2).astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found / deviations, 1, atol=atol)


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-12), ("float32", 1e-4)])
def test_roots_are_symmetric_and_square_to_the_matrix(dtype, atol):
    z = np.random.default_rng(0).standard_normal((10, 4))
    matrix = (z.T @ z).astype(dtype)
    root, inverse = roots(matrix, ridge=0.0)
    np.testing.assert_allclose(root @ root, matrix, atol=atol * matrix.max())
    np.testing.assert_allclose(root @ inverse, np.eye(4), atol=atol)
    np.testing.assert_allclose(root, root.T, atol=atol)
    ridged, _ = roots(np.zeros((2, 2), dtype), ridge=4.0)
    np.testing.assert_allclose(ridged, 2 * np.eye(2))
