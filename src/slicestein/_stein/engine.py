r"""The sums of the sliced Stein operator: the only module that chooses how they are computed.

| engine | kernels | cost per slice |
| --- | --- | --- |
| `exact`: all pairs | all | O(N^2) |
| `fourier`: the trapezoid rule on the spectral density | those with a spectrum | O(N J), J about 20 |

Both give the same numbers, as XLA programs and, for most sums, as compiled kernels of the CPU (`compiled`).
All functions take projected samples (M, N) and a kernel, and ``engine="auto"`` takes what costs less.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from slicestein._checks import InputError
from slicestein._stein import compiled, exact, fourier
from slicestein._stein.operator import Projected
from slicestein.kernels import RBF, Kernel

Engine = Literal["auto", "exact", "fourier"]

# Fewest samples with which Fourier sums cost less than all pairs. Values, and witnesses: two cores, M = 100.
FOURIER_FROM = 16
# Forces take two Fourier sums, and their pairs are compiled (one core, D = 100 and 753, float32).
FORCES_FOURIER_FROM = 128


def value(data: Projected, kernel: Kernel, engine: Engine = "auto") -> Float[Array, " m"]:
    """V-statistic of every slice. Can be differentiated, by Fourier sums once."""
    if _by_fourier(engine, kernel, data, FOURIER_FROM):
        return _fourier_value(data, kernel.unit)
    return exact.v_statistic(data, kernel)


def value_and_gradient(
    data: Projected, kernel: Kernel, engine: Engine = "auto"
) -> tuple[Float[Array, " m"], Projected]:
    """V-statistics and their derivatives in u, a, c; by Fourier sums for any number of samples."""
    if _by_fourier(engine, kernel, data, least=0):
        return _fourier_gradient(data, kernel.unit)
    return exact.value_and_gradient(data, kernel)


def witness(data: Projected, kernel: Kernel, at: Float[Array, "m t"], engine: Engine = "auto") -> Float[Array, "m t"]:
    """Mean test function of every slice at points of its line, in units of the bandwidth."""
    if not _by_fourier(engine, kernel, data, FOURIER_FROM):
        return exact.witness(data, kernel, at)
    # Points that carry no score and no Jacobian add nothing to V; dV/da there is 2 / N times the witness.
    silent, c = jnp.zeros_like(at), jnp.broadcast_to(data.c, data.u.shape)
    joined = Projected(*(jnp.concatenate(p, axis=1) for p in ((data.u, at), (data.a, silent), (c, silent))))
    _, gradient = _fourier_gradient(joined, kernel.unit)
    return gradient.a[:, data.num_samples :] * (float(joined.num_samples) ** 2 / (2 * data.num_samples))


def forces(
    data: Projected, kernel: Kernel, engine: Engine = "auto"
) -> tuple[Float[Array, " m"], Float[Array, "m n"], Float[Array, "m n"]]:
    """V-statistics, and the witness at the samples in two parts: from the scores (pull) and from c (push)."""
    if _by_fourier(engine, kernel, data, FORCES_FOURIER_FROM):
        total, gradient = _fourier_gradient(data, kernel.unit)
        _, push = _fourier_gradient(data._replace(a=jnp.zeros_like(data.a)), kernel.unit)
        half = data.num_samples / 2
        return total, (gradient.a - push.a) * half, push.a * half
    if type(kernel) is not RBF:  # the compiled pairs are the Gaussian's
        return exact.forces(data, kernel)
    return compiled.by_platform(lambda data: compiled.forces(*data), lambda data: exact.forces(data, kernel), data)


def _by_fourier(engine: Engine, kernel: Kernel, data: Projected, least: int) -> bool:
    if engine == "auto":
        return kernel.spectrum is not None and data.num_samples >= least
    return engine == "fourier"


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _fourier_value(data: Projected, unit: Kernel) -> Float[Array, " m"]:
    rules = fourier.quadrature(unit, data.u.dtype.name).attributes
    return compiled.by_platform(
        lambda data: compiled.value(*data, **rules), lambda data: fourier.value_and_gradient(data, unit)[0], data
    )


def _fourier_gradient(data: Projected, unit: Kernel) -> tuple[Float[Array, " m"], Projected]:
    rules = fourier.quadrature(unit, data.u.dtype.name).attributes
    data = _without_derivatives(data)

    def on_cpu(data: Projected) -> tuple[Array, Projected]:
        total, *gradient = compiled.value_and_gradient(*data, **rules)
        return total, Projected(*gradient)

    return compiled.by_platform(on_cpu, lambda data: fourier.value_and_gradient(data, unit), data)


@_fourier_value.defjvp
def _fourier_tangent(unit: Kernel, primals: tuple[Projected], tangents: tuple[Projected]) -> tuple[Array, Array]:
    """Value and gradient in one pass; reverse mode transposes the products with the tangents."""
    total, gradient = _fourier_gradient(*primals, unit)
    moves = [jnp.sum(part * moved, axis=1) for part, moved in zip(gradient, *tangents, strict=True)]
    return total, jnp.sum(jnp.stack(moves), axis=0)


@jax.custom_jvp
def _without_derivatives(data: Projected) -> Projected:
    return data


@_without_derivatives.defjvp
def _refuse(primals: Any, tangents: Any) -> Any:
    raise InputError('the linear-time engine knows first derivatives of discrepancies only: pass engine="exact"')
