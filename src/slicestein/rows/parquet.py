"""Parquet files, read a batch at a time: one column per parameter."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.rows.formats import parquet_columns, parsed
from slicestein.rows.tables import Table

BATCH_VALUES = 2**20


class ParquetTable(Table):
    """Rows of a Parquet file. Rows that follow each other are decoded once; going back starts at their row group."""

    def __init__(self, path: Path):
        self.path = path
        file = self._open()
        schema, metadata = file.schema_arrow, file.metadata
        self.names = parquet_columns(path, schema)
        self.shape = (metadata.num_rows, len(self.names))
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self.groups = np.concatenate([[0], np.cumsum(sizes)])
        self._lock = threading.Lock()  # tasks of Dask may share a table, which remembers where it was
        self._restart()

    def _restart(self) -> None:
        self._batches: Iterator[np.ndarray] = iter(())
        self._first, self._held = 0, np.empty((0, self.shape[1]))

    def __reduce__(self) -> Any:
        return ParquetTable, (self.path,)  # an open file is no message

    def _open(self) -> Any:
        try:
            from pyarrow import parquet
        except ImportError:
            raise InputError(f"{self.path}: reading .parquet needs pyarrow: pip install pyarrow") from None
        return parsed(self.path, "a Parquet file", parquet.ParquetFile, self.path, pre_buffer=False)

    def _from_group(self, group: int) -> Iterator[np.ndarray]:
        """Batches from a row group on."""
        file = self._open()
        rows = max(1, BATCH_VALUES // self.shape[1])
        groups = range(group, len(self.groups) - 1)
        for batch in file.iter_batches(rows, row_groups=groups, columns=list(self.names or ()), use_threads=False):
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            yield np.stack(columns, axis=1).astype(np.result_type(np.float32, *columns), copy=False)

    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        with self._lock:
            return self._read(start, stop)

    def _read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        group = int(np.searchsorted(self.groups, start, "right")) - 1
        if start < self._first or self.groups[group] > self._first + len(self._held):
            self._restart()
            self._first, self._batches = int(self.groups[group]), self._from_group(group)
        elif not len(self._held):
            self._batches = self._from_group(0)
        parts = []
        while start < stop:
            if start >= self._first + len(self._held):
                self._first += len(self._held)
                self._held = parsed(self.path, f"whole: row {self._first} cannot be read", next, self._batches)
                continue
            parts.append(self._held[start - self._first : stop - self._first])
            start += len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def place(self, row: int) -> str:
        return f"{self.path}: row {row}"
