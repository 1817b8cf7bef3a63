"""Sums over all pairs of projected samples, in tiles: any kernel, any data, O(N^2) per slice."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein._stein.operator import Projected, pair_kernel, test_function
from slicestein._stein.tiles import sum_over_rows
from slicestein.kernels import Kernel


def v_statistic(data: Projected, kernel: Kernel) -> Float[Array, " m"]:
    """V-statistic of every slice, one slice and one tile of pairs at a time."""
    count = data.num_samples

    def one_slice(row: Projected) -> Array:
        row = _full(row)
        return sum_over_rows(lambda one: pair_kernel(kernel, one, row).sum(), row, num_columns=count)

    return lax.map(one_slice, data) / float(count) ** 2


def value_and_gradient(data: Projected, kernel: Kernel) -> tuple[Float[Array, " m"], Projected]:
    """V-statistics and their derivatives in u, a, c."""
    value, pullback = jax.vjp(lambda data: v_statistic(data, kernel), data)
    return value, pullback(jnp.ones_like(value))[0]


def witness(data: Projected, kernel: Kernel, at: Float[Array, "m t"]) -> Float[Array, "m t"]:
    """Mean test function of every slice at points of its line."""

    def one_slice(args: tuple[Projected, Array]) -> Array:
        row, points = args
        return sum_over_rows(lambda one: test_function(kernel, one, points), _full(row), num_columns=points.shape[0])

    return lax.map(one_slice, (data, at)) / data.num_samples


def forces(data: Projected, kernel: Kernel) -> tuple[Float[Array, " m"], Float[Array, "m n"], Float[Array, "m n"]]:
    """V-statistic of every slice, and its witness at the samples in two parts: from the scores, and from c."""
    pull = witness(data._replace(c=jnp.zeros_like(data.c)), kernel, data.u)
    push = witness(data._replace(a=jnp.zeros_like(data.a)), kernel, data.u)
    return v_statistic(data, kernel), pull, push


def _full(row: Projected) -> Projected:
    return Projected(row.u, row.a, jnp.broadcast_to(row.c, row.u.shape))
