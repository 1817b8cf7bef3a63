r"""Coordinates in which the model is round, from samples and scores together.

With $y = W x$ the score is $W^{-\top} s$. Samples estimate the covariance
$\Sigma = \operatorname{cov}(x)$ and scores its inverse, $F = \operatorname{cov}(s)$; the matrix

$$ C = \Sigma \# F^{-1} $$

(geometric mean) uses both. It changes with the coordinates as a covariance does, and for a Gaussian model it
*is* the covariance whatever the samples are, because the errors of the two estimates cancel. A sample from
the wrong distribution is therefore not made to look right, as it would be by its own covariance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._checks import ScoreLike
from slicestein.rows.arrays import as_rows

# Share of the identity mixed into both matrices: keeps them invertible when N < D.
SHRINKAGE = 1e-3
# Each pass removes a factor 1 / SHRINKAGE of ill-conditioning, and starts from what the last one left. Well-conditioned
# problems need two.
PASSES = 4
CLOSE = 1e-4  # a pass that changed nothing by more than this was the last one


class Whitening(NamedTuple):
    """Linear map to coordinates of about unit scale, y = forward x, and its inverse."""

    forward: Float[np.ndarray, "d d"]
    inverse: Float[np.ndarray, "d d"]

    def __call__(
        self, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
        """Samples and scores in the new coordinates."""
        return x @ self.forward.T, s @ self.inverse

    @property
    def covariance(self) -> Float[np.ndarray, "d d"]:
        """C, the covariance that becomes the identity."""
        return self.inverse @ self.inverse.T

    @property
    def variances(self) -> Float[np.ndarray, " d"]:
        """The diagonal of C."""
        return np.sum(self.inverse**2, axis=1)


def scales(x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    r"""Scale of every coordinate, $\sqrt{\operatorname{sd}(x_d) / \operatorname{sd}(s_d)}$: C were it diagonal."""
    return np.sqrt(_spread(x)) / np.sqrt(_spread(s))


def _spread(z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """Standard deviation of every column, of numbers whose squares may overflow; one for a constant column."""
    deviations = z - z.mean(0)
    largest = np.abs(deviations).max(0)
    largest = np.where(largest > 0, largest, 1)
    spread = largest * np.sqrt(np.mean((deviations / largest) ** 2, axis=0))
    return np.where(spread > 0, spread, 1)


def whiten(x: Any, score: ScoreLike) -> Whitening:
    """Coordinates in which a model is round, from samples (N, D) and their scores, or a function that gives them.

    Slices that are fitted there see every parameter alike, whatever its unit and its correlations.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein import whiten
    >>> x = np.random.default_rng(0).standard_normal((500, 2)) * [1.0, 100.0]
    >>> coordinates = whiten(x, lambda x: -x / [1.0, 10_000.0])
    >>> y, score = coordinates(x, -x / [1.0, 10_000.0])
    >>> bool(abs(y.std(0) - 1).max() < 0.1)
    True
    """
    rows, s = as_rows(x, score)
    _checks.columns_vary(rows)
    return find_whitening(rows.astype(float), s.astype(float))


def find_whitening(x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Whitening:
    """Whitening by the geometric mean, keeping each new coordinate as close as can be to the old one.

    First every coordinate is scaled, then correlations are removed by a symmetric root, so that for
    independent parameters nothing is mixed, and scaling or shifting parameters changes nothing. What neither samples
    nor scores reach, when they are fewer than the dimensions, is left as it is.

    Cost: O(N D^2 + D min(D, N)^2).
    """
    scale = scales(x, s)
    y, z = (x - x.mean(0)) / scale, (s - s.mean(0)) * scale
    count, dim = x.shape
    if 2 * count >= dim:
        forward, inverse = _round(y, z)
        return Whitening(forward / scale, scale[:, None] * inverse)
    reached = np.linalg.qr(np.concatenate([y, z]).T)[0]  # (D, 2 N): the span of samples and scores
    small = _round(y @ reached, z @ reached)
    unchanged = np.eye(2 * count)
    forward, inverse = (np.eye(dim) + reached @ (part - unchanged) @ reached.T for part in small)
    return Whitening(forward / scale, scale[:, None] * inverse)


def _round(x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Whitening:
    """Whitening of centred samples and scores of about unit scale."""
    so_far = Whitening(*(np.eye(x.shape[1]) for _ in range(2)))
    for _ in range(PASSES):
        root, inverse_root = roots(_geometric_mean(*so_far(x, s)))
        so_far = Whitening(inverse_root @ so_far.forward, so_far.inverse @ root)
        if np.abs(root - np.eye(x.shape[1])).max() <= CLOSE:
            break
    return so_far


def _geometric_mean(x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    """A # B^-1 = L (L^T B L)^-1/2 L^T with A = L L^T, for the second moments A of x and B of s."""

    def second_moment(z: np.ndarray) -> np.ndarray:
        moment = z.T @ z / len(z)
        return moment + SHRINKAGE * np.mean(np.diag(moment)) * np.eye(z.shape[1])

    factor = np.linalg.cholesky(second_moment(x))
    _, inverse_root = roots(factor.T @ second_moment(s) @ factor)
    return factor @ inverse_root @ factor.T


def roots(
    matrix: Float[np.ndarray, "d d"], ridge: float = 0.0
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d d"]]:
    """Symmetric root of a positive matrix plus a multiple of the identity, and its inverse."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    root = np.sqrt(np.maximum(values, np.finfo(matrix.dtype).eps * values[-1]) + ridge)
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
