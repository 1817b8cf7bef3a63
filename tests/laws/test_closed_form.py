"""For factorised p and q the best g for r = e_d is e_d itself (label "eq: Closed form SD final")."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss

pytestmark = pytest.mark.usefixtures("precision", "strict")


@pytest.mark.parametrize("draw", ["laplace", "narrow"])
def test_the_identity_is_the_optimum(draw):
    rng = np.random.default_rng(0)
    shape = (100_000, 4)
    x = jnp.asarray(
        rng.laplace(scale=np.sqrt(0.5), size=shape) if draw == "laplace" else 0.7 * rng.standard_normal(shape)
    )
    value = lambda g: ss.sksd(x, -x, ss.Slices(jnp.eye(4), g), per_slice=True)
    best = value(jnp.eye(4))
    for seed in range(5):
        assert jnp.all(value(jax.random.normal(jax.random.key(seed), (4, 4))) < best)
    # A critical point on the sphere: what is left of the gradient is the error of 100,000 samples.
    gradient = jax.grad(lambda g: value(g).sum())(jnp.eye(4))
    turned = jnp.eye(4) + 0.3 * jax.random.normal(jax.random.key(9), (4, 4))
    assert jnp.linalg.norm(gradient) < 0.1 * jnp.linalg.norm(jax.grad(lambda g: value(g).sum())(turned))


def test_ascent_reaches_it():
    x = np.random.default_rng(1).laplace(scale=np.sqrt(0.5), size=(20_000, 3))
    start = jnp.eye(3) + 0.4 * jax.random.normal(jax.random.key(0), (3, 3))
    fit = ss.fit_slices(x, -x, key=0, init=ss.Slices(np.eye(3), start), steps=100, hold_out=0.0)
    assert jnp.all(jnp.diag(fit.slices.g) ** 2 > 0.97)
