"""Rows that stay where they are: samples in a table, scores in another one or from a function, read in chunks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from slicestein._checks import InputError
from slicestein._loop import ProgressBar
from slicestein.rows.arrays import score_at
from slicestein.rows.source import Rows, Source, chunk_rows, chunks, in_pairs
from slicestein.rows.tables import ArrayTable, Columns, Table


@dataclasses.dataclass(frozen=True, eq=False)
class StreamedRows(Source):
    """A source of rows that is read in chunks, and checked as it is read.

    A score function is called with chunks of one size, so that a compiled one is compiled once; a last chunk that is
    shorter is filled up with its last row.
    """

    table: Table
    score: Table | Callable[[Any], Any] | None = None
    chains: int | None = None
    columns: tuple[int, ...] | None = None  # of the scores, in the order of the samples
    progress: bool = False
    dtype: Any = None  # that numbers are turned into
    ordered: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Chains, draws of each, and D."""
        chains = self.chains or 1
        return chains, self.table.shape[0] // chains, self.table.shape[1]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, where the table has some."""
        return self.table.names

    @property
    def score_fn(self) -> Callable[[Any], Any] | None:
        """The function that gives the scores, where there is one."""
        return self.score if callable(self.score) else None

    def in_order(self) -> StreamedRows:
        return dataclasses.replace(self, ordered=True)

    def with_score(self, score: Any) -> StreamedRows:
        """The same rows with these scores: a function, a table, or an array."""
        if not callable(score) and not isinstance(score, Table):
            score = ArrayTable(np.asarray(score), "score")
        columns = None
        if isinstance(score, Table):
            if score.shape != self.table.shape or len({score.chains, self.table.chains} - {None}) > 1:
                raise InputError(
                    f"{score.place(0)} is of scores of shape {score.shape}, but the samples have {self.table.shape}, "
                    f"in {score.chains or 1} and {self.table.chains or 1} chains"
                )
            columns = _same_columns(score, self.names)
        return dataclasses.replace(self, score=score, columns=columns)

    def by_name(self, names: Sequence[str] | None) -> StreamedRows:
        """The same rows with their columns in the order of ``names``; without names, here or there, as they are."""
        places = _same_columns(self.table, names)
        if places is None:
            return self
        columns = self.columns
        if isinstance(self.score, Table):
            columns = places if columns is None else tuple(columns[i] for i in places)
        return dataclasses.replace(self, table=Columns(self.table, places), columns=columns)

    def read(self, start: int, stop: int) -> Rows:
        x = self._checked(self.table, start, stop)
        if isinstance(self.score, Table):
            s = self._checked(self.score, start, stop)
            s = s if self.columns is None else s[:, self.columns]
            if start == 0 and np.array_equal(x, s) and x.any():
                raise InputError(f"{self.score.place(0)}: holds the samples themselves: give the file of their scores")
            return alike(x, s)
        return alike(x, self._scores_at(x, lambda row: self.table.place(start + row)))

    def samples(self, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        parts = [self._checked(self.table, int(run[0]), int(run[-1]) + 1)[run - run[0]] for run in self.runs(rows)]
        return np.concatenate(parts)

    def gather(self, rows: Int[np.ndarray, " n"]) -> Rows:
        if isinstance(self.score, Table):
            return super().gather(rows)
        x = self.samples(rows)
        return alike(x, self._scores_at(x, lambda row: self.table.place(int(rows[row]))))

    def fold(self, visit: Callable[[int, Any, Any], Any]) -> Any:
        with ProgressBar("rows", self.num_samples, wanted=self.progress) as advance:

            def visited(start: int, stop: int) -> Any:
                found = visit(start, *self.read(start, stop))
                advance(stop - start)
                return found

            return in_pairs(visited(*bounds) for bounds in chunks(self.num_samples, self.dim))

    def _checked(self, table: Table, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        values = table.read(start, stop)
        values = values if self.dtype is None else values.astype(self.dtype, copy=False)
        require_finite(values, lambda row: table.place(start + row), "drop those rows or mend the run")
        return values

    def _scores_at(self, x: Float[np.ndarray, "n d"], place: Callable[[int], str]) -> Float[np.ndarray, "n d"]:
        if self.score is None:
            raise InputError("score is missing: pass a function, or open the samples with score=")
        step = chunk_rows(self.dim)
        parts = []
        for start in range(0, len(x), step):
            some = x[start : start + step]
            full = some
            if len(some) < step < self.num_samples:
                full = np.concatenate([some, np.broadcast_to(some[-1], (step - len(some), self.dim))])
            parts.append(score_at(self.score, full)[: len(some)])
        scores = np.concatenate(parts) if len(parts) > 1 else parts[0]
        require_finite(scores, lambda row: f"score at {place(row)}", "drop those samples or mend the model")
        return scores


def require_finite(values: np.ndarray, place: Callable[[int], str], remedy: str) -> None:
    """Require finite values, and say where the first bad one is."""
    good = np.isfinite(values)
    if not good.all():
        row, column = (int(i) for i in np.argwhere(~good)[0])
        raise InputError(f"{place(row)}, column {column}: is NaN or infinite: {remedy}")


def alike(x: np.ndarray, s: np.ndarray) -> Rows:
    """Samples and scores of one type."""
    dtype = np.promote_types(x.dtype, s.dtype)
    return Rows(x.astype(dtype, copy=False), s.astype(dtype, copy=False))


def _same_columns(table: Table, names: Sequence[str] | None) -> tuple[int, ...] | None:
    """Places of the columns of a table in the order of the samples' names, where both have names."""
    if names is None or table.names is None:
        return None
    places = {name: i for i, name in enumerate(table.names)}
    if lacking := [name for name in names if name not in places]:
        raise InputError(
            f"{table.place(0)} has no column {lacking[0]!r}, which the samples have: name the columns alike"
        )
    if more := [name for name in table.names if name not in set(names)]:
        raise InputError(
            f"{table.place(0)} has a column {more[0]!r}, which the samples have not: name the columns alike"
        )
    return tuple(places[name] for name in names)
