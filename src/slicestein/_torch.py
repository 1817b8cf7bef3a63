"""Log-densities written in PyTorch. Torch is never imported here: who has a torch function has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError, from_torch, is_concrete

LogDensity = Callable[[Any], Any]


def is_torch(log_density: LogDensity, x: Any) -> bool:
    """Whether a log-density of one sample is a torch function: JAX cannot trace it at a row of x, torch can follow it.

    Where torch is not imported, or x is traced by JAX, it is not one, and nothing is tried.
    """
    if "torch" not in sys.modules or not is_concrete(x) or np.ndim(x) != 2 or len(x) == 0:
        return False
    try:
        jax.eval_shape(log_density, jax.ShapeDtypeStruct(np.shape(x)[1:], jax.dtypes.canonicalize_dtype(float)))
    except Exception as of_jax:  # whatever a torch function says of a JAX array
        try:
            _tensors(log_density, x)
        except Exception as of_torch:
            if (type(of_jax), str(of_jax)) == (type(of_torch), str(of_torch)):  # the function's own fault
                raise of_jax from None
            said = " and as one of torch with ".join(f"{type(e).__name__}: {str(e)[:200]}" for e in (of_jax, of_torch))
            raise InputError(f"log_density fails as a function of JAX with {said}") from of_jax
        return True
    return False


def scores(log_density: LogDensity, x: Any) -> Any:
    """Gradients (N, D), a tensor: all rows at once where `torch.func` can, else one by one.

    It cannot where the function looks at values, as `torch.distributions` does to check them. Where the log-density is
    not finite there is no gradient: NaN.
    """
    torch = sys.modules["torch"]
    rows = _tensors(log_density, x)
    try:
        gradients, found = torch.func.vmap(torch.func.grad_and_value(log_density))(rows)
    except RuntimeError:
        of_rows = [(row, log_density(row)) for row in rows.requires_grad_().unbind()]
        gradients = torch.stack([torch.autograd.grad(value, row)[0] for row, value in of_rows])
        found = torch.stack([value for _, value in of_rows])
    return torch.where(torch.isfinite(found)[:, None], gradients, torch.nan).detach()


def values(log_density: LogDensity, x: Any) -> Float[np.ndarray, " n"]:
    """Log-densities of all rows."""
    torch = sys.modules["torch"]
    rows = _tensors(log_density, x)
    with torch.no_grad():
        return np.array([from_torch(log_density(row)) for row in rows])


def _tensors(log_density: LogDensity, x: Any) -> Any:
    """Rows in a precision that the function takes: that of x, else double, else single."""
    torch = sys.modules["torch"]
    rows = torch.tensor(np.asarray(from_torch(x)))
    for dtype in (rows.dtype, torch.float64, torch.float32):
        try:
            value = log_density(rows[0].to(dtype).requires_grad_())
        except Exception as error:
            refused = error
        else:
            if isinstance(value, torch.Tensor) and value.ndim == 0:
                return rows.to(dtype)
            found = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise TypeError(f"log_density must return one number, a tensor of shape (), for one sample, got {found}")
    raise refused
