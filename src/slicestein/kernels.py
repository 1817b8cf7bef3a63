r"""Radial kernels $k(x, y) = \kappa(|x - y| / h)$, their derivatives, spectra and bandwidths.

Everything is written for bandwidth one: dividing the inputs by h does the rest, because with
$u = t / h$ the Stein kernel of a slice only sees $u$ and $c / h$.
A kernel gives, as functions of the squared distance $q = d^2$,

$$ \kappa(d), \qquad \kappa'(d) / d, \qquad \kappa''(d), $$

which serve the sliced kernels (d is a number) and the plain KSD (d is a norm) alike.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from slicestein._checks import InputError
from slicestein._stein import compiled as _compiled

# Rows used by the median rule: 250 rows give 31,125 pairs and a bandwidth within about 5% of the full one.
MEDIAN_ROWS = 250


class Spectrum(NamedTuple):
    r"""Spectral density S of a kernel, $\kappa(d) = \int S(w) \cos(w d) dw$, with decay on both sides."""

    density: Callable[[np.ndarray], np.ndarray]
    reach: Callable[[float], float]  # tolerance -> distance beyond which the kernel is negligible
    cutoff: Callable[[float], float]  # tolerance -> frequency beyond which the density is negligible


class Kernel(eqx.Module):
    """A radial kernel with a bandwidth rule; subclasses give the profile.

    Parameters
    ----------
    bandwidth
        ``"median"`` (the median distance between samples, per slice, gradient stopped), a number, or an
        array (M,) with one bandwidth per slice.
    scale
        Factor on the bandwidth: ``RBF(scale=1.5)`` is 1.5 times the median.
    """

    bandwidth: float | Array | None = eqx.field(
        default=None, converter=lambda value: None if isinstance(value, str) and value == "median" else value
    )
    scale: float = 1.0

    spectrum: ClassVar[Spectrum | None] = None

    def __check_init__(self) -> None:
        if isinstance(self.bandwidth, str):
            raise InputError(f'bandwidth must be "median", a number or an array, got {self.bandwidth!r}')

    @abc.abstractmethod
    def derivatives(self, q: Array) -> tuple[Array, Array, Array]:
        r"""$\kappa(d), \kappa'(d)/d, \kappa''(d)$ at squared distance q, for bandwidth one."""

    @property
    def unit(self) -> Kernel:
        """The kernel at bandwidth one: hashable, for kernels without parameters of shape."""
        return dataclasses.replace(self, bandwidth=None, scale=1.0)

    def widths(self, t: Float[Array, "m n"]) -> Float[Array, " m"]:
        """Bandwidth of each row of projected samples."""
        if self.bandwidth is None:
            return self.scale * median_gap(lax.stop_gradient(t))
        return jnp.broadcast_to(jnp.asarray(self.bandwidth, t.dtype) * self.scale, t.shape[:1])

    def full_width(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """Bandwidth in the full space, where the median rule looks at distances between rows of x."""
        base = median_distance(x) if self.bandwidth is None else jnp.asarray(self.bandwidth)
        return (self.scale * base).astype(x.dtype).reshape(())


class RBF(Kernel):
    r"""Gaussian kernel, $\kappa(d) = \exp(-d^2 / 2)$."""

    spectrum: ClassVar[Spectrum | None] = Spectrum(
        density=lambda w: np.exp(-0.5 * w**2) / math.sqrt(2 * math.pi),
        reach=lambda tolerance: math.sqrt(-2 * math.log(tolerance)),
        cutoff=lambda tolerance: math.sqrt(-2 * math.log(tolerance)),
    )

    def derivatives(self, q: Array) -> tuple[Array, Array, Array]:
        k = _module(q).exp(-0.5 * q)
        return k, -k, (q - 1) * k


class IMQ(Kernel):
    r"""Inverse multiquadric, $\kappa(d) = (1 + d^2)^{\beta}$; heavier tails see distant errors."""

    exponent: float = -0.5

    def derivatives(self, q: Array) -> tuple[Array, Array, Array]:
        base = 1 + q
        k = base**self.exponent
        slope = 2 * self.exponent * k / base
        return k, slope, slope + 2 * (self.exponent - 1) * q * slope / base


class Matern(Kernel):
    r"""Matern kernel of smoothness 3/2 or 5/2.

    $$ (1 + \sqrt 3 d) e^{-\sqrt 3 d}, \qquad (1 + \sqrt 5 d + 5 d^2 / 3) e^{-\sqrt 5 d}. $$
    """

    smoothness: float = eqx.field(default=1.5, static=True)

    def __check_init__(self) -> None:
        if self.smoothness not in (1.5, 2.5):
            raise InputError(f"smoothness must be 1.5 or 2.5, got {self.smoothness!r}")

    def derivatives(self, q: Array) -> tuple[Array, Array, Array]:
        rate = math.sqrt(2 * self.smoothness)
        # The derivative of sqrt at zero is infinite; every use below is multiplied by something that vanishes.
        positive = q > 0
        xp = _module(q)
        v = rate * xp.where(positive, xp.sqrt(xp.where(positive, q, 1)), 0)
        decay = xp.exp(-v)
        if self.smoothness == 1.5:
            return (1 + v) * decay, -3 * decay, -3 * (1 - v) * decay
        slope = -(5 / 3) * (1 + v) * decay
        return (1 + v + v**2 / 3) * decay, slope, slope + (5 / 3) * v**2 * decay


def _module(q: Any) -> Any:
    """NumPy for its own arrays, which keep their precision; else JAX."""
    return np if isinstance(q, np.ndarray | np.generic) else jnp


def thin(x: Float[Array, "n d"]) -> Float[Array, "k d"]:
    """At most ``MEDIAN_ROWS`` rows, evenly spread, so that a drift along a chain is seen too."""
    return x[:: -(-x.shape[0] // MEDIAN_ROWS)]


def median_gap(t: Float[Array, "m n"]) -> Float[Array, " m"]:
    r"""Median of $|t_i - t_j|$ over i < j for every row; where that is 0 (ties), their mean.

    The two middle values are averaged, as in NumPy. Cost: O(n log n) per row where compiled.
    """
    median = _compiled.by_platform(_compiled.median_gap, _portable_median_gap, t)
    return lax.cond((median > 0).all(), lambda: median, lambda: jnp.where(median > 0, median, _mean_gap(t)))


def _mean_gap(t: Float[Array, "m n"]) -> Float[Array, " m"]:
    n = t.shape[1]
    weights = jnp.arange(1 - n, n, 2, dtype=t.dtype)  # how often a sorted value is added less subtracted
    return jnp.sort(t, axis=1) @ weights * 2 / (n * (n - 1))


def _portable_median_gap(t: Float[Array, "m n"]) -> Float[Array, " m"]:
    """By bisection: on a sorted row the gaps within a bound are counted by binary search."""
    t = jnp.sort(t, axis=1)
    n = t.shape[1]
    pairs = n * (n - 1) // 2
    within = jax.vmap(functools.partial(jnp.searchsorted, side="right"))

    def count(bound: Float[Array, " m"]) -> Array:
        return jnp.sum(within(t, t + bound[:, None]) - jnp.arange(1, n + 1), axis=1)

    def select(rank: int) -> Float[Array, " m"]:
        def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
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
    """Median Euclidean distance between (thinned) samples; their mean where that is 0. Gradient stopped."""
    x = lax.stop_gradient(thin(x))
    x = x - x.mean(0)
    square = jnp.sum(x**2, axis=1)
    n = x.shape[0]
    q = jnp.maximum(square[:, None] + square - 2 * x @ x.T, 0)
    q = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, q)  # a sample and itself are no pair
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
