import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slicestein import score_from
from slicestein.samplers import GaussBernoulliRBM
from tests.rounding import rounding

X = np.random.default_rng(12345).standard_normal((20, 3))


@pytest.fixture
def model():
    rng = np.random.default_rng(70)
    B = 2.0 * rng.integers(0, 2, (3, 2)) - 1
    return GaussBernoulliRBM(B, rng.standard_normal(3), rng.standard_normal(2))


@pytest.fixture
def strong():
    """A model whose hidden units depend on each other and whose mixture is far from a Gaussian."""
    return GaussBernoulliRBM([[1.5, -0.7, 0.4], [0.3, 1.2, -1.1]], [0.4, -0.3], [0.2, -0.5, 0.6])


def mixture(model):
    """Weights and means of the 2^H Gaussians of unit covariance, from the joint density."""
    B, b, c = (np.asarray(a) for a in (model.B, model.b, model.c))
    h = np.array(list(itertools.product((-1, 1), repeat=len(c))))
    means = np.array([b + 0.5 * B @ state for state in h])
    weights = np.exp(h @ c + 0.5 * np.sum(means**2, axis=1))
    return weights / weights.sum(), means


def exact_moments(model):
    weights, means = mixture(model)
    mean = weights @ means
    return mean, np.eye(len(mean)) + (weights[:, None] * means).T @ means - np.outer(mean, mean)


def assert_sample_of(model, x):
    """First and second moments within five standard errors of the exact ones."""
    mean, cov = exact_moments(model)
    n = len(x)
    assert np.all(np.abs(x.mean(0) - mean) < 5 * np.sqrt(np.diag(cov) / n))
    products = (x - mean)[:, :, None] * (x - mean)[:, None, :]
    assert np.all(np.abs(products.mean(0) - cov) < 5 * products.std(0) / np.sqrt(n))


def test_values_of_the_reference(model):
    rtol = rounding(30, 1e-9)
    np.testing.assert_allclose(model.log_density(X[0]), 4.070885373, rtol=rtol)
    np.testing.assert_allclose(model.score(X)[0], [0.2981240967, 0.8209802306, -0.8558449367], rtol=rtol)
    np.testing.assert_allclose(model.hidden_probability(X[0]), [0.2908143666, 0.9712442094], rtol=rtol)
    np.testing.assert_allclose(
        model.visible_mean(np.array([1, -1])), [0.5547289030, 0.4042788459, -1.464448099], rtol=rtol
    )
    np.testing.assert_allclose(model.log_normalizer(), 8.037482835, rtol=rtol)


def test_score_is_the_gradient_of_the_log_density(strong):
    x = np.random.default_rng(0).normal(size=(50, 2), scale=3)
    close = {"rtol": rounding(30, 1e-12), "atol": rounding(30, 1e-12)}
    np.testing.assert_allclose(strong.score(x), jax.jit(score_from(strong.log_density))(x), **close)


def test_density_is_the_mixture_of_gaussians(strong):
    weights, means = mixture(strong)
    x = np.random.default_rng(1).normal(size=(10, 2), scale=2)
    square = np.sum((x[:, None] - means) ** 2, axis=2)
    expected = np.log(np.exp(-0.5 * square) @ weights / (2 * np.pi))
    found = jax.jit(jax.vmap(strong.log_density))(x) - strong.log_normalizer()
    np.testing.assert_allclose(found, expected, rtol=rounding(30, 1e-12))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_samples_do_not_overflow(dtype):
    model = GaussBernoulliRBM(np.ones((2, 1), dtype), np.zeros(2, dtype), np.zeros(1, dtype))
    far = np.full((1, 2), -1e4, dtype)
    # log 2 cosh y = |y| to the last digit, and |y| = 1e4.
    np.testing.assert_allclose(model.log_density(far[0]), -1e8 + 1e4, rtol=1e-6)
    np.testing.assert_allclose(model.score(far), 1e4 - 0.5, rtol=1e-6)
    assert model.score(far).dtype == jax.dtypes.canonicalize_dtype(dtype)


@pytest.mark.statistical
def test_chains_forget_their_start(strong):
    x = strong.sample(0, 20_000, 40, init=np.full((20_000, 2), 5.0))
    assert_sample_of(strong, np.asarray(x))


@pytest.mark.statistical
def test_one_sweep_keeps_the_exact_distribution(strong):
    rng = np.random.default_rng(2)
    weights, means = mixture(strong)
    x = means[rng.choice(len(weights), size=100_000, p=weights)] + rng.standard_normal((100_000, 2))
    assert_sample_of(strong, x)
    assert_sample_of(strong, np.asarray(strong.gibbs_step(1, x)))


@pytest.mark.statistical
def test_hidden_units_are_drawn_independently_given_x():
    # At x = 0 the first two units are fair coins, and x given h shows how they fell.
    model = GaussBernoulliRBM(40 * np.eye(2, 3), np.zeros(2), np.zeros(3))
    signs = np.sign(np.asarray(model.gibbs_step(0, np.zeros((100_000, 2)))))
    assert abs(np.mean(signs[:, 0] * signs[:, 1])) < 5 / np.sqrt(100_000)
    assert np.all(np.abs(np.mean(signs, axis=0)) < 5 / np.sqrt(100_000))


def test_sampling_is_reproducible_and_starts_where_told(model):
    a, b, other = (model.sample(key, 20, 5) for key in (4, jax.random.key(4), 5))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, other)
    np.testing.assert_array_equal(model.sample(0, 20, 0, init=X), jnp.asarray(X))


def test_random_models_and_perturbations():
    model = GaussBernoulliRBM.random(0, 50, 40)
    assert set(np.unique(model.B)) == {-1.0, 1.0}
    assert abs(np.mean(model.B)) < 5 / np.sqrt(2000)
    assert (model.B.shape, model.b.shape, model.c.shape) == ((50, 40), (50,), (40,))
    other = model.perturb(1, 0.02)
    noise = (np.asarray(other.B) - np.asarray(model.B)) / 0.02
    # The variance of 2000 normal draws has standard error sqrt(2 / 2000).
    assert abs(noise.var() - 1) < 5 * np.sqrt(2 / 2000)
    np.testing.assert_array_equal(other.b, model.b)
    np.testing.assert_array_equal(other.c, model.c)
    np.testing.assert_array_equal(model.perturb(1, 0.0).B, model.B)


def test_messages(model):
    with pytest.raises(ValueError, match=r"b must have shape \(3,\)"):
        GaussBernoulliRBM(np.ones((3, 2)), np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match=r"init must have shape \(5, 3\)"):
        model.sample(0, 5, 1, init=X)
    with pytest.raises(ValueError, match="num_steps must not be negative"):
        model.sample(0, 5, -1)
    with pytest.raises(ValueError, match="at most 16 hidden units, got 17"):
        GaussBernoulliRBM(np.ones((2, 17)), np.zeros(2), np.zeros(17)).log_normalizer()
