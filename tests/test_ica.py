"""The parts of the ICA experiment that its results rest on."""

import jax
import jax.numpy as jnp
import numpy as np

from experiments import ica


def test_the_jump_has_the_derivative_of_the_mean_over_samples():
    x = np.random.default_rng(0).laplace(size=(200_000, 2))
    weights = np.stack([-x[:, 1], x[:, 0]], axis=1)

    def value(angle, jump):
        turn = jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])
        return jnp.mean(jnp.sum((ica.score(turn, x, jump=jump) @ turn.T) * weights, axis=1))  # of the signs alone

    np.testing.assert_allclose(value(0.5, True), value(0.5, False), rtol=1e-12)
    difference = (value(0.55, False) - value(0.45, False)) / 0.1
    np.testing.assert_allclose(jax.grad(value)(0.5, True), difference, rtol=0.05)
    assert abs(jax.grad(value)(0.5, False)) < 1e-10 < 0.1 < abs(difference)  # what automatic differentiation sees


def test_covariance_alone_whitens():
    rng = np.random.default_rng(1)
    x = rng.laplace(size=(20_000, 4)) @ rng.standard_normal((4, 4))
    y = x @ ica.covariance_alone(x).T
    np.testing.assert_allclose(np.corrcoef(y.T), np.eye(4), atol=1e-10)
    np.testing.assert_allclose(np.abs(y).mean(0), 1, rtol=1e-10)


def test_gaps_are_means_over_runs():
    rows = [
        {"method": method, "d": d, "gap": gap, "covariance_gap": -1.0}
        for method, d, gap in (("lsd", 5, -2.0), ("lsd", 5, -4.0), ("lsd", 9, -7.0), ("ksd", 9, -8.0))
    ]
    rows.append({"method": "lsd", "variant": "jump", "d": 9, "gap": -0.5, "covariance_gap": -1.0})
    assert ica.gaps(rows)[2:] == [
        "| ksd |  | -8.00 |",
        "| lsd | -3.00 ± 1.00 | -7.00 |",
        "| lsd, jump |  | -0.50 |",
        "| covariance alone | -1.00 | -1.00 |",
    ]
