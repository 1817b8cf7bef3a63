"""What every adapter returns, and the check that draws are not cut off at a bound."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError

# A bound within so many standard deviations of the mean can matter: a normal tail beyond it weighs 3e-5.
NEAR = 4.0


class Draws(NamedTuple):
    """Draws of Markov chains and their scores, (chains, draws, D), with the names of the D parameters."""

    x: Float[np.ndarray, "chains draws d"]
    score: Float[np.ndarray, "chains draws d"]
    names: tuple[str, ...]


def group(data: Any, name: str) -> Any:
    """A group of ArviZ InferenceData, of an xarray DataTree, or of a dict of datasets."""
    try:
        return data[name]
    except KeyError:
        found = ", ".join(str(key) for key in data) or "none"
        raise InputError(f"the draws have no group {name!r}: found {found}") from None
    except TypeError:
        kind = type(data).__name__
        raise InputError(f"the draws must be ArviZ InferenceData or an xarray DataTree, got {kind}") from None


def bound_of(values: Float[np.ndarray, "chains draws ..."]) -> str | None:
    """How the draws of one variable look constrained: "positive", "between 0 and 1", "a simplex", or None."""
    columns = values.reshape(values.shape[0] * values.shape[1], -1)
    low, high = columns.min(0), columns.max(0)
    if columns.shape[1] > 1 and (low >= 0).all() and np.allclose(columns.sum(1), 1.0):
        return "a simplex"
    mean, near = columns.mean(0), NEAR * columns.std(0)
    at_zero = (low >= 0) & (mean < near)
    if (at_zero & (high <= 1) & (1 - mean < near)).any():
        return "between 0 and 1"
    return "positive" if at_zero.any() else None
