"""Variables of any shape side by side, as columns with names: ``beta`` of shape (2,) is ``beta[0]``, ``beta[1]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError

Named = tuple[Float[np.ndarray, "chains draws d"], tuple[str, ...]]


def flat_names(name: str, shape: Sequence[int]) -> list[str]:
    """Names of the entries of an array: beta of shape (2,) is beta[0], beta[1]; a number keeps its name."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def flatten_variables(variables: Iterable[tuple[str, Any]]) -> Named:
    """Variables (chains, draws, ...) side by side, as (chains, draws, D) with a name for each column."""
    columns, names = [], []
    for name, value in variables:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise InputError(f"variable {name} holds {array.dtype}, not real numbers: leave it out")
        columns.append(array.reshape(*array.shape[:2], -1))
        names += flat_names(name, array.shape[2:])
    return np.concatenate(columns, axis=2), tuple(names)


def flatten_posterior(posterior: Any, var_names: Sequence[str] | None = None) -> Named:
    """Variables of an xarray dataset with dimensions chain and draw, side by side."""
    missing = [name for name in var_names or () if name not in posterior.data_vars]
    if missing:
        raise InputError(f"there is no variable {missing[0]}: found {', '.join(map(str, posterior.data_vars))}")
    variables = [(str(name), posterior[name]) for name in var_names or posterior.data_vars]
    if not variables:
        raise InputError("the posterior holds no variables")
    for name, array in variables:
        if not {"chain", "draw"} <= set(array.dims):
            raise InputError(f"variable {name} has dimensions {array.dims}: chain and draw are needed")
    return flatten_variables((name, array.transpose("chain", "draw", ...)) for name, array in variables)
