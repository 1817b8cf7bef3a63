"""Rows that can be read only once, or whose number is not known, are put aside: in a temporary file of raw numbers.

The file is removed with the table that reads it, at the end of the process, and when the command is interrupted.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.rows import csv_text
from slicestein.rows.arrays import real
from slicestein.rows.formats import choose_array, parsed
from slicestein.rows.tables import RawFile, Table, npy_table
from slicestein.rows.writing import UNFINISHED


def _place_aside() -> Path:
    with tempfile.NamedTemporaryFile(prefix="slicestein-", suffix=".npy", delete=False) as file:
        path = Path(file.name)
    UNFINISHED.add(path)
    return path


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    UNFINISHED.discard(path)


def _owned(table: RawFile) -> RawFile:
    """The table, which takes its file with it when it goes; a copy in another process does not."""
    weakref.finalize(table, _remove, table.path)
    return table


class _Writer:
    """Chunks that are appended to a file; the first one says how wide and how precise they are."""

    def __init__(self, label: str):
        self.label, self.path, self.rows = label, _place_aside(), 0
        self.first: np.ndarray | None = None
        self.file = self.path.open("wb")

    def append(self, chunk: Any, number: int) -> None:
        here = f"chunk {number} of {self.label}"
        chunk = real(here, chunk)
        if chunk.ndim != 2:
            raise InputError(f"{here} must have shape (n, D), got {chunk.shape}")
        self.first = chunk[:0] if self.first is None else self.first
        if chunk.shape[1] != self.first.shape[1]:
            raise InputError(f"{here} has {chunk.shape[1]} columns, the first one {self.first.shape[1]}")
        if chunk.dtype != self.first.dtype:
            raise InputError(f"{here} holds {chunk.dtype}, the first one {self.first.dtype}: give one type")
        np.ascontiguousarray(chunk).tofile(self.file)
        self.rows += len(chunk)

    def table(self) -> RawFile:
        self.file.close()
        if self.first is None or not self.rows:
            raise InputError(f"{self.label} holds no rows")
        shape = (self.rows, self.first.shape[1])
        return _owned(RawFile(self.path, shape, self.first.dtype, label=self.label))

    def drop(self) -> None:
        self.file.close()
        _remove(self.path)


def spool(chunks: Iterable[Any], label: str) -> tuple[RawFile, RawFile | None]:
    """Tables of the chunks x, or of the chunks (x, score), read once and in order."""
    x, s = _Writer(label), _Writer(f"the scores of {label}")
    try:
        for number, chunk in enumerate(chunks):
            if paired := isinstance(chunk, tuple):
                if len(chunk) != 2:
                    raise InputError(f"chunk {number} of {label} must be x or (x, score), got {len(chunk)} arrays")
                if np.shape(chunk[0]) != np.shape(chunk[1]):
                    shapes = f"{np.shape(chunk[0])} and {np.shape(chunk[1])}"
                    raise InputError(f"chunk {number} of {label}: samples and scores differ in shape, {shapes}")
                s.append(chunk[1], number)
            if number and paired != (s.first is not None):
                raise InputError(f"chunk {number} of {label}: some chunks have scores and some have not")
            x.append(chunk[0] if paired else chunk, number)
        samples = x.table()
        if s.first is not None:
            return samples, s.table()
    except BaseException:
        x.drop()
        s.drop()
        raise
    s.drop()
    return samples, None


class CsvTable(Table):
    """The numbers of a .csv, put aside; places are told by its lines."""

    def __init__(self, path: Path):
        self.path = path
        self.names, chunks = csv_text.csv_chunks(path)
        self.numbers, _ = spool(chunks, str(path))
        self.shape = self.numbers.shape

    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        return self.numbers.read(start, stop)

    def place(self, row: int) -> str:
        return f"{self.path}: {csv_text.place(self.path, row, 0, self.names).partition(',')[0]}"


def npz_table(path: Path, wanted: tuple[str, ...]) -> Table:
    """An array of an .npz archive, taken out of it; each is an .npy of its own."""
    kind = "a NumPy archive of numbers: write it with numpy.savez"
    aside = _place_aside()

    def take_out() -> RawFile:
        with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as arrays:
            names = tuple(str(name) for name in np.ravel(arrays["names"])) if "names" in arrays.files else None
            chosen = choose_array(path, [name for name in arrays.files if name != "names"], wanted)
            with archive.open(f"{chosen}.npy") as member, aside.open("wb") as file:
                shutil.copyfileobj(member, file, 2**20)
        return _owned(npy_table(aside, str(path), names))

    try:
        return parsed(path, kind, take_out)
    except BaseException:
        _remove(aside)
        raise
