import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from slicestein.samplers import SGHMC
from slicestein.samplers._sghmc import State
from tests.rounding import rounding


def standard_normal(step_size, friction=1.0, gradient_variance=0.0):
    return SGHMC(jnp.negative, step_size, friction, gradient_variance)


def stationary_variances(sampler):
    """Var x and Var v of a sampler that is linear: the fixed point of S = A S A' + b b', read off ``advance``."""

    def advance(xv, noise):
        new = sampler.advance(State(xv[None, :1], xv[None, 1:]), noise[None, None])
        return jnp.concatenate([new.position[0], new.velocity[0]])

    zero = jnp.zeros(2), jnp.zeros(())
    a, b = jax.jacobian(advance, argnums=(0, 1))(*zero)
    return np.diag(solve_discrete_lyapunov(np.asarray(a), np.outer(b, b)))


def test_one_step_of_the_reference():
    state = State(jnp.array([[0.5]]), jnp.array([[-0.3]]))
    x, v = standard_normal(0.1).advance(state, jnp.array([[0.7]]))
    np.testing.assert_allclose(x, 0.47, rtol=rounding(4, 1e-12))
    np.testing.assert_allclose(v, -0.003950483150, rtol=1e-9, atol=rounding(4))


def test_stationary_variances_of_the_reference():
    expected = [1.002638522, 1.055408971]
    np.testing.assert_allclose(stationary_variances(standard_normal(0.1)), expected, rtol=rounding(100, 1e-9))


def test_bias_vanishes_with_the_step():
    # Var x - 1 = O(step^2), Var v - 1 = O(step): halving the step divides them by four and by two.
    with jax.enable_x64(True):  # single precision has no digits for a bias of 3e-5
        coarse, fine = (stationary_variances(standard_normal(step)) - 1 for step in (0.02, 0.01))
    np.testing.assert_allclose(coarse / fine, [4, 2], rtol=0.05)


def test_gradient_noise_is_taken_off_the_injected_noise():
    # A score with noise of variance V and injected noise reduced by it give the chain of exact scores.
    variance, step = 3.0, 0.1
    noise, gradient_noise = 0.7, 0.4
    state = State(jnp.array([[0.5]]), jnp.array([[-0.3]]))
    exact = standard_normal(step).advance(state, jnp.zeros((1, 1))).velocity
    noisy = SGHMC(lambda x: -x + np.sqrt(variance) * gradient_noise, step, 1.0, variance)
    moved = noisy.advance(state, jnp.full((1, 1), noise)).velocity - exact
    expected = np.sqrt(2 * step - step**2 * variance) * noise + step * np.sqrt(variance) * gradient_noise
    np.testing.assert_allclose(moved, expected, rtol=rounding(30, 1e-12))


@pytest.mark.statistical
def test_every_coordinate_of_every_chain_gets_its_own_noise():
    step, friction, n = 0.2, 1.5, 20_000
    sampler = SGHMC(jnp.zeros_like, step, friction, 2.0)
    kick = np.asarray(sampler.step(0, State(jnp.zeros((n, 3)), jnp.zeros((n, 3)))).velocity)
    variance = 2 * step * friction - step**2 * 2.0
    np.testing.assert_allclose(kick.T @ kick / n, variance * np.eye(3), atol=5 * variance * np.sqrt(2 / n))


@pytest.mark.statistical
def test_draws_have_the_stationary_variance():
    # One draw of each of 20,000 chains: the variance of N normal draws has standard error sqrt(2 / N).
    sampler = standard_normal(0.5, friction=2.0)
    expected, _ = stationary_variances(sampler)
    assert expected > 1.1  # far from 1, so that a better integrator would be noticed
    draws = sampler.sample(0, np.full((20_000, 2), 3.0), 1, burn_in=50)[-1]
    assert np.all(np.abs(np.mean(draws, axis=0)) < 5 * np.sqrt(expected / 20_000))
    np.testing.assert_allclose(np.var(draws, axis=0), expected, rtol=5 * np.sqrt(2 / 20_000))


def test_burn_in_and_thinning_keep_the_right_states():
    # With V at its bound no noise is injected, and the chain is a function of its start.
    sampler = standard_normal(0.25, friction=0.5, gradient_variance=4.0)
    start = np.random.default_rng(0).standard_normal((6, 2), np.float32)
    fifth_to_eighth, ninth_to_twelfth = (sampler.sample(7, start, 4, burn_in=steps) for steps in (4, 8))
    thinned = sampler.sample(7, start, 4, burn_in=3, thin=2)
    assert (thinned.shape, thinned.dtype) == ((4, 6, 2), np.float32)
    np.testing.assert_array_equal(thinned, np.concatenate([fifth_to_eighth[::2], ninth_to_twelfth[::2]]))


def test_draws_of_one_chain_move_and_keys_decide():
    sampler = standard_normal(0.1)
    a, b, other = (
        sampler.sample(key, np.zeros((6, 2), np.float32), 4, burn_in=2, thin=2) for key in (1, jax.random.key(1), 2)
    )
    np.testing.assert_array_equal(a, b)
    assert not np.isclose(a, other).any()
    increments = np.diff(a, axis=0)
    assert np.unique(increments).size == increments.size


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0.0, 1.0, 0.0), "step_size must be positive, got 0.0"),
        ((0.1, -1.0, 0.0), "friction must be positive, got -1.0"),
        ((0.1, 1.0, 21.0), "gradient_variance must lie between 0 and 2 friction / step_size = 20"),
        ((0.1, 1.0, -1.0), "gradient_variance must lie between 0 and"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        SGHMC(lambda x: -x, *settings)


def test_lengths_are_checked():
    sampler = standard_normal(0.1)
    for name, lengths in (("num_draws", (0, 0, 1)), ("burn_in", (1, -1, 1)), ("thin", (1, 0, 0))):
        draws, burn_in, thin = lengths
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            sampler.sample(0, np.zeros((1, 1)), draws, burn_in=burn_in, thin=thin)
