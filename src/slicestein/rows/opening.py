"""Open rows: files, folders and patterns of them, iterables of chunks."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slicestein._checks import InputError, ScoreLike
from slicestein.rows.arrays import as_chains
from slicestein.rows.cluster import ClusterRows, from_dask, from_loaders, is_dask, on_workers
from slicestein.rows.formats import SAMPLE_ARRAYS, SCORE_ARRAYS, check_names
from slicestein.rows.parquet import ParquetTable
from slicestein.rows.source import Source
from slicestein.rows.spool import CsvTable, npz_table, spool
from slicestein.rows.stores import StoredPosterior
from slicestein.rows.streamed import StreamedRows
from slicestein.rows.tables import ArrayTable, Joined, Table, npy_table

# Samples in memory whose scores a function gives: up to so many values all scores are kept, 128 MB.
SCORES_KEPT = 2**24
# A format is a line: suffix, and what makes a table of a path and of the names that its array may have in an archive.
TABLES: dict[str, Callable[[Path, tuple[str, ...]], Table]] = {
    ".npy": lambda path, wanted: npy_table(path),
    ".npz": npz_table,
    ".csv": lambda path, wanted: CsvTable(path),
    ".parquet": lambda path, wanted: ParquetTable(path),
    ".nc": lambda path, wanted: StoredPosterior(path),
    ".zarr": lambda path, wanted: StoredPosterior(path),
}


def open_rows(
    rows: Any,
    score: Any = None,
    *,
    chains: int | Literal["files"] | None = None,
    dtype: Any = None,
    dask: bool = False,
    progress: bool = True,
) -> StreamedRows | ClusterRows:
    """Rows for a test that need not fit into memory.

    Parameters
    ----------
    rows
        A path, a folder, a pattern such as ``"draws/*.parquet"``, or a list of paths: .npy, .npz, .csv, .parquet, and
        the posterior of ArviZ as .nc or .zarr. Several files are laid one after the other by their names, numbers in
        names counting as numbers. Or an iterable of chunks, arrays (n, D) or pairs (x, score).
    score
        The scores in files of the same shape, or a function (n, D) -> (n, D) that is called chunk by chunk. May be
        given to the test instead.
    chains
        Into how many chains of equal length the rows are cut; ``"files"``: every file is one. By default independent
        samples, or the chains that the file itself has.
    dtype
        What numbers are turned into; by default they keep the precision of the file.
    dask
        Whether files are read and measured by the workers of the Dask cluster that is connected
        (``distributed.Client``): they must see the files by the same paths, and the answer is that of one machine. Dask
        arrays are given to the test as they are; ``rows`` may also be a list of delayed loaders, one per file.
    progress
        Show a bar while all rows are read, on a terminal.

    Notes
    -----
    A .csv, the array of an .npz and an iterable are copied once to a temporary file of numbers, which is removed with
    the source; the others are read where they are. A test reads them twice, once for the rows that choose slices.

    Examples
    --------
    >>> import numpy as np
    >>> import slicestein as ss
    >>> rng = np.random.default_rng(0)
    >>> rows = ss.rows.open(rng.standard_normal((1000, 3)) for _ in range(5))
    >>> ss.gof_test(rows, lambda x: -x, key=0).verdict
    'fits'
    """
    if isinstance(rows, list | tuple) and rows and all(is_dask(one) for one in rows):
        if dtype is not None or not (chains is None or isinstance(chains, int | np.integer)) or _is_path(score):
            raise InputError("delayed loaders take a number of chains and a score function: let them do the rest")
        return from_loaders(rows, score, None if chains is None else int(chains))
    if _is_path(rows):
        tables = [_table(path, SAMPLE_ARRAYS) for path in files_of(rows)]
        table: Table = Joined(tables) if len(tables) > 1 else tables[0]
        lengths = [one.shape[0] for one in tables]
    else:
        table, found = _from_chunks(rows)
        if found is not None and score is not None:
            raise InputError("score is given twice: the chunks have it already")
        score, lengths = found if score is None else score, []
    cut = _chains(table, chains, lengths)
    source = StreamedRows(table, chains=cut, ordered=cut is not None, progress=progress, dtype=dtype)
    if _is_path(score):
        scores = [_table(path, SCORE_ARRAYS) for path in files_of(score)]
        score = Joined(scores) if len(scores) > 1 else scores[0]
    source = source if score is None else source.with_score(score)
    return on_workers(source) if dask else source


def _is_path(value: Any) -> bool:
    if isinstance(value, list | tuple) and value:
        return all(isinstance(one, str | os.PathLike) for one in value)
    return isinstance(value, str | os.PathLike)


def _from_chunks(rows: Any) -> tuple[Table, Table | None]:
    if isinstance(rows, np.ndarray):
        return ArrayTable(rows, "x"), None
    if isinstance(rows, tuple):
        raise InputError("rows is a tuple: pass samples and scores as open(x, score), or a list of chunks")
    if not isinstance(rows, Iterable):
        raise InputError(f"rows must be a path, an array or an iterable of chunks, got {type(rows).__name__}")
    return spool(rows, "rows")


def files_of(given: Any) -> list[Path]:
    """Files of a path, a folder, a pattern or a list, in the order of their names."""
    if isinstance(given, list | tuple):
        return [Path(one) for one in given]
    path = Path(given)
    if path.is_dir() and path.suffix != ".zarr":
        found = [one for one in path.iterdir() if one.suffix.lower() in TABLES and not one.name.startswith(".")]
    elif not path.exists() and glob.has_magic(str(path)):
        found = [Path(one) for one in glob.glob(str(path))]
    else:
        return [path]
    if not found:
        raise InputError(f"{path}: there is no file of samples: use {', '.join(TABLES)}")
    kinds = sorted({one.suffix.lower() for one in found})
    if len(kinds) > 1:
        raise InputError(
            f"{path}: holds files of several kinds, {' and '.join(kinds)}: name one as a pattern, *{kinds[0]}"
        )
    return sorted(found, key=natural)


def natural(path: Path) -> list[tuple[int, int, str]]:
    """Numbers in names count as numbers: part-2 is before part-10."""
    pieces = re.split(r"(\d+)", str(path))
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces if piece]


def _table(path: Path, wanted: tuple[str, ...]) -> Table:
    suffix = path.suffix.lower()
    if suffix not in TABLES:
        raise InputError(f"{path}: cannot read {suffix or 'a file without a suffix'}: use {', '.join(TABLES)}")
    if not path.exists() or (path.is_dir() and suffix != ".zarr"):
        raise InputError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}: give the path of a file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: you have no permission to read it")
    if wanted is SCORE_ARRAYS and suffix in (".nc", ".zarr"):
        raise InputError(f"{path}: scores in {suffix} are those of its own draws: test it in memory, with an adapter")
    table = TABLES[suffix](path, wanted)
    if 0 in table.shape:
        raise InputError(f"{path}: holds no samples: write one row per sample, one column per parameter")
    check_names(path, table.names, table.shape[1])
    return table


def _chains(table: Table, chains: int | Literal["files"] | None, lengths: list[int]) -> int | None:
    """Into how many chains the rows are cut; None: they are independent."""
    if chains is None:
        return table.chains
    if table.chains is not None:
        raise InputError(f"{table.place(0)} is of a file that has {table.chains} chains: leave chains out")
    if chains == "files":
        if len(set(lengths)) != 1:
            raise InputError(f"chains='files' needs files of equal length, got {lengths or 'no files'}")
        return len(lengths)
    if not isinstance(chains, int | np.integer) or isinstance(chains, bool):
        raise InputError(f"chains must be a number, 'files' or None, got {chains!r}")
    if chains < 1 or table.shape[0] % chains:
        raise InputError(f"chains: {table.shape[0]} rows cannot be cut into {chains} chains of equal length")
    return int(chains)


def as_source(x: Any, score: ScoreLike | None, name: str = "x") -> Source:
    """A source of rows from what a test is given: arrays, arrays of Dask, or a source."""
    if isinstance(x, Source):
        if score is None:
            return x
        if not isinstance(x, StreamedRows):
            raise InputError("score is given twice: the source of rows has it already")
        return x.with_score(score)
    if is_dask(x) and score is not None:
        return from_dask(x, score, name)
    if score is None:
        raise InputError("score is missing: pass the gradient of the log-density at x or a function that gives it")
    large = isinstance(x, np.ndarray) and x.size > SCORES_KEPT
    if isinstance(x, np.memmap) or (large and callable(score)):
        table = ArrayTable(x, name)
        return StreamedRows(table, chains=table.chains, ordered=table.chains is not None).with_score(score)
    return as_chains(x, score, name)
