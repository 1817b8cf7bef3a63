"""Samples from files: NumPy .npy and .npz, .csv, .parquet, and ArviZ .nc with its chains kept apart.

Every fault is an `InputError` of one line that names the file, what was found in it and what to do. Numbers keep the
precision that the file has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.rows import csv_text
from slicestein.rows.formats import READERS, SAMPLE_ARRAYS, SCORE_ARRAYS, check_names


class Samples(NamedTuple):
    """Samples (N, D), or chains (chains, draws, D), and the names of the D parameters if the file has them."""

    x: Float[np.ndarray, "..."]
    names: tuple[str, ...] | None


def read_samples(path: str | os.PathLike[str]) -> Samples:
    """Read samples and the names of their parameters.

    Parameters
    ----------
    path
        ``.npy``: one array. ``.npz``: the array called x, samples or draws, or its only one; an array of strings
        called names gives the names. ``.csv``, ``.parquet``: one column per parameter, named by the header.
        ``.nc``: the posterior group of an ArviZ file; names are those of the variables with their indices,
        ``beta[3]``.
    """
    return _read(Path(path), SAMPLE_ARRAYS)


def read_scores(path: str | os.PathLike[str], *, names: Sequence[str] | None = None) -> Float[np.ndarray, "..."]:
    """Read scores, from the same formats; in an ``.npz`` the array is called score, scores or gradient.

    Parameters
    ----------
    path
        File of the scores.
    names
        Names of the columns of the samples. If the columns of the scores are named too, they are put in this order.
    """
    return by_name(path, _read(Path(path), SCORE_ARRAYS), names)


def by_name(path: str | os.PathLike[str], found: Samples, names: Sequence[str] | None) -> Float[np.ndarray, "..."]:
    """Columns in the order of ``names``; without names, here or there, as they are."""
    if names is None or found.names is None:
        return found.x
    places = {name: i for i, name in enumerate(found.names)}
    if lacking := [name for name in names if name not in places]:
        raise InputError(f"{path}: has no column {lacking[0]!r}, which the samples have: name the columns alike")
    if len(places) > len(names):
        more = next(name for name in found.names if name not in set(names))
        raise InputError(f"{path}: has a column {more!r}, which the samples have not: name the columns alike")
    return found.x[..., [places[name] for name in names]]


def _read(path: Path, wanted: tuple[str, ...]) -> Samples:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: cannot read {path.suffix or 'a file without a suffix'}: use {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}: give the path of a file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: you have no permission to read it")
    try:
        x, names = reader(path, wanted)
    except MemoryError:
        raise InputError(f"{path}: does not fit into memory: thin the samples") from None
    if x.dtype.kind not in "fiu":
        raise InputError(f"{path}: holds {x.dtype}, not real numbers: save an array of floats")
    if x.ndim not in (2, 3) or 0 in x.shape:
        raise InputError(f"{path}: holds an array of shape {x.shape}: save samples as (N, D) or (chains, draws, D)")
    check_names(path, names, x.shape[-1])
    _check_finite(path, x, names)
    return Samples(x, names)


def _check_finite(path: Path, x: Float[np.ndarray, "..."], names: tuple[str, ...] | None) -> None:
    bad = ~np.isfinite(x)
    if not bad.any():
        return
    index = [int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape)]
    if path.suffix.lower() == ".csv":
        where = f"in {csv_text.place(path, index[0], index[1], names)}"
    else:
        where = f"at index {index}"
    found = f"has {int(bad.sum())} values that are NaN or infinite, the first {where}"
    raise InputError(f"{path}: {found}: drop those rows or mend the run")
