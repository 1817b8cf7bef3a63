r"""The sliced Stein operator: the only file that holds its formulas.

For samples x, scores s and slices (r, g), with bandwidth h (labels "eq: SKSD test function",
"eq: SKSD inner", "eq: Deep kernel SKSD inner"):

$$
\begin{aligned}
u &= x^\top g / h, \quad a = s^\top r, \quad c = r^\top g / h, \\
\xi(x, \cdot) &= a \, \kappa(u - \cdot) + c \, \kappa'(u - \cdot), \\
h_{ij} &= a_i a_j \kappa(\tau) + (c_i a_j - c_j a_i) \kappa'(\tau) - c_i c_j \kappa''(\tau),
\quad \tau = u_i - u_j.
\end{aligned}
$$

With a feature map phi, $u = \phi(x)^\top g / h$ and
$c = r^\top (\partial \phi / \partial x) g / h$, one number per sample.
Arrays are kept with one row per slice, so that all that belongs to a slice lies together in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein.kernels import AnyArray, Kernel, namespace


class Projected(NamedTuple):
    """What slices see of the data: u and a of shape (..., M, N), c that or (..., M, 1); of JAX or of NumPy."""

    u: Any
    a: Any
    c: Any

    @property
    def num_samples(self) -> int:
        return self.u.shape[-1]


def in_units_of(data: Projected, bandwidths: Any) -> Projected:
    """The same projections, made with bandwidth one, at other bandwidths, one for each slice."""
    return Projected(data.u / bandwidths[..., None], data.a, data.c / bandwidths[..., None])


def project(
    inputs: Float[Array, "n e"],
    s: Float[Array, "n d"],
    r: Float[Array, "m d"] | None,
    g: Float[Array, "m e"],
    bandwidths: Float[Array, " m"],
    jacobian: Float[Array, "m n"] | None = None,
) -> Projected:
    """What slices see of inputs and scores.

    Parameters
    ----------
    inputs
        The samples, or their features.
    r
        None stands for the coordinate axes, without the products that they would cost.
    jacobian
        With a feature map: see `jacobian_term`.
    """
    scaled = g / bandwidths[:, None]
    a = s.T if r is None else r @ s.T
    if jacobian is not None:
        return Projected(scaled @ inputs.T, a, jacobian / bandwidths[:, None])
    aligned = jnp.diag(scaled) if r is None else jnp.sum(r * scaled, axis=1)
    return Projected(scaled @ inputs.T, a, aligned[:, None])


def jacobian_term(
    x: Float[Array, "n d"],
    r: Float[Array, "m d"],
    g: Float[Array, "m e"],
    feature_map: Callable[[Float[Array, " d"]], Float[Array, " e"]],
) -> Float[Array, "m n"]:
    """$r^T (d phi / d x) g$ for every slice and sample: one forward derivative along r each."""

    def along(r: Array, g: Array) -> Array:
        return jax.vmap(lambda row: jax.jvp(feature_map, (row,), (r,))[1] @ g)(x)

    return lax.map(lambda rg: along(*rg), (r, g))


def pair_kernel(kernel: Kernel, one: Projected, other: Projected) -> Any:
    """h between samples of one slice (label "eq: SKSD inner"); fields broadcast against each other."""
    tau, squared = _gap(one.u, other.u)
    k, k1, k2 = kernel.derivatives(squared)
    slope = k1 * tau
    return one.a * other.a * k + (one.c * other.a - other.c * one.a) * slope - one.c * other.c * k2


def diagonal_mean(kernel: Kernel, data: Projected) -> Float[Array, "*m"]:
    """Mean of h(x, x) per slice: what separates the V- from the U-statistic."""
    k, _, k2 = kernel.derivatives(jnp.zeros((), data.u.dtype))
    return k * jnp.mean(data.a**2, axis=-1) - k2 * jnp.mean(data.c**2, axis=-1)


def unbiased(v: Array, diagonal_mean: Array, count: int) -> Array:
    """The U-statistic from V and the mean of h(x, x)."""
    return (count * v - diagonal_mean) / (count - 1)


def test_function(kernel: Kernel, data: Projected, at: Array) -> Array:
    r"""$\xi$ of samples, evaluated at points of the line (label "eq: SKSD test function")."""
    tau, squared = _gap(data.u, at)
    k, k1, _ = kernel.derivatives(squared)
    return data.a * k + data.c * k1 * tau


def _gap(u: AnyArray, v: AnyArray) -> tuple[AnyArray, AnyArray]:
    """u - v and its square, which stays finite: an infinite one would turn a kernel of zero into NaN."""
    tau = u - v
    return tau, namespace(tau).minimum(tau * tau, float(jnp.finfo(tau.dtype).max))
