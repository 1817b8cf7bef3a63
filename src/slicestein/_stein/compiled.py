"""The compiled kernels of ``_trig.cpp`` as JAX functions, where the extension was built.

Without it (no compiler at installation, a GPU, or ``SLICESTEIN_PORTABLE=1`` in the environment) the same numbers come
from the portable JAX functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from slicestein._stein.native import EXTENSION

AVAILABLE = EXTENSION is not None
WITHOUT = (
    "Without them results are the same; discrepancies take about ten times as long, tests a third longer. Unset "
    "SLICESTEIN_PORTABLE, or install a C++ compiler and then slicestein once more."
)
if EXTENSION is not None:
    for _name in ("value", "gradient", "median", "forces"):
        for _suffix in ("f32", "f64"):
            jax.ffi.register_ffi_target(
                f"slicestein_{_name}_{_suffix}", getattr(EXTENSION, f"{_name}_{_suffix}"), platform="cpu"
            )


def by_platform(compiled: Callable[..., Any], portable: Callable[..., Any], *args: Any) -> Any:
    """Call the compiled function on CPUs that have it, else the portable one."""
    if not AVAILABLE:
        return portable(*args)
    return lax.platform_dependent(*args, cpu=compiled, default=portable)


def _call(name: str, out_types: Any, *args: Array, **attributes: Any) -> Any:
    suffix = {jnp.dtype("float32"): "f32", jnp.dtype("float64"): "f64"}[args[0].dtype]
    # A batch axis added by vmap is one more leading axis of rows, which the kernels flatten.
    call = jax.ffi.ffi_call(f"slicestein_{name}_{suffix}", out_types, vmap_method="broadcast_all")
    return call(*args, **attributes)


def _like(a: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(a.shape, a.dtype)


def median_gap(t: Array) -> Array:
    """Median gap of each row (M, N) -> (M,)."""
    return _call("median", jax.ShapeDtypeStruct(t.shape[:-1], t.dtype), t)


def value(u: Array, a: Array, c: Array, **rules: Any) -> Array:
    """V-statistic of each row."""
    return _call("value", jax.ShapeDtypeStruct(u.shape[:-1], u.dtype), u, a, c, **rules)


def value_and_gradient(u: Array, a: Array, c: Array, **rules: Any) -> tuple[Array, Array, Array, Array]:
    """V-statistic of each row and its derivatives in u, a and c."""
    row = jax.ShapeDtypeStruct(u.shape[:-1], u.dtype)
    return tuple(_call("gradient", (row, _like(u), _like(a), _like(c)), u, a, c, **rules))


def forces(u: Array, a: Array, c: Array) -> tuple[Array, Array, Array]:
    """V-statistic of each row, and the two parts of its witness at the samples, for the Gaussian kernel."""
    row = jax.ShapeDtypeStruct(u.shape[:-1], u.dtype)
    return tuple(_call("forces", (row, _like(u), _like(u)), u, a, c))
