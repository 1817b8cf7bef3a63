"""Tables of numbers (n, D) that are read by row numbers: arrays, files of raw numbers, and several tables in one."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.rows.arrays import real


class Table(abc.ABC):
    """Numbers (n, D), rows of which are read when they are wanted.

    ``chains`` is the number of chains that the rows are cut into, None where the table does not say.
    """

    shape: tuple[int, int]
    chains: int | None = None
    names: tuple[str, ...] | None = None

    @abc.abstractmethod
    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        """Rows ``start:stop``, in single or double precision."""

    @abc.abstractmethod
    def place(self, row: int) -> str:
        """Where a row is, in words that begin with the file."""


class ArrayTable(Table):
    """An array (N, D) or (chains, draws, D) in memory, or mapped into it."""

    def __init__(self, array: np.ndarray, label: str):
        if array.ndim not in (2, 3) or 0 in array.shape:
            raise InputError(f"{label} must have shape (N, D) or (chains, draws, D), got {array.shape}")
        self.array, self.label = array.reshape(-1, array.shape[-1]), label
        self.shape = (self.array.shape[0], self.array.shape[1])
        self.chains = len(array) if array.ndim == 3 else None

    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        return real(self.label, self.array[start:stop])

    def place(self, row: int) -> str:
        return f"{self.label}: row {row}"


class RawFile(Table):
    """Rows of an .npy file, or of raw numbers. They are read, not mapped: a file that is cut short is no crash."""

    def __init__(
        self,
        path: Path,
        shape: tuple[int, ...],
        dtype: np.dtype,
        *,
        offset: int = 0,
        label: str | None = None,
        names: tuple[str, ...] | None = None,
    ):
        self.path, self.dtype, self.offset, self.label, self.names = path, dtype, offset, label or str(path), names
        if dtype.kind not in "fiu":
            raise InputError(f"{self.label}: holds {dtype}, not real numbers: save an array of floats")
        if len(shape) not in (2, 3) or 0 in shape:
            raise InputError(
                f"{self.label}: holds an array of shape {shape}: save samples as (N, D) or (chains, draws, D)"
            )
        self.shape = (int(np.prod(shape[:-1])), shape[-1])
        self.chains = shape[0] if len(shape) == 3 else None
        there = (os.path.getsize(path) - offset) // self._row_bytes
        if there < self.shape[0]:
            raise InputError(
                f"{self.label}: is cut short: it has {max(there, 0)} of {self.shape[0]} rows: save it again"
            )

    @property
    def _row_bytes(self) -> int:
        return self.shape[1] * self.dtype.itemsize

    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        with self.path.open("rb") as file:
            file.seek(self.offset + start * self._row_bytes)
            found = np.fromfile(file, self.dtype, (stop - start) * self.shape[1])
        if len(found) < (stop - start) * self.shape[1]:
            row = start + len(found) // self.shape[1]
            raise InputError(f"{self.place(row)} is gone: the file was cut short while it was read")
        native = found.astype(self.dtype.newbyteorder("="), copy=False)
        return real(self.label, native.reshape(-1, self.shape[1]))

    def place(self, row: int) -> str:
        return f"{self.label}: row {row}"


def npy_table(path: Path, label: str | None = None, names: tuple[str, ...] | None = None) -> RawFile:
    """The table of an .npy file, by its header; nothing is unpickled."""
    said = label or str(path)
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read_header: Any = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            shape, by_columns, dtype = read_header(file)
            offset = file.tell()
    except ValueError:
        raise InputError(f"{said}: is not a NumPy array of numbers: write it with numpy.save") from None
    if by_columns and len(shape) > 1 and min(shape) > 1:
        raise InputError(f"{said}: is written column by column: save numpy.ascontiguousarray of it")
    return RawFile(path, shape, dtype, offset=offset, label=label, names=names)


class Columns(Table):
    """A table with its columns in another order."""

    def __init__(self, table: Table, places: tuple[int, ...]):
        self.table, self.places, self.shape, self.chains = table, places, table.shape, table.chains
        self.names = None if table.names is None else tuple(table.names[i] for i in places)

    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        return self.table.read(start, stop)[:, self.places]

    def place(self, row: int) -> str:
        return self.table.place(row)


class Joined(Table):
    """Several tables, one after the other; named columns must agree."""

    def __init__(self, tables: list[Table]):
        first = tables[0]
        for table in tables:
            if table.shape[1] != first.shape[1]:
                raise InputError(
                    f"{table.place(0)} has {table.shape[1]} columns, those of {first.place(0)} have {first.shape[1]}: "
                    "give files of one run"
                )
            if table.names != first.names:
                raise InputError(f"{table.place(0)}: its columns are named otherwise than in {first.place(0)}")
            if table.chains is not None and len(tables) > 1:
                raise InputError(f"{table.place(0)} is one of several chains in the file: open such a file alone")
        self.tables, self.names, self.chains = tables, first.names, first.chains if len(tables) == 1 else None
        self.ends = np.cumsum([table.shape[0] for table in tables])
        self.shape = (int(self.ends[-1]), first.shape[1])

    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        parts = []
        while start < stop:
            i, first = self._find(start)
            end = min(stop, int(self.ends[i]))
            parts.append(self.tables[i].read(start - first, end - first))
            start = end
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def place(self, row: int) -> str:
        i, first = self._find(row)
        return self.tables[i].place(row - first)

    def _find(self, row: int) -> tuple[int, int]:
        """The table that holds a row, and the number of its first row."""
        i = int(np.searchsorted(self.ends, row, "right"))
        return i, int(self.ends[i]) - self.tables[i].shape[0]
