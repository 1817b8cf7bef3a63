r"""Coordinates in which the model is round, from samples and scores together.

With $y = W x$ the score is $W^{-\top} s$. Samples estimate the covariance
$\Sigma = \operatorname{cov}(x)$ and scores its inverse, $F = E[s s^\top]$; the matrix

$$ C = \Sigma \# F^{-1} $$

(geometric mean) uses both. It changes with the coordinates as a covariance does, and for a Gaussian model it
*is* the covariance whatever the samples are, because the errors of the two estimates cancel. A sample from
the wrong distribution is therefore not made to look right, as it would be by its own covariance.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

# Share of the identity mixed into both matrices: keeps them invertible when N < D.
SHRINKAGE = 1e-3
# Each pass removes a factor 1 / SHRINKAGE of ill-conditioning, and starts from what the last one left. Four are enough
# for single precision; well-conditioned problems need two.
PASSES = 4
CLOSE = 1e-4  # a pass that changed nothing by more than this was the last one


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

    Cost: O(N D^2 + D^3).
    """
    x = x - x.mean(0)
    tiny = jnp.finfo(x.dtype).tiny
    spread, slope = (jnp.maximum(jnp.sqrt(jnp.mean(z**2, axis=0)), tiny) for z in (x, s))
    scale = jnp.sqrt(spread / slope)
    start = Whitening(jnp.diag(1 / scale), jnp.diag(scale))

    def one_pass(carry: tuple[Array, Array, Whitening]) -> tuple[Array, Array, Whitening]:
        done, _, so_far = carry
        root, inverse_root = _roots(_geometric_mean(*so_far(x, s)))
        change = jnp.abs(root - jnp.eye(x.shape[1], dtype=x.dtype)).max()
        return done + 1, change, Whitening(inverse_root @ so_far.forward, so_far.inverse @ root)

    def unfinished(carry: tuple[Array, Array, Whitening]) -> Array:
        done, change, _ = carry
        return (done < PASSES) & (change > CLOSE)

    return lax.while_loop(unfinished, one_pass, (jnp.array(0), jnp.array(jnp.inf, x.dtype), start))[2]


def _geometric_mean(x: Float[Array, "n d"], s: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """A # B^-1 = A^1/2 (A^1/2 B A^1/2)^-1/2 A^1/2, for the second moments A of x and B of s."""

    def second_moment(z: Array) -> Array:
        moment = z.T @ z / z.shape[0]
        return moment + SHRINKAGE * jnp.mean(jnp.diag(moment)) * jnp.eye(z.shape[1], dtype=z.dtype)

    root, _ = _roots(second_moment(x))
    _, inverse_root = _roots(root @ second_moment(s) @ root)
    return root @ inverse_root @ root


def _roots(matrix: Float[Array, "d d"]) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """Symmetric root of a positive matrix and its inverse."""
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
    roots = jnp.sqrt(jnp.maximum(values, jnp.finfo(matrix.dtype).eps * values[-1]))
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
