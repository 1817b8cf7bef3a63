r"""Active slices: directions in closed form, from two eigenproblems (Gong, Zhang, Li and Hernandez-Lobato 2021).

With $f = s_p - s_q$, the difference of the scores of the model and of the samples,

$$
\begin{aligned}
r &: \text{top eigenvectors of } Q = \mathbb E_q [f f^\top], \\
g_r &: \text{top eigenvector of } H_r = \mathbb E_q [\nabla f_r \nabla f_r^\top], \quad f_r = r^\top f .
\end{aligned}
$$

f is not known and is estimated from the samples with a Gaussian kernel k of bandwidth h, either smoothed
(``"kernel"``: the witness function of the KSD, an estimate of $\mathbb E_q [k(x, \cdot) f(x)]$),

$$
\hat f(y) = \frac1n \sum_i k(x_i, y) \left[ s_i - (x_i - y) / h^2 \right],
$$

or as such (``"stein"``: the Stein gradient estimator of Li and Turner 2018),

$$
\hat s_q(y) = - \frac1\eta \sum_i k(x_i, y) \left[ \hat s_i - (x_i - y) / h^2 \right], \quad
\hat s = - (K + \eta I)^{-1} \langle \nabla, K \rangle,
$$

which passes through $\hat s_i$ at $x_i$. The score of the model is extended from its values at the samples
by the same ridge regression, $\hat s_p(y) = \sum_i k(x_i, y) c_i$, $c = (K + \eta I)^{-1} s$. Then
$\hat f = \hat s_p - \hat s_q$ is the first formula with $\hat s + \eta c$ in place of s, times
$n / \eta$: one implementation serves both.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._stein.bandwidths import evenly_spread
from slicestein._stein.numpy_bandwidths import full_bandwidth
from slicestein.kernels import RBF
from slicestein.rows.arrays import as_rows
from slicestein.slices import Slices

# More samples add cost, O(n^2), and little to the directions; the authors' experiments use 200 to 3000.
ACTIVE_ROWS = 1000
# Samples for the median rule, as in the authors' code (theirs are the first 100, ours are evenly spread).
MEDIAN_ROWS = 100
# Ridge of the Stein gradient estimator, as in the authors' code.
RIDGE = 0.01
# Lanczos: size of a Krylov space, residual (relative to the eigenvalue) at which to stop, most restarts.
KRYLOV_SIZE = 10
TOLERANCE = 1e-4
MAX_RESTARTS = 10
# Values alive at once in a block of slices: 256 MB in double precision.
BLOCK_VALUES = 2**25

Estimator = Literal["kernel", "stein"]


def active_slices(
    x: Any,
    score: ScoreLike,
    num_slices: int,
    *,
    kernel: RBF = RBF(),
    basis_r: bool = False,
    estimator: Estimator = "kernel",
) -> Slices:
    r"""Directions (r, g) along which samples and model differ most, without gradient ascent.

    Parameters
    ----------
    x
        Samples, (N, D). Directions chosen on the samples that are then tested void the level of the test:
        split first.
    score
        $\nabla \log p$ at the samples, (N, D), or a function that maps x to it.
    num_slices
        Number of slices, M, at most D, strongest first. A few are often enough.
    kernel
        Gaussian kernel in the full space. Its bandwidth h is the median distance between samples, or a number; r
        is found with 2 h, g with h. The ``"stein"`` estimator takes h for both.
    basis_r
        Take coordinate axes for r, in their order, instead of eigenvectors; where ``num_slices`` is less than D,
        those with the largest $Q_{dd}$.
    estimator
        ``"kernel"`` or ``"stein"``. The former smooths over the full space: in tens of dimensions it sees
        differences of mean and scale, and little of shape. The latter sees shape too, with more noise.

    Returns
    -------
    Slices
        M pairs; the signs of r and g carry no meaning.

    Notes
    -----
    At most N = 1000 samples, evenly spread, are used, and 100 for the median. Q has rank at most N: where M
    exceeds N the last r are arbitrary.

    Cost: O(N^2 D + min(N, D)^3) for r, then 10 to 30 (at most 100) products with every $H_r$, O(M (N^2 + N D))
    each, by Lanczos: no $H_r$ is formed, which would cost O(M (N^2 D + N D^2)). ``"stein"`` adds O(N^3).
    Memory O(N^2 + M (N + D)). Runs in NumPy: nothing is traced or compiled.

    Differs from the paper: with ``"stein"`` the gradient of $f_r$ is that of the fitted function, all samples
    held fixed, and the score of the model is fitted like that of the samples, so that its values are enough. The
    authors' code differentiates the sum of all estimates by the place of a sample, which moves all of them,
    and passes a length where the kernel expects its square.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein import active_slices
    >>> x = np.random.default_rng(0).standard_normal((200, 10))
    >>> x[:, 3] = 0.5 * x[:, 3] + 0.5
    >>> slices = active_slices(x, -x, 1)
    >>> int(abs(slices.r[0]).argmax()), int(abs(slices.g[0]).argmax())
    (3, 3)
    """
    _checks.one_of("estimator", estimator, ("kernel", "stein"))
    if not isinstance(kernel, RBF):
        raise InputError(f"kernel must be RBF(), got {kernel!r}")
    x, s = as_rows(x, score)
    if not 1 <= num_slices <= x.shape[1]:
        raise InputError(f"num_slices must lie between 1 and D = {x.shape[1]}, got {num_slices}")
    _checks.bandwidth(kernel.bandwidth, 1)
    _checks.bandwidth(kernel.scale, 1, "scale")
    _checks.bandwidth_exists(kernel, x)
    _checks.in_range(x=x, score=s)
    return Slices(*find_active(x, s, num_slices, kernel=kernel, basis_r=basis_r, estimator=estimator))


def find_active(
    x: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
    num_slices: int,
    *,
    kernel: RBF = RBF(),
    basis_r: bool = False,
    estimator: Estimator = "kernel",
) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m d"]]:
    """`active_slices` of checked samples: r and g, rows of length one."""
    x, s = evenly_spread(x, ACTIVE_ROWS), evenly_spread(s, ACTIVE_ROWS)
    bandwidth = full_bandwidth(kernel, evenly_spread(x, MEDIAN_ROWS))
    if estimator == "kernel":
        difference, source = smoothed_difference(x, s, 2 * bandwidth), s
    else:
        of_samples = stein_gradient(x, bandwidth)
        difference, source = s - of_samples, of_samples + RIDGE * _ridge_solve(_standardize(x, bandwidth)[1], s)
    if basis_r:
        strongest = np.sort(np.argsort(-np.sum(difference**2, axis=0))[:num_slices])
        r = np.eye(x.shape[1], dtype=x.dtype)[strongest]
    else:
        r = leading_vectors(difference, num_slices)
    block = max(1, BLOCK_VALUES // (8 * len(x) + 3 * KRYLOV_SIZE * x.shape[1]))
    slopes = [Slopes.of(x, source, bandwidth, r[i : i + block]) for i in range(0, len(r), block)]
    return r, np.concatenate([_top_eigenvectors(some) for some in slopes])


def smoothed_difference(
    x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"], bandwidth: float
) -> Float[np.ndarray, "n d"]:
    """The kernel-smoothed difference of the scores (``"kernel"``) at the samples. Cost: O(n^2 D)."""
    y, gram = _standardize(x, bandwidth)
    b = s * bandwidth
    return (gram @ (b - y) + gram.sum(1, keepdims=True) * y) / (len(x) * bandwidth)


def stein_gradient(x: Float[np.ndarray, "n d"], bandwidth: float) -> Float[np.ndarray, "n d"]:
    """The score of the samples by the Stein gradient estimator, at the samples. Cost: O(n^2 D + n^3)."""
    y, gram = _standardize(x, bandwidth)
    divergence = (gram.sum(1, keepdims=True) * y - gram @ y) / bandwidth
    return -_ridge_solve(gram, divergence)


class Slopes(NamedTuple):
    r"""The gradients of $f_r$ at all samples, the matrix $G_r$ (n, D), for M directions r.

    Never formed: with $u = Y r$, $a = h S r$, $Y = X / h$ and $\bar k = K 1$,

    $$
    n h^2 G_r = [K \operatorname{diag}(a - u) + \operatorname{diag}(u) K - \operatorname{diag}(\rho)] Y
    + \bar k r^\top, \quad \rho = K (a - u) + u \circ \bar k,
    $$

    so that a product with one vector per slice is a matrix product with K for all slices together.
    """

    y: Float[np.ndarray, "n d"]
    gram: Float[np.ndarray, "n n"]
    mass: Float[np.ndarray, " n"]  # row sums of K
    r: Float[np.ndarray, "m d"]
    u: Float[np.ndarray, "m n"]
    tilt: Float[np.ndarray, "m n"]  # a - u
    rho: Float[np.ndarray, "m n"]
    factor: float

    @classmethod
    def of(
        cls, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"], bandwidth: float, r: Float[np.ndarray, "m d"]
    ) -> Slopes:
        """Gradients of the smoothed difference."""
        y, gram = _standardize(x, bandwidth)
        mass = gram.sum(1)
        u = r @ y.T
        tilt = r @ (s * bandwidth).T - u
        return cls(y, gram, mass, r, u, tilt, tilt @ gram + u * mass, 1 / (len(x) * bandwidth**2))

    def along(self, v: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m n"]:
        """$G_r v$, one v for every r. Cost: O(m (n^2 + n D))."""
        t = v @ self.y.T
        tilted, plain = np.split(np.concatenate([self.tilt * t, t]) @ self.gram, 2)
        aligned = np.sum(self.r * v, axis=1, keepdims=True)
        return self.factor * (tilted + self.u * plain - self.rho * t + aligned * self.mass)

    def back(self, w: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m d"]:
        """$G_r^T w$, one w for every r. Cost: O(m (n^2 + n D))."""
        plain, raised = np.split(np.concatenate([w, self.u * w]) @ self.gram, 2)
        weights = self.tilt * plain + raised - self.rho * w
        return self.factor * (weights @ self.y + self.r * (w @ self.mass)[:, None])

    def product(self, v: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        """$H_r v$, one v for every r."""
        return self.back(self.along(v)) / len(self.y)


def _standardize(
    x: Float[np.ndarray, "n d"], bandwidth: float
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n n"]]:
    """Centred samples in units of the bandwidth, and their kernel matrix."""
    y = (x - x.mean(0)) / bandwidth
    square = np.sum(y**2, axis=1)
    return y, np.exp(-0.5 * np.maximum(square[:, None] + square - 2 * y @ y.T, 0))


def _ridge_solve(gram: Float[np.ndarray, "n n"], targets: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    ridged = gram + RIDGE * np.eye(len(gram), dtype=gram.dtype)
    return np.linalg.solve(ridged, targets)  # one library of linear algebra: two would fight for the cores


def leading_vectors(f: Float[np.ndarray, "n d"], num: int) -> Float[np.ndarray, "m d"]:
    """Top eigenvectors of $f^T f$, as rows, from the smaller of the two Gram matrices."""
    count, dim = f.shape
    if num <= count < dim:
        _, vectors = np.linalg.eigh(f @ f.T)
        # Where the eigenvalues are tiny rounding spoils the products; QR keeps the rows orthonormal.
        return np.linalg.qr(f.T @ vectors[:, : -num - 1 : -1])[0].T
    _, vectors = np.linalg.eigh(f.T @ f)
    return vectors[:, : -num - 1 : -1].T


def _top_eigenvectors(slopes: Slopes) -> Float[np.ndarray, "m d"]:
    """The top eigenvector of every $H_r$: restarted Lanczos on all slices together."""
    num, dim = slopes.r.shape
    # A fixed direction in general position; the right answer is orthogonal to it only by a miracle.
    start = np.random.default_rng(0).standard_normal(dim)
    vector = np.tile((start / np.linalg.norm(start)).astype(slopes.r.dtype), (num, 1))
    for _ in range(MAX_RESTARTS):
        vector, residual = _lanczos(slopes, vector)
        if residual <= TOLERANCE:
            break
    return vector


def _lanczos(slopes: Slopes, start: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, "m d"], float]:
    """The best vector of a Krylov space for every slice, and the largest residual relative to its eigenvalue."""
    num, dim = start.shape
    size = min(KRYLOV_SIZE, dim)
    basis = np.zeros((num, size + 1, dim), start.dtype)
    projected = np.zeros((num, size, size), start.dtype)
    basis[:, 0] = start
    for k in range(size):
        image = slopes.product(basis[:, k])
        overlap = np.einsum("mkd,md->mk", basis, image)
        once = image - np.einsum("mkd,mk->md", basis, overlap)
        twice = once - np.einsum("mkd,mk->md", basis, np.einsum("mkd,md->mk", basis, once))
        norm = np.linalg.norm(twice, axis=1)
        # What a second pass mostly removes was rounding: the space is exhausted, and a zero vector says so.
        new = norm > 0.5 * np.linalg.norm(once, axis=1)
        basis[:, k + 1] = np.where(new[:, None], twice / np.where(new, norm, 1)[:, None], 0)
        projected[:, : k + 1, k] = projected[:, k, : k + 1] = overlap[:, : k + 1]
    values, vectors = np.linalg.eigh(projected)
    top = vectors[:, :, -1]
    vector = np.einsum("mkd,mk->md", basis[:, :size], top)
    residual = np.where(new, norm, 0) * np.abs(top[:, -1])
    largest = np.max(residual / np.maximum(values[:, -1], np.finfo(start.dtype).tiny))
    return vector / np.linalg.norm(vector, axis=1, keepdims=True), float(largest)
