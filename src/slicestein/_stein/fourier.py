r"""V-statistics in linear time: the trapezoid rule on the spectral density of a one-dimensional kernel.

With frequencies $w_j = j \Delta$ and weights $A_j = (2 - [j = 0]) \Delta S(w_j)$, a kernel with a
fast spectrum is a short cosine sum on the range of the data, so the Stein kernel factorises:

$$
\psi_j(n) = (a_n + i w_j c_n) e^{i w_j u_n}, \qquad V = \sum_j A_j \Big| \frac1N \sum_n \psi_j(n) \Big|^2 .
$$

The gradient is a trigonometric sum of the same kind, evaluated at the samples: with
$p(u) = \frac2N \mathrm{Re} \sum_j A_j \bar\psi_j e^{i w_j u}$ it is
$\partial_a V = p(u_n)$, $\partial_c V = p'(u_n)$, $\partial_u V = a_n p'(u_n) + c_n p''(u_n)$
(each over N). Cost: O(N J) per slice, J about 15 to 25; memory O(N).

Data wider than the longest rule: the compiled kernel cuts the line into cells (see ``_trig.cpp``), so that J
stays the same for any tail; the portable one has longer rules and then falls back on the exact sum.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from slicestein._stein import exact
from slicestein._stein.operator import Projected
from slicestein.kernels import Kernel

# Where the kernel and its spectrum are cut off. What is left out of the spectrum is small next to V; what is left
# out of the kernel is small next to 1, and V may be as small as 1 / N. See benchmarks/results for what this gives.
KERNEL_TOLERANCE = {"float32": 1e-8, "float64": 1e-14}
SPECTRUM_TOLERANCE = {"float32": 1e-6, "float64": 1e-10}
# Periods of the rules in units of the kernel's reach. Cells need 3: two cells and the gap to their copies.
PERIODS = (1.5, 1.75, 2.0, 2.25, 2.5, 3.0)
LONG_PERIODS = (4.5, 7.0, 10.0, 15.0, 22.0, 32.0, 48.0)


class Rules(NamedTuple):
    """Quadrature rules of growing period."""

    spacing: Float[np.ndarray, " k"]
    length: np.ndarray  # frequencies of each rule, (k,)
    weights: Float[np.ndarray, "k j"]  # zero beyond `length`
    reach: float

    @property
    def widest_range(self) -> Float[np.ndarray, " k"]:
        """Range of the data up to which no copy of the kernel wraps around."""
        return 2 * np.pi / self.spacing - self.reach

    @property
    def attributes(self) -> dict[str, Any]:
        """As the compiled kernel takes them."""
        return {**self._asdict(), "weights": self.weights.ravel()}


def quadrature(kernel: Kernel, dtype: str, periods: tuple[float, ...] = PERIODS) -> Rules:
    """Trapezoid rules for the spectrum of a kernel, good to the precision of the data."""
    return _quadrature(kernel.unit, dtype, periods)


@functools.lru_cache
def _quadrature(unit: Kernel, dtype: str, periods: tuple[float, ...]) -> Rules:
    spectrum = unit.spectrum
    assert spectrum is not None
    reach, cutoff = spectrum.reach(KERNEL_TOLERANCE[dtype]), spectrum.cutoff(SPECTRUM_TOLERANCE[dtype])
    spacing = 2 * np.pi / (np.array(periods) * reach)
    length = np.ceil(cutoff / spacing).astype(np.int64) + 1
    j = np.arange(length.max())
    weights = 2 * spacing[:, None] * spectrum.density(j * spacing[:, None])
    weights[:, 0] /= 2
    return Rules(spacing, length, np.where(j < length[:, None], weights, 0.0), reach)


def value_and_gradient(data: Projected, kernel: Kernel) -> tuple[Float[Array, " m"], Projected]:
    """V-statistics and their derivatives in u, a, c; all pairs for data beyond the longest rule (some 300 bandwidths).

    The derivative in a is 2/N times the witness.
    """
    rules = quadrature(kernel, data.u.dtype.name, PERIODS + LONG_PERIODS)
    fits = (data.u.max(1) - data.u.min(1)).max() <= float(rules.widest_range[-1])
    by_pairs = functools.partial(exact.value_and_gradient, kernel=kernel)
    return lax.cond(fits, functools.partial(_one_rule, rules), by_pairs, data)


def _one_rule(rules: Rules, data: Projected) -> tuple[Float[Array, " m"], Projected]:
    u, a, c = data
    low, high = u.min(1, keepdims=True), u.max(1, keepdims=True)
    choice = jnp.searchsorted(jnp.asarray(rules.widest_range, u.dtype), (high - low)[:, 0])
    choice = jnp.minimum(choice, len(rules.spacing) - 1)
    spacing = jnp.asarray(rules.spacing, u.dtype)[choice][:, None]
    weights = jnp.asarray(rules.weights, u.dtype)[choice].T[..., None]  # (J, M, 1)
    length = jnp.asarray(rules.length, jnp.int32)[choice].max()

    theta = spacing * (u - (low + (high - low) / 2))
    step_cos, step_sin = jnp.cos(theta), jnp.sin(theta)
    start = jnp.ones_like(u), jnp.zeros_like(u)

    def rotate(cos: Array, sin: Array) -> tuple[Array, Array]:
        return cos * step_cos - sin * step_sin, sin * step_cos + cos * step_sin

    def add_sums(j: Array, carry: Any) -> Any:
        (cos, sin), real, imag = carry
        w = j.astype(u.dtype) * spacing
        real = real.at[j].set(jnp.sum(a * cos - w * c * sin, axis=1, keepdims=True))
        imag = imag.at[j].set(jnp.sum(a * sin + w * c * cos, axis=1, keepdims=True))
        return rotate(cos, sin), real, imag

    empty = jnp.zeros_like(weights)
    _, real, imag = lax.fori_loop(0, length, add_sums, (start, empty, empty))
    count = data.num_samples
    value = jnp.sum(weights * (real**2 + imag**2), axis=(0, 2)) / float(count) ** 2

    def add_terms(j: Array, carry: Any) -> Any:
        (cos, sin), p0, p1, p2 = carry
        w = j.astype(u.dtype) * spacing
        even = weights[j] * (real[j] * cos + imag[j] * sin)
        odd = weights[j] * (real[j] * sin - imag[j] * cos)
        return rotate(cos, sin), p0 + even, p1 - w * odd, p2 - w**2 * even

    zero = jnp.zeros_like(u)
    _, p0, p1, p2 = lax.fori_loop(0, length, add_terms, (start, zero, zero, zero))
    scale = 2 / float(count) ** 2
    dc = p1 if c.shape == u.shape else p1.sum(1, keepdims=True)
    return value, Projected(scale * (a * p1 + c * p2), scale * p0, scale * dc)
