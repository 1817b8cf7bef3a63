"""Rows that are in memory: samples and scores as NumPy arrays, checked at the door and kept in their precision."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein.rows.source import Rows, Source

# A column whose values are so coarse, in standard deviations, has lost its shape to rounding.
COARSEST = 0.05
ENOUGH_ROWS = 20  # to know the standard deviation of a column


@dataclasses.dataclass(frozen=True, eq=False)
class Chains(Source):
    """Samples and scores (chains, draws, D) in memory; independent samples are one chain.

    ``ordered``: whether consecutive draws may depend on each other.
    """

    x: Float[np.ndarray, "chains draws d"]
    s: Float[np.ndarray, "chains draws d"]
    ordered: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """Chains, draws of each, and D."""
        chains, draws, dim = self.x.shape
        return chains, draws, dim

    @property
    def flat(self) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
        """Samples and scores (N, D), chains one after the other."""
        return self.x.reshape(-1, self.dim), self.s.reshape(-1, self.dim)

    def part(self, draws: slice) -> Chains:
        """The same stretch of every chain."""
        return Chains(self.x[:, draws], self.s[:, draws], self.ordered)

    def in_order(self) -> Chains:
        return Chains(self.x, self.s, True)

    def read(self, start: int, stop: int) -> Rows:
        return Rows(*(z[start:stop] for z in self.flat))

    def samples(self, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        return self.flat[0][rows]

    def gather(self, rows: Int[np.ndarray, " n"]) -> Rows:
        return Rows(*(z[rows] for z in self.flat))


def as_rows(x: Any, score: ScoreLike, name: str = "x") -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """Checked samples and scores (N, D) of one floating type, at least single precision."""
    if np.ndim(x) == 3:
        raise InputError(f"{name} must have shape (N, D), got {np.shape(x)}: lay chains one after the other")
    return as_chains(x, score, name).flat


def as_chains(x: Any, score: ScoreLike, name: str = "x", least: int = 2) -> Chains:
    """Checked samples (N, D) or (chains, draws, D) with their scores; a function gives them for all rows at once.

    ``name`` is that of the samples in messages, ``least`` how many there must be.
    """
    samples, score = real(name, x), _checks.by_column(x, score)
    if samples.ndim not in (2, 3) or 0 in samples.shape:
        hint = f"; for one-dimensional samples pass {name}[:, None]" if samples.ndim == 1 else ""
        raise InputError(f"{name} must have shape (N, D) or (chains, draws, D), got {samples.shape}{hint}")
    flat = samples.reshape(-1, samples.shape[-1])
    if len(flat) < least:
        raise InputError(f"{name} must hold at least two samples, got shape {samples.shape}")
    _checks.finite(**{name: samples})
    score_name = "score" if name == "x" else f"the score of {name}"
    values = score_at(score, flat).reshape(samples.shape) if callable(score) else real(score_name, score)
    if values.shape != samples.shape:
        raise InputError(f"{score_name} must have the shape of {name}, {samples.shape}, got {values.shape}")
    _checks.finite(**{score_name: values})
    dtype = np.promote_types(samples.dtype, values.dtype)
    lead = samples.shape if samples.ndim == 3 else (1, *samples.shape)
    # Flat first: rows of a view that is not contiguous are copied once, here.
    rows, s = (z.astype(dtype, copy=False).reshape(-1, lead[2]).reshape(lead) for z in (samples, values))
    return Chains(rows, s, samples.ndim == 3)


def score_at(score_fn: Any, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Values of a score function of a batch, which may be a JAX function in single precision."""
    try:
        found = score_fn(x)
    except Exception as error:
        error.add_note(f"score is called with all samples at once, here an array of shape {x.shape}")
        raise
    shape = getattr(found, "shape", None)
    if shape != x.shape:
        raise InputError(
            f"score(x) must return shape {x.shape}, the shape of x, got {shape}: pass a function of the "
            "whole batch, for example score_from(log_density)"
        )
    values = real("score(x)", found)
    if not isinstance(found, np.ndarray) and values.dtype == np.float32:
        _resolved(x)
    return values


def _resolved(x: Float[np.ndarray, "n d"]) -> None:
    """Require that single precision, in which the score was computed, can tell the samples apart."""
    coarse = coarse_columns(x)
    if coarse.any() and len(x) >= ENOUGH_ROWS:
        column = int(np.argmax(coarse))
        raise InputError(
            f"score(x) works in single precision, in which the samples of column {column}, {x[0, column]:.6g} and the "
            'like, are all the same: set jax.config.update("jax_enable_x64", True) or compute in torch.float64, shift '
            "the parameter, or pass the scores as an array"
        )


def coarse_columns(x: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " d"]:
    """Columns whose rows single precision cannot tell apart; one that does not vary is another matter."""
    with np.errstate(over="ignore", invalid="ignore"):  # where they overflow the scores do, and are refused
        coarse = np.spacing(np.abs(x).max(0).astype(np.float32)) > COARSEST * x.std(0)
    return coarse & (np.ptp(x, axis=0) > 0)


def real(name: str, value: Any) -> np.ndarray:
    """An array of real numbers, of single or double precision."""
    if isinstance(value, jax.core.Tracer):
        raise InputError(f"{name} is traced: call this outside of jit, vmap and grad, its values are looked at")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{name} has masked values: drop those rows")
    if isinstance(value, str | os.PathLike):
        raise InputError(f"{name} is a path: open the file with slicestein.rows.open({os.fspath(value)!r}, score)")
    try:
        array = np.asarray(_checks.from_torch(value))
    except (TypeError, ValueError) as error:
        lengths = [len(part) for part in value if hasattr(part, "__len__")] if isinstance(value, list | tuple) else [0]
        differ = f"its parts have lengths from {min(lengths)} to {max(lengths)}; cut chains to the shortest"
        why = differ if min(lengths) < max(lengths) else error
        raise InputError(f"{name} must be a numeric array of shape (N, D) or (chains, draws, D): {why}") from None
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        hint = "; ArviZ data go through adapters.from_arviz" if hasattr(value, "posterior") else ""
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}{hint}")
    if array.dtype in (np.float32, np.float64):
        return array
    half = array.dtype.name in ("float16", "bfloat16")
    return array.astype(np.float32 if half else np.float64)
