r"""Bandwidths of a kernel: a number as given, or the median distance between samples.

On slices the median is that of $|t_i - t_j|$ over i < j, one for every slice; in the full space that of
$|x_i - x_j|$. Medians look at some hundreds of rows, and gradients do not flow through them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from slicestein._stein import compiled
from slicestein._stein.full_space import squared_distances
from slicestein.kernels import AnyArray, Kernel

# Rows used by the median rule: 250 rows give 31,125 pairs and a bandwidth within about 5% of the full one.
MEDIAN_ROWS = 250


@jax.jit
def on_slices(kernel: Kernel, inputs: Float[Array, "n e"], g: Float[Array, "m e"]) -> Float[Array, " m"]:
    """Bandwidth on every slice; the median rule projects some of the samples."""
    if kernel.bandwidth is not None:
        return _given(kernel, inputs.dtype, (g.shape[0],))
    return on_lines(kernel, lax.stop_gradient(g) @ evenly_spread(lax.stop_gradient(inputs)).T)


@jax.jit
def on_lines(kernel: Kernel, t: Float[Array, "*m n"]) -> Float[Array, "*m"]:
    """Bandwidth for every row of projected samples."""
    if kernel.bandwidth is not None:
        return _given(kernel, t.dtype, t.shape[:-1])
    return jnp.asarray(kernel.scale, t.dtype) * median_gap(lax.stop_gradient(t))


@jax.jit
def in_full_space(kernel: Kernel, x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Bandwidth for distances between rows of x."""
    if kernel.bandwidth is not None:
        return _given(kernel, x.dtype, (1,)).reshape(())
    return (jnp.asarray(kernel.scale, x.dtype) * median_distance(x)).reshape(())


def _given(kernel: Kernel, dtype: np.dtype, shape: tuple[int, ...]) -> Float[Array, "*m"]:
    return jnp.broadcast_to(jnp.asarray(kernel.bandwidth, dtype) * jnp.asarray(kernel.scale, dtype), shape)


def evenly_spread(x: AnyArray, most: int = MEDIAN_ROWS) -> AnyArray:
    """All rows, or ``most`` of them from the first to the last, evenly spread: a drift along a chain is seen too."""
    count = x.shape[0]
    return x if count <= most else x[np.arange(most) * (count - 1) // (most - 1)]


def median_gap(t: Float[Array, "*m n"]) -> Float[Array, "*m"]:
    r"""Median of $|t_i - t_j|$ over i < j for every row; where that is 0 (ties), their mean.

    The two middle values are averaged, as in NumPy. Cost: O(n log n) per row where compiled.
    """
    rows = t.reshape(-1, t.shape[-1])
    median = compiled.by_platform(compiled.median_gap, _portable_median_gap, rows)
    found = lax.cond((median > 0).all(), lambda: median, lambda: jnp.where(median > 0, median, _mean_gap(rows)))
    return found.reshape(t.shape[:-1])


def _mean_gap(t: Float[Array, "m n"]) -> Float[Array, " m"]:
    n = t.shape[1]
    weights = jnp.arange(1 - n, n, 2, dtype=t.dtype)  # how often a sorted value is added less subtracted
    return (jnp.sort(t, axis=1) - t.min(1, keepdims=True)) @ weights * (2 / (n * (n - 1)))


def _portable_median_gap(t: Float[Array, "m n"]) -> Float[Array, " m"]:
    """By bisection: on a sorted row the gaps within a bound are counted by binary search."""
    t = jnp.sort(t, axis=1)
    n = t.shape[1]
    pairs = n * (n - 1) // 2
    within = jax.vmap(functools.partial(jnp.searchsorted, side="right"))

    def count(bound: Float[Array, " m"]) -> Array:
        return jnp.sum(within(t, t + bound[:, None]) - jnp.arange(1, n + 1, dtype=jnp.int32)[None], axis=1)

    def select(rank: int) -> Float[Array, " m"]:
        def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = low + (high - low) / 2
            enough = count(middle) >= rank
            return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

        zero = jnp.zeros_like(t[:, 0])
        _, high = lax.fori_loop(0, jnp.finfo(t.dtype).nmant + 8, halve, (zero, t[:, -1] - t[:, 0]))
        return jnp.where(count(zero) >= rank, zero, high)

    return (select((pairs + 1) // 2) + select(pairs // 2 + 1)) / 2


@jax.jit
def median_distance(x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Median Euclidean distance between (some of the) samples; their mean where that is 0. Gradient stopped."""
    x = evenly_spread(lax.stop_gradient(x))
    x = x - x.mean(0, keepdims=True)
    n = x.shape[0]
    q = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, squared_distances(x, x))  # a sample and itself are no pair
    pairs = n * (n - 1) // 2
    lower, upper = (jnp.sqrt(_smallest(q, 2 * rank)) for rank in ((pairs + 1) // 2, pairs // 2 + 1))
    mean = jnp.sum(jnp.sqrt(jnp.where(jnp.isinf(q), 0, q))) / (2 * pairs)
    return jnp.where(lower + upper > 0, (lower + upper) / 2, mean)


def _smallest(values: Array, rank: int) -> Float[Array, ""]:
    """The rank-th smallest of non-negative values, bit by bit: some 30 counts cost far less than to sort."""
    kind = jnp.int64 if values.dtype == jnp.float64 else jnp.int32
    bits = lax.bitcast_convert_type(values, kind)  # ordered as the values are

    def settle(i: Array, prefix: Array) -> Array:
        trial = prefix | jnp.left_shift(jnp.ones((), kind), (jnp.iinfo(kind).bits - 2 - i).astype(kind))
        return jnp.where(jnp.sum(bits < trial) < rank, trial, prefix)

    settled = lax.fori_loop(0, jnp.iinfo(kind).bits - 1, settle, jnp.zeros((), kind))
    return lax.bitcast_convert_type(settled, values.dtype)
