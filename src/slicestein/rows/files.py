"""Samples from files: NumPy .npy and .npz, .csv, .parquet, and ArviZ .nc with its chains kept apart.

Every fault is a `ValueError` of one line that names the file, what was found in it and what to do.
"""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError

SAMPLE_ARRAYS = ("x", "samples", "draws")  # names looked for in an .npz with several arrays
SCORE_ARRAYS = ("score", "scores", "gradient")
INDEX = "__index_level_0__"  # the column in which pandas keeps a row index


class Samples(NamedTuple):
    """Samples (N, D), or chains (chains, draws, D), and the names of the D parameters if the file has them."""

    x: Float[np.ndarray, "..."]
    names: tuple[str, ...] | None


def read_samples(path: str | os.PathLike[str]) -> Samples:
    """Read samples and the names of their parameters.

    Parameters
    ----------
    path
        ``.npy``: one array. ``.npz``: one array, or the one called x, samples or draws; an array of strings called
        names gives the names. ``.csv``, ``.parquet``: one column per parameter, named by the header. ``.nc``: the
        posterior group of an ArviZ file; names are those of the variables with their indices, ``beta[3]``.
    """
    return _read(Path(path), SAMPLE_ARRAYS)


def read_scores(path: str | os.PathLike[str]) -> Float[np.ndarray, "..."]:
    """Read scores, from the same formats; in an ``.npz`` the array is called score, scores or gradient."""
    return _read(Path(path), SCORE_ARRAYS).x


def flat_names(name: str, shape: Sequence[int]) -> list[str]:
    """Names of the entries of an array: beta of shape (2,) is beta[0], beta[1]; a number keeps its name."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


Named = tuple[Float[np.ndarray, "chains draws d"], tuple[str, ...]]


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


def _read(path: Path, wanted: tuple[str, ...]) -> Samples:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: cannot read {path.suffix or 'a file without a suffix'}: use {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}: give the path of a file")
    x, names = reader(path, wanted)
    if x.dtype.kind not in "fiu":
        raise InputError(f"{path}: holds {x.dtype}, not real numbers: save an array of floats")
    if x.ndim not in (2, 3) or 0 in x.shape:
        raise InputError(f"{path}: holds an array of shape {x.shape}: save samples as (N, D) or (chains, draws, D)")
    if names is not None and len(names) != x.shape[-1]:
        raise InputError(f"{path}: holds {len(names)} names for {x.shape[-1]} columns: give one name per column")
    if names is not None and len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError(f"{path}: two columns are named {twice!r}: rename one")
    return Samples(x, names)


def _read_npy(path: Path, wanted: tuple[str, ...]) -> Samples:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path}: is not a NumPy array ({_line(error)}): write it with numpy.save") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{path}: is an .npz archive: rename it")
    return Samples(array, None)


def _read_npz(path: Path, wanted: tuple[str, ...]) -> Samples:
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: is not a NumPy archive ({_line(error)}): write it with numpy.savez") from None
    names = arrays.pop("names", None)
    found = [name for name in wanted if name in arrays] or (list(arrays) if len(arrays) == 1 else [])
    if not found:
        held = ", ".join(arrays) or "no arrays"
        raise InputError(f"{path}: holds {held}: name one of them {' or '.join(wanted)}")
    return Samples(arrays[found[0]], None if names is None else tuple(str(name) for name in np.ravel(names)))


def _read_csv(path: Path, wanted: tuple[str, ...]) -> Samples:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in file if line.strip() and not line.startswith("#")]
        first = next(csv.reader(lines[:1]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not a text of comma-separated values ({_line(error)})") from None
    names = None if all(_is_number(cell) for cell in first) else tuple(cell.strip() for cell in first)
    if names is not None and "" in names:
        where = names.index("") + 1
        raise InputError(f"{path}: column {where} has no name: leave the row index out (pandas: to_csv(index=False))")
    data = lines if names is None else lines[1:]
    if not data:
        raise InputError(f"{path}: holds no samples: write one line per sample, under a line of names")
    try:
        x = np.loadtxt(data, delimiter=",", ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: {_line(error)}: every cell below the header must be a number") from None
    return Samples(x, names)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path, wanted: tuple[str, ...]) -> Samples:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: reading .parquet needs pyarrow: pip install pyarrow") from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: is not a Parquet file ({_line(error)})") from None
    columns = {name: table[name].to_numpy() for name in table.column_names if name != INDEX}
    for name, column in columns.items():
        if column.dtype.kind not in "fiu":
            raise InputError(f"{path}: column {name} holds {column.dtype}, not real numbers: leave it out")
    return Samples(np.stack(list(columns.values()), axis=1) if columns else np.empty((0, 0)), tuple(columns))


def _read_netcdf(path: Path, wanted: tuple[str, ...]) -> Samples:
    posterior = read_group(path, "posterior")
    try:
        return Samples(*flatten_posterior(posterior))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def read_group(path: Path, group: str) -> Any:
    """A group of an ArviZ file, as an xarray dataset in memory."""
    try:
        import xarray
    except ImportError:
        raise InputError(f"{path}: reading .nc needs xarray and h5netcdf: pip install slicestein[arviz]") from None
    try:
        with xarray.open_dataset(path, group=group) as dataset:
            return dataset.load()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: has no readable {group} group ({_line(error)}): write it with ArviZ") from None


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


def _line(error: Exception) -> str:
    """The first sentence of a message, on one line."""
    return " ".join(str(error).split())[:200].split(". ")[0].rstrip(".:")


READERS: dict[str, Callable[[Path, tuple[str, ...]], Samples]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".nc": _read_netcdf,
}
