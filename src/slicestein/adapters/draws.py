"""What every adapter returns, and what several of them need: scores of a JAX model, the look for bounds, names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.rows.arrays import score_at

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
    except (TypeError, IndexError):
        hint = ": read the file with arviz.from_netcdf" if isinstance(data, str | os.PathLike) else ""
        kind = type(data).__name__
        raise InputError(f"the draws must be ArviZ InferenceData or an xarray DataTree, got {kind}{hint}") from None


def stan_name(name: str) -> str:
    """A name as the Stan language writes it: ``b.1.2`` in its files is ``b[1,2]``."""
    return re.sub(r"((?:\.\d+)+)$", lambda found: f"[{found[1][1:].replace('.', ',')}]", name)


def scores_of(
    score_fn: Callable[[Any], Any], x: Float[np.ndarray, "chains draws d"]
) -> Float[np.ndarray, "chains draws d"]:
    """Scores of a JAX function of a batch; single precision is refused where it cannot tell the draws apart."""
    values = score_at(lambda rows: score_fn(jnp.asarray(rows)), x.reshape(-1, x.shape[2]))
    return np.array(values).reshape(x.shape)


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
