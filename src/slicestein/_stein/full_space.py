r"""The Stein kernel in the full space (label "eq: KSD"): its formula, sums over all pairs, and the force of SVGD.

With bandwidth H, samples $y = x / H$ and scores $b = H s$ in its units, and $d = |y - y'|$,

$$
H^2 h(x, x') = \kappa \, b^\top b' - \frac{\kappa'}{d} (b - b')^\top (y - y')
- \Big( \kappa'' + (D - 1) \frac{\kappa'}{d} \Big).
$$

The force on a particle y is

$$ H \phi(y) = \frac1N \sum_j \kappa(d_j) \, b_j + \frac{\kappa'(d_j)}{d_j} (y_j - y), $$

whose first part pulls and whose second part pushes particles apart.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein._stein.operator import unbiased
from slicestein._stein.tiles import map_in_blocks, sum_over_rows
from slicestein.kernels import AnyArray, Kernel, namespace


class Scaled(NamedTuple):
    """Samples (N, D), around their mean (it saves digits), and scores, both in units of the bandwidth.

    Arrays of JAX or of NumPy, as `AnyArray`; a named tuple that is generic cannot be checked while it runs.
    """

    y: Any
    b: Any
    bandwidth: Any


def scale(x: AnyArray, s: AnyArray, bandwidth: Any) -> Scaled:
    """Samples and scores in units of the bandwidth."""
    centre = x.mean(0, keepdims=True)
    centre = lax.stop_gradient(centre) if namespace(x) is jnp else centre
    return Scaled((x - centre) / bandwidth, s * bandwidth, bandwidth)


def squared_distances(x: AnyArray, y: AnyArray) -> AnyArray:
    """Squared distances (N, K) by one matrix product, clipped at zero. Centre the inputs first: it saves digits."""
    return _from_products((x**2).sum(1)[:, None], (y**2).sum(1)[None], x @ y.T)


def _from_products(square_x: AnyArray, square_y: AnyArray, product: AnyArray) -> AnyArray:
    return namespace(product).maximum(square_x + square_y - 2 * product, 0)


def pair_kernel(kernel: Kernel, q: AnyArray, dot: AnyArray, difference: AnyArray, dim: int) -> AnyArray:
    """$H^2 h$ of pairs from what it depends on: $q = d^2$, $b^T b'$ and $(b - b')^T (y - y')$."""
    k, k1, k2 = kernel.derivatives(q)
    return k * dot - k1 * difference - _curvature(k1, k2, dim)


def of_pairs(kernel: Kernel, one: Scaled, other: Scaled) -> Any:
    """h between samples and their partners, row by row, or one partner of all, (N,). Cost: O(N D)."""
    gap = one.y - other.y
    dot, difference = (one.b * other.b).sum(1), ((one.b - other.b) * gap).sum(1)
    return pair_kernel(kernel, (gap**2).sum(1), dot, difference, gap.shape[1]) / one.bandwidth**2


def matrix(data: Scaled, kernel: Kernel) -> Any:
    """h between all samples, (N, N). Cost: O(N^2 D) time in three matrix products, O(N^2) memory."""
    y, b, bandwidth = data
    xp = namespace(y)
    q = xp.where(xp.eye(len(y), dtype=bool), 0, squared_distances(y, y))  # not rounding, whose root Matern would see
    cross, own = b @ y.T, (b * y).sum(1)
    difference = own[:, None] + own[None] - cross - cross.T
    return pair_kernel(kernel, q, b @ b.T, difference, y.shape[1]) / bandwidth**2


def diagonal_mean(kernel: Kernel, data: Scaled) -> Float[Array, ""]:
    """Mean of h(x, x): what separates the V- from the U-statistic."""
    k, k1, k2 = kernel.derivatives(jnp.zeros((), data.y.dtype))
    own = k * jnp.mean(jnp.sum(data.b**2, axis=1)) - _curvature(k1, k2, data.y.shape[1])
    return own / data.bandwidth**2


def v_statistic(data: Scaled, kernel: Kernel) -> Float[Array, ""]:
    """Mean of h over all pairs. Cost: O(N^2 D) time in tiles of 8 MB."""
    y, b, bandwidth = data
    count, dim = y.shape
    square, own = jnp.sum(y**2, axis=1), jnp.sum(b * y, axis=1)

    def row_sum(row: tuple[Array, Array, Array]) -> Array:
        i, yi, bi = row
        q = jnp.where(jnp.arange(count) == i, 0, _from_products(yi @ yi, square, y @ yi))
        difference = bi @ yi + own - y @ bi - b @ yi
        return jnp.sum(pair_kernel(kernel, q, b @ bi, difference, dim))

    total = sum_over_rows(row_sum, (jnp.arange(count), y, b), num_columns=count)
    return total / float(count) ** 2 / bandwidth**2


@functools.partial(jax.jit, static_argnames="statistic")
def statistic(data: Scaled, kernel: Kernel, *, statistic: Literal["u", "v"]) -> Float[Array, ""]:
    """U or V."""
    v = v_statistic(data, kernel)
    return v if statistic == "v" else unbiased(v, diagonal_mean(kernel, data), len(data.y))


def forces(data: Scaled, kernel: Kernel) -> tuple[Float[Array, ""], Float[Array, "n d"], Float[Array, "n d"]]:
    """V, and the force of the samples on themselves in two parts: from the scores (pull) and from the kernel (push).

    Cost: O(N^2 D), in blocks of samples below 640 MB.
    """
    y, b, bandwidth = data
    count, dim = y.shape

    def on_block(rows: Array) -> Float[Array, "k e"]:
        k, k1, k2 = gram(kernel, y, rows)
        mass, bend = (part.sum(1, keepdims=True) for part in (k1, k2))
        return jnp.concatenate([k @ b, k1 @ y - mass * y[rows], _curvature(mass, bend, dim)], axis=1)

    means = map_in_blocks(on_block, jnp.arange(count), bytes_per_row=4 * count * y.dtype.itemsize) / count
    pull, push, curvature = means[:, :dim], means[:, dim:-1], means[:, -1]
    # The two cross terms of h have the same sum over all pairs: scores times the push.
    value = jnp.sum(b * (pull + 2 * push)) / count - curvature.mean()
    return value / bandwidth**2, pull / bandwidth, push / bandwidth


def gram(kernel: Kernel, y: Float[Array, "n d"], rows: Int[Array, " k"]) -> tuple[Array, Array, Array]:
    """The kernel and its derivatives between some samples and all, (K, N) each."""
    square = jnp.sum(y**2, axis=1)  # once: of y[rows] anew it costs a tenth of the whole
    q = _from_products(square[rows, None], square[None], y[rows] @ y.T)
    return kernel.derivatives(jnp.where(rows[:, None] == jnp.arange(len(y))[None], 0, q))


def _curvature(k1: AnyArray, k2: AnyArray, dim: int) -> AnyArray:
    """The Laplacian of the kernel: the trace of its second derivatives."""
    return k2 + (dim - 1) * k1
