"""One reader per format, (path, names wanted in an archive) -> (array, names of its columns if the file has them)."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from slicestein._checks import InputError, are_parameters
from slicestein.rows.csv_text import read_csv
from slicestein.rows.variables import flatten_posterior

SAMPLE_ARRAYS = ("x", "samples", "draws")  # names looked for in an .npz
SCORE_ARRAYS = ("score", "scores", "gradient")

Found = tuple[Shaped[np.ndarray, "..."], tuple[str, ...] | None]


def check_names(path: Path, names: tuple[str, ...] | None, width: int) -> None:
    """Require one name per column, no name twice, and none of Stan's sampler: its files are more than a table."""
    if names is not None and "lp__" in names:
        raise InputError(
            f"{path}: is a file of CmdStan: test the diagnostic files, with slicestein test --stan or check(paths); an "
            "output file has no gradients and draws with bounds"
        )
    are_parameters(f"{path}:", names or ())
    if names is not None and len(names) != width:
        raise InputError(f"{path}: holds {len(names)} names for {width} columns: give one name per column")
    if names is not None and len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError(f"{path}: two columns are named {twice!r}: rename one")


def _read_npy(path: Path, wanted: tuple[str, ...]) -> Found:
    array = parsed(path, "a NumPy array of numbers: write it with numpy.save", np.load, path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{path}: is an .npz archive: rename it")
    return array, None


def _read_npz(path: Path, wanted: tuple[str, ...]) -> Found:
    def arrays_of(path: Path) -> dict[str, np.ndarray]:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
            return dict(archive)

    arrays = parsed(path, "a NumPy archive of numbers: write it with numpy.savez", arrays_of, path)
    names = arrays.pop("names", None)
    found = arrays[choose_array(path, list(arrays), wanted)]
    return found, None if names is None else tuple(str(name) for name in np.ravel(names))


def choose_array(path: Path, held: Sequence[str], wanted: tuple[str, ...]) -> str:
    """The name of the array of an archive that holds what is wanted."""
    found = [name for name in wanted if name in held]
    if len(found) > 1:
        raise InputError(f"{path}: holds {' and '.join(found)}: keep one of them")
    if not found and wanted is SAMPLE_ARRAYS and len(held) == 1 and not set(held) & set(SCORE_ARRAYS):
        found = list(held)
    if not found:
        what = "samples" if wanted is SAMPLE_ARRAYS else "scores"
        there = ", ".join(held) or "no arrays"
        raise InputError(f"{path}: holds {there}: name the array of the {what} {' or '.join(wanted)}")
    return found[0]


def _read_parquet(path: Path, wanted: tuple[str, ...]) -> Found:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: reading .parquet needs pyarrow: pip install pyarrow") from None
    table = parsed(path, "a Parquet file", parquet.read_table, path)
    names = parquet_columns(path, table.schema)
    return np.stack([table[name].to_numpy() for name in names], axis=1) if names else np.empty((0, 0)), names


def parquet_columns(path: Path, schema: Any) -> tuple[str, ...]:
    """Names of the parameters in a Parquet file; the row index of pandas is none."""
    from pyarrow import types

    index = (schema.pandas_metadata or {}).get("index_columns", [])
    fields = [field for field in schema if field.name not in index]
    for field in fields:
        if not (types.is_floating(field.type) or types.is_integer(field.type)):
            raise InputError(f"{path}: column {field.name} holds {field.type}, not real numbers: leave it out")
    return tuple(field.name for field in fields)


def _read_netcdf(path: Path, wanted: tuple[str, ...]) -> Found:
    if wanted is SCORE_ARRAYS:
        raise InputError(f"{path}: scores in an .nc are those of its own draws: give it as the samples too")
    posterior = read_group(path, "posterior")
    try:
        return flatten_posterior(posterior)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_group(path: Path, group: str) -> Any:
    """A group of an ArviZ file, as an xarray dataset in memory."""
    found = [importlib.util.find_spec(name) is not None for name in ("xarray", "h5netcdf", "netCDF4")]
    if not (found[0] and any(found[1:])):
        raise InputError(f"{path}: reading .nc needs xarray and h5netcdf: pip install xarray h5netcdf")
    import xarray

    def load(path: Path) -> Any:
        with xarray.open_dataset(path, group=group) as dataset:
            return dataset.load()

    if not path.is_file():
        raise InputError(f"{path}: no such file: give the path of a file")
    return parsed(path, f"an ArviZ file with a {group} group: write it with ArviZ", load, path)


def parsed(path: Path, kind: str, parser: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What another package makes of a file; whatever it says of a broken one is told in our words."""
    try:
        return parser(*args, **options)
    except (MemoryError, InputError):
        raise
    except Exception:
        raise InputError(f"{path}: is not {kind}") from None


READERS: dict[str, Callable[[Path, tuple[str, ...]], Found]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": lambda path, wanted: read_csv(path),
    ".parquet": _read_parquet,
    ".nc": _read_netcdf,
}
