import jax
import jax.numpy as jnp
import numpy as np

import slicestein as ss


def test_rows_have_length_one():
    slices = ss.Slices(np.arange(1.0, 7).reshape(2, 3), np.ones((2, 3)))
    np.testing.assert_allclose(jnp.linalg.norm(slices.r, axis=1), 1)
    np.testing.assert_allclose(slices.g, 1 / np.sqrt(3))
    assert (slices.num, slices.dim) == (2, 3)


def test_random_directions_are_uniform_and_independent():
    slices = ss.Slices.random(0, 20_000, 3)
    for rows in (slices.r, slices.g):
        np.testing.assert_allclose(rows.T @ rows / 20_000, np.eye(3) / 3, atol=0.01)
    assert abs(jnp.mean(jnp.sum(slices.r * slices.g, axis=1))) < 0.02


def test_slices_pass_through_transformations():
    slices = ss.Slices.random(1, 4, 3)
    doubled = jax.jit(lambda z: jax.tree.map(lambda a: 2 * a, z))(slices)
    np.testing.assert_allclose(jnp.linalg.norm(doubled.r, axis=1), 2)  # normalised when made, not when passed on
