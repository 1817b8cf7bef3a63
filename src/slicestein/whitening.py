r"""Coordinates in which the model is round, from samples and scores together.

With :math:`y = W x` the score is :math:`W^{-\top} s`. Samples estimate the covariance
:math:`\Sigma = \operatorname{cov}(x)` and scores its inverse, :math:`F = E[s s^\top]`; the matrix

$$ C = \Sigma \# F^{-1} $$

(geometric mean) uses both. It changes with the coordinates as a covariance does, and for a Gaussian model it
*is* the covariance whatever the samples are, because the errors of the two estimates cancel. A sample from
the wrong distribution is therefore not made to look right, as it would be by its own covariance.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Share of the identity mixed into both correlation matrices: keeps them invertible when N < D.
SHRINKAGE = 1e-3


class Whitening(NamedTuple):
    """Linear map to coordinates of about unit scale and its inverse."""

    forward: Float[Array, "d d"]
    inverse: Float[Array, "d d"]

    def __call__(
        self, x: Float[Array, "n d"], s: Float[Array, "n d"]
    ) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Samples and scores in the new coordinates."""
        return x @ self.forward.T, s @ self.inverse


@jax.jit
def whiten(x: Float[Array, "n d"], s: Float[Array, "n d"]) -> Whitening:
    """Whitening by the geometric mean, keeping each new coordinate as close as can be to the old one.

    First every coordinate is scaled, then correlations are removed by a symmetric root, so that for
    independent parameters nothing is mixed, and scaling or shifting parameters changes nothing.
    """
    x = x - x.mean(0)
    spread, slope = jnp.std(x, axis=0), jnp.sqrt(jnp.mean(s**2, axis=0))
    tiny = jnp.finfo(x.dtype).tiny
    scale = jnp.sqrt(jnp.maximum(spread, tiny) / jnp.maximum(slope, tiny))
    x, s = x / scale, s * scale
    eye = jnp.eye(x.shape[1], dtype=x.dtype)

    def second_moment(z: Array) -> Array:
        moment = z.T @ z / z.shape[0]
        return moment + SHRINKAGE * jnp.mean(jnp.diag(moment)) * eye

    covariance, precision = second_moment(x), second_moment(s)
    # A # B^-1 = A^1/2 (A^1/2 B A^1/2)^-1/2 A^1/2
    root = _power(covariance, 0.5)
    mean = root @ _power(root @ precision @ root, -0.5) @ root
    values, vectors = jnp.linalg.eigh((mean + mean.T) / 2)
    values = jnp.maximum(values, jnp.finfo(x.dtype).eps * values[-1])
    forward = (vectors * values**-0.5) @ vectors.T / scale
    inverse = scale[:, None] * ((vectors * values**0.5) @ vectors.T)
    return Whitening(forward, inverse)


def _power(matrix: Float[Array, "d d"], exponent: float) -> Float[Array, "d d"]:
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
    values = jnp.maximum(values, jnp.finfo(matrix.dtype).eps * values[-1])
    return (vectors * values**exponent) @ vectors.T
