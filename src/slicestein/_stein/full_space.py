r"""The Stein kernel in the full space (label "eq: KSD"): its formula, sums over all pairs, and the force of SVGD.

With samples in units of the bandwidth, $y = x / h$, scores s, $c = 1 / h$ and $d = |y - y'|$,

$$
h(x, x') = \kappa \, s^\top s' - c \, \frac{\kappa'}{d} (s - s')^\top (y - y')
- c^2 \Big( \kappa'' + (D - 1) \frac{\kappa'}{d} \Big),
$$

which for D = 1 is the kernel of a slice with u = y, a = s. The force on a particle y is

$$ \phi(y) = \frac1N \sum_j \kappa(d_j) \, s_j + c \frac{\kappa'(d_j)}{d_j} (y_j - y), $$

whose first part pulls and whose second part pushes particles apart.
"""

from __future__ import annotations

import functools
from typing import Any, Generic, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein._stein.operator import unbiased
from slicestein._stein.tiles import map_in_blocks, sum_over_rows
from slicestein.kernels import AnyArray, Kernel, namespace


class Scaled(NamedTuple, Generic[AnyArray]):
    """Samples (N, D) in units of the bandwidth, around their mean (it saves digits); their scores; 1 / bandwidth."""

    y: AnyArray
    s: AnyArray
    c: AnyArray


def scale(x: AnyArray, s: AnyArray, bandwidth: Any) -> Scaled[AnyArray]:
    """Samples and scores in units of the bandwidth."""
    centre = lax.stop_gradient(x.mean(0)) if namespace(x) is jnp else x.mean(0)
    return Scaled((x - centre) / bandwidth, s, 1 / bandwidth)


def squared_distances(x: AnyArray, y: AnyArray) -> AnyArray:
    """Squared distances (N, K) by one matrix product, clipped at zero. Centre the inputs first: it saves digits."""
    square_x, square_y = (x**2).sum(1), (y**2).sum(1)
    return namespace(x).maximum(square_x[:, None] + square_y[None] - 2 * x @ y.T, 0)


def pair_kernel(kernel: Kernel, q: AnyArray, dot: AnyArray, difference: AnyArray, c: AnyArray, dim: int) -> AnyArray:
    """h of pairs from what it depends on: $q = d^2$, $s^T s'$ and $(s - s')^T (y - y')$."""
    k, k1, k2 = kernel.derivatives(q)
    return k * dot - c * k1 * difference - c**2 * _curvature(k1, k2, dim)


def of_pairs(kernel: Kernel, one: Scaled[AnyArray], other: Scaled[AnyArray]) -> AnyArray:
    """h between samples and their partners, row by row, (N,). Cost: O(N D)."""
    gap = one.y - other.y
    dot, difference = (one.s * other.s).sum(1), ((one.s - other.s) * gap).sum(1)
    return pair_kernel(kernel, (gap**2).sum(1), dot, difference, one.c, gap.shape[1])


def matrix(data: Scaled[AnyArray], kernel: Kernel) -> AnyArray:
    """h between all samples, (N, N). Cost: O(N^2 D) time in three matrix products, O(N^2) memory."""
    y, s, c = data
    xp = namespace(y)
    q = xp.where(xp.eye(len(y), dtype=bool), 0, squared_distances(y, y))  # not rounding, whose root Matern would see
    cross, own = s @ y.T, (s * y).sum(1)
    difference = own[:, None] + own[None] - cross - cross.T
    return pair_kernel(kernel, q, s @ s.T, difference, c, y.shape[1])


def diagonal_mean(kernel: Kernel, data: Scaled[Array]) -> Float[Array, ""]:
    """Mean of h(x, x): what separates the V- from the U-statistic."""
    k, k1, k2 = kernel.derivatives(jnp.zeros((), data.y.dtype))
    return k * jnp.mean(jnp.sum(data.s**2, axis=1)) - data.c**2 * _curvature(k1, k2, data.y.shape[1])


def v_statistic(data: Scaled[Array], kernel: Kernel) -> Float[Array, ""]:
    """Mean of h over all pairs. Cost: O(N^2 D) time in tiles of 8 MB."""
    y, s, c = data
    count, dim = y.shape
    square, own = jnp.sum(y**2, axis=1), jnp.sum(s * y, axis=1)

    def row_sum(row: tuple[Array, Array, Array]) -> Array:
        i, yi, si = row
        q = jnp.maximum(square + yi @ yi - 2 * y @ yi, 0)
        q = jnp.where(jnp.arange(count) == i, 0, q)
        difference = si @ yi + own - y @ si - s @ yi
        return jnp.sum(pair_kernel(kernel, q, s @ si, difference, c, dim))

    return sum_over_rows(row_sum, (jnp.arange(count), y, s), num_columns=count) / float(count) ** 2


@functools.partial(jax.jit, static_argnames="statistic")
def statistic(data: Scaled[Array], kernel: Kernel, *, statistic: Literal["u", "v"]) -> Float[Array, ""]:
    """U or V."""
    v = v_statistic(data, kernel)
    return v if statistic == "v" else unbiased(v, diagonal_mean(kernel, data), len(data.y))


def forces(data: Scaled[Array], kernel: Kernel) -> tuple[Float[Array, ""], Float[Array, "n d"], Float[Array, "n d"]]:
    """V, and the force of the samples on themselves in two parts: from the scores, and from c.

    Cost: O(N^2 D), in blocks of samples below 640 MB.
    """
    y, s, c = data
    count, dim = y.shape

    def on_block(rows: Array) -> Float[Array, "k e"]:
        k, k1, k2 = gram(kernel, y, rows)
        pull, push = k @ s, c * (k1 @ y - k1.sum(1, keepdims=True) * y[rows])
        return jnp.concatenate([pull, push, _curvature(k1, k2, dim).sum(1, keepdims=True)], axis=1)

    means = map_in_blocks(on_block, jnp.arange(count), bytes_per_row=4 * count * y.dtype.itemsize) / count
    pull, push, curvature = means[:, :dim], means[:, dim:-1], means[:, -1]
    # The two cross terms of h have the same sum over all pairs: scores times the push.
    value = jnp.sum(s * (pull + 2 * push)) / count - c**2 * curvature.mean()
    return value, pull, push


def gram(kernel: Kernel, y: Float[Array, "n d"], rows: Int[Array, " k"]) -> tuple[Array, Array, Array]:
    """The kernel and its derivatives between some samples and all, (K, N) each."""
    q = squared_distances(y[rows], y)
    return kernel.derivatives(jnp.where(rows[:, None] == jnp.arange(len(y)), 0, q))


def _curvature(k1: AnyArray, k2: AnyArray, dim: int) -> AnyArray:
    """The Laplacian of the kernel: the trace of its second derivatives."""
    return k2 + (dim - 1) * k1
