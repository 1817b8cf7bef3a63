"""Sums over all pairs of projected samples, in tiles: any kernel, any data, O(N^2) per slice."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein._stein import compiled as _compiled
from slicestein._stein.operator import Projected, pair_kernel, test_function
from slicestein._stein.tiles import sum_over_rows
from slicestein.kernels import RBF, Kernel


def v_statistic(data: Projected, kernel: Kernel) -> Float[Array, " m"]:
    """V-statistic of every slice, one slice and one tile of pairs at a time."""
    count = data.u.shape[1]

    def one_slice(row: Projected) -> Array:
        row = _full(row)
        return sum_over_rows(lambda one: pair_kernel(kernel, one, row).sum(), row, num_columns=count)

    return lax.map(one_slice, data) / float(count) ** 2


def witness(data: Projected, kernel: Kernel, at: Float[Array, "m t"]) -> Float[Array, "m t"]:
    """Mean test function of every slice at points of its line."""

    def one_slice(args: tuple[Projected, Array]) -> Array:
        row, points = args
        return sum_over_rows(lambda one: test_function(kernel, one, points), _full(row), num_columns=points.shape[0])

    return lax.map(one_slice, (data, at)) / data.u.shape[1]


def forces(data: Projected, kernel: Kernel) -> tuple[Float[Array, " m"], Float[Array, "m n"], Float[Array, "m n"]]:
    """V-statistic of every slice, and its witness at the samples in two parts: from the scores, and from c."""

    def portable(u: Array, a: Array, c: Array) -> tuple[Array, Array, Array]:
        pull = witness(Projected(u, a, jnp.zeros_like(c)), kernel, u)
        push = witness(Projected(u, jnp.zeros_like(a), c), kernel, u)
        return v_statistic(Projected(u, a, c), kernel), pull, push

    if not isinstance(kernel, RBF):
        return portable(*data)
    return _compiled.by_platform(_compiled.forces, portable, *data)


def matrix(data: Projected, kernel: Kernel) -> Float[Array, "n n"]:
    """The Stein kernel between all samples, summed over slices."""

    def add(total: Array, row: Projected) -> tuple[Array, None]:
        row = _full(row)
        return total + pair_kernel(kernel, Projected(*(z[:, None] for z in row)), row), None

    count = data.u.shape[1]
    return lax.scan(add, jnp.zeros((count, count), data.u.dtype), data)[0]


def _full(row: Projected) -> Projected:
    return Projected(row.u, row.a, jnp.broadcast_to(row.c, row.u.shape))
