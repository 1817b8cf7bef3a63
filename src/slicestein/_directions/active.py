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

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._stein import bandwidths
from slicestein._stein.bandwidths import thin
from slicestein._stein.tiles import map_in_blocks
from slicestein.kernels import RBF
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
        M pairs; the signs of r and g carry no meaning. Gradients do not flow through them.

    Notes
    -----
    At most N = 1000 samples, evenly spread, are used, and 100 for the median. Q has rank at most N: where M
    exceeds N the last r are arbitrary.

    Cost: O(N^2 D + min(N, D)^3) for r, then 10 to 30 (at most 100) products with every $H_r$, O(M (N^2 + N D))
    each, by Lanczos: no $H_r$ is formed, which would cost O(M (N^2 D + N D^2)). ``"stein"`` adds O(N^3).
    Memory O(N^2 + M (N + D)); blocks of slices keep the part with M below 640 MB.

    Differs from the paper: with ``"stein"`` the gradient of $f_r$ is that of the fitted function, all samples
    held fixed, and the score of the model is fitted like that of the samples, so that its values are enough. The
    authors' code differentiates the sum of all estimates by the place of a sample, which moves all of them,
    and passes a length where the kernel expects its square.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein._directions.active import active_slices
    >>> x = np.random.default_rng(0).standard_normal((200, 10))
    >>> x[:, 3] = 0.5 * x[:, 3] + 0.5
    >>> slices = active_slices(x, -x, 1)
    >>> int(abs(slices.r[0]).argmax()), int(abs(slices.g[0]).argmax())
    (3, 3)
    """
    _checks.one_of("estimator", estimator, ("kernel", "stein"))
    if not isinstance(kernel, RBF):
        raise InputError(f"kernel must be RBF(), got {kernel!r}")
    x, s = _checks.samples_and_score(x, score)
    if not 1 <= num_slices <= x.shape[1]:
        raise InputError(f"num_slices must lie between 1 and D = {x.shape[1]}, got {num_slices}")
    _checks.bandwidth(kernel.bandwidth, 1)
    _checks.bandwidth(kernel.scale, 1)
    x, s = lax.stop_gradient((thin(x, ACTIVE_ROWS), thin(s, ACTIVE_ROWS)))
    width = bandwidths.in_full_space(kernel, thin(x, MEDIAN_ROWS))
    _checks.spread(width[None])
    return Slices(*lax.stop_gradient(_directions(x, s, width, estimator, num_slices, basis_r)))


@functools.partial(jax.jit, static_argnames=("estimator", "num_slices", "basis_r"))
def _directions(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    width: Float[Array, ""],
    estimator: str,
    num_slices: int,
    basis_r: bool,
) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
    count, dim = x.shape
    if estimator == "kernel":
        difference, source = smoothed_difference(x, s, 2 * width), s
    else:
        of_samples = stein_gradient(x, width)
        difference, source = s - of_samples, of_samples + RIDGE * _ridge_solve(_standardize(x, width)[1], s)
    if basis_r:
        strongest = jnp.sort(jnp.argsort(-jnp.sum(difference**2, axis=0))[:num_slices])
        r = jnp.eye(dim, dtype=x.dtype)[strongest]
    else:
        r = _leading_directions(difference, num_slices)
    values_per_slice = 8 * count + 3 * KRYLOV_SIZE * dim
    g = map_in_blocks(
        lambda r: _top_eigenvectors(Slopes.of(x, source, width, r)), r, values_per_slice * x.dtype.itemsize
    )
    return r, g


def smoothed_difference(x: Float[Array, "n d"], s: Float[Array, "n d"], width: Float[Array, ""]) -> Float[Array, "n d"]:
    """The kernel-smoothed difference of the scores (``"kernel"``) at the samples. Cost: O(n^2 D)."""
    y, gram = _standardize(x, width)
    b = s * width
    return (gram @ (b - y) + gram.sum(1, keepdims=True) * y) / (len(x) * width)


def stein_gradient(x: Float[Array, "n d"], width: Float[Array, ""]) -> Float[Array, "n d"]:
    """The score of the samples by the Stein gradient estimator, at the samples. Cost: O(n^2 D + n^3)."""
    y, gram = _standardize(x, width)
    divergence = (gram.sum(1, keepdims=True) * y - gram @ y) / width
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

    y: Float[Array, "n d"]
    gram: Float[Array, "n n"]
    mass: Float[Array, " n"]  # row sums of K
    r: Float[Array, "m d"]
    u: Float[Array, "m n"]
    tilt: Float[Array, "m n"]  # a - u
    rho: Float[Array, "m n"]
    factor: Float[Array, ""]

    @classmethod
    def of(
        cls, x: Float[Array, "n d"], s: Float[Array, "n d"], width: Float[Array, ""], r: Float[Array, "m d"]
    ) -> Slopes:
        """Gradients of the smoothed difference."""
        y, gram = _standardize(x, width)
        mass = gram.sum(1)
        u = r @ y.T
        tilt = r @ (s * width).T - u
        return cls(y, gram, mass, r, u, tilt, tilt @ gram + u * mass, 1 / (len(x) * width**2))

    def along(self, v: Float[Array, "m d"]) -> Float[Array, "m n"]:
        """$G_r v$, one v for every r. Cost: O(m (n^2 + n D))."""
        t = v @ self.y.T
        tilted, plain = jnp.split(jnp.concatenate([self.tilt * t, t]) @ self.gram, 2)
        aligned = jnp.sum(self.r * v, axis=1, keepdims=True)
        return self.factor * (tilted + self.u * plain - self.rho * t + aligned * self.mass)

    def back(self, w: Float[Array, "m n"]) -> Float[Array, "m d"]:
        """$G_r^T w$, one w for every r. Cost: O(m (n^2 + n D))."""
        plain, raised = jnp.split(jnp.concatenate([w, self.u * w]) @ self.gram, 2)
        weights = self.tilt * plain + raised - self.rho * w
        return self.factor * (weights @ self.y + self.r * (w @ self.mass)[:, None])

    def product(self, v: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """$H_r v$, one v for every r."""
        return self.back(self.along(v)) / len(self.y)


def _standardize(x: Float[Array, "n d"], width: Float[Array, ""]) -> tuple[Float[Array, "n d"], Float[Array, "n n"]]:
    """Centred samples in units of the bandwidth, and their kernel matrix."""
    y = (x - x.mean(0)) / width
    square = jnp.sum(y**2, axis=1)
    return y, jnp.exp(-0.5 * jnp.maximum(square[:, None] + square - 2 * y @ y.T, 0))


def _ridge_solve(gram: Float[Array, "n n"], targets: Float[Array, "n d"]) -> Float[Array, "n d"]:
    ridged = gram + RIDGE * jnp.eye(len(gram), dtype=gram.dtype)
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(ridged), targets)


def _leading_directions(f: Float[Array, "n d"], num: int) -> Float[Array, "m d"]:
    """Top eigenvectors of $f^T f$, as rows, from the smaller of the two Gram matrices."""
    count, dim = f.shape
    if num <= count < dim:
        _, vectors = jnp.linalg.eigh(f @ f.T)
        # Where the eigenvalues are tiny rounding spoils the products; QR keeps the rows orthonormal.
        return jnp.linalg.qr(f.T @ vectors[:, : -num - 1 : -1])[0].T
    _, vectors = jnp.linalg.eigh(f.T @ f)
    return vectors[:, : -num - 1 : -1].T


def _top_eigenvectors(slopes: Slopes) -> Float[Array, "m d"]:
    """The top eigenvector of every $H_r$: restarted Lanczos on all slices together."""
    num, dim = slopes.r.shape
    size = min(KRYLOV_SIZE, dim)
    # A fixed direction in general position; the right answer is orthogonal to it only by a miracle.
    direction = np.random.default_rng(0).standard_normal(dim)
    start = jnp.asarray(direction / np.linalg.norm(direction), slopes.r.dtype)

    def extend(basis: Array, k: Array) -> tuple[Array, tuple[Array, Array]]:
        image = slopes.product(basis[:, k])
        overlap = jnp.einsum("mkd,md->mk", basis, image)
        once = image - jnp.einsum("mkd,mk->md", basis, overlap)
        twice = once - jnp.einsum("mkd,mk->md", basis, jnp.einsum("mkd,md->mk", basis, once))
        norm = jnp.linalg.norm(twice, axis=1, keepdims=True)
        # What a second pass mostly removes was rounding: the space is exhausted, and a zero vector says so.
        new = norm > 0.5 * jnp.linalg.norm(once, axis=1, keepdims=True)
        vector = jnp.where(new, twice / jnp.where(new, norm, 1), 0)
        return basis.at[:, k + 1].set(vector), (overlap[:, :size], jnp.where(new, norm, 0)[:, 0])

    def refine(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        vector, _, restarts = carry
        basis = jnp.zeros((num, size + 1, dim), vector.dtype).at[:, 0].set(vector)
        basis, (overlaps, norms) = lax.scan(extend, basis, jnp.arange(size))
        upper = jnp.moveaxis(overlaps, 0, 2)  # (m, j, k), filled where j <= k
        projected = upper + jnp.swapaxes(jnp.triu(upper, 1), 1, 2)
        values, vectors = jnp.linalg.eigh(projected)
        top = vectors[:, :, -1]
        vector = jnp.einsum("mkd,mk->md", basis[:, :size], top)
        unconverged = norms[-1] * jnp.abs(top[:, -1]) > TOLERANCE * values[:, -1]
        vector = vector / jnp.linalg.norm(vector, axis=1, keepdims=True)
        return vector, unconverged.any(), restarts + 1

    vector, _, _ = lax.while_loop(
        lambda carry: carry[1] & (carry[2] < MAX_RESTARTS),
        refine,
        (jnp.broadcast_to(start, (num, dim)), jnp.array(True), jnp.array(0)),
    )
    return vector
