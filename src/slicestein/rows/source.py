"""Rows of any size, in any place: what a source of rows can do, and how work goes over it.

A source knows its shape (chains, draws, D) before a row is read, and gives rows by their number, chains one after the
other. Work over all rows goes in chunks whose bounds depend on the number of rows and on D only: how a source keeps its
rows changes the cost of an answer, never the answer. What a chunk gives is additive, and is added in pairs, pairs of
pairs, and so on: the same tree on one machine and on many.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

# Values of x in a chunk: 1 MB in double precision. All that is made of a chunk stays near the processor: a million rows
# take twice as long with 2**19, and six times with one chunk.
CHUNK_VALUES = 2**17
# Rows that are wanted and are nearer to each other than so many values are read in one go.
NEAR_VALUES = 2**13

T = TypeVar("T")


class Rows(NamedTuple):
    """Samples and their scores."""

    x: Float[np.ndarray, "n d"]
    s: Float[np.ndarray, "n d"]


class Source(abc.ABC):
    """Samples with scores, in order: row i is draw ``i % draws`` of chain ``i // draws``.

    ``ordered``: whether consecutive draws may depend on each other; independent samples are one chain that is not.
    """

    ordered: bool

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Chains, draws of each, and D."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the D columns, where they have some."""
        return None

    @property
    def score_fn(self) -> Callable[[Any], Any] | None:
        """The function that gives the scores, where there is one."""
        return None

    @property
    def num_samples(self) -> int:
        """N, over all chains."""
        return self.shape[0] * self.shape[1]

    @property
    def dim(self) -> int:
        """D."""
        return self.shape[2]

    @abc.abstractmethod
    def in_order(self) -> Source:
        """The same rows, taken to depend on each other."""

    @abc.abstractmethod
    def read(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop``."""

    @abc.abstractmethod
    def samples(self, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        """Samples at these rows, whose numbers increase."""

    def gather(self, rows: Int[np.ndarray, " n"]) -> Rows:
        """Samples and scores at these rows, whose numbers increase."""
        parts = [Rows(*(z[run - run[0]] for z in self.read(int(run[0]), int(run[-1]) + 1))) for run in self.runs(rows)]
        return Rows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def runs(self, rows: Int[np.ndarray, " n"]) -> Iterator[Int[np.ndarray, " k"]]:
        """Rows that are near to each other, to be read in one go of a chunk at most."""
        chunk, near = chunk_rows(self.dim), max(1, NEAR_VALUES // self.dim)
        for run in np.split(rows, np.flatnonzero(np.diff(rows) > near) + 1):
            while len(run):
                end = int(np.searchsorted(run, run[0] + chunk))
                yield run[:end]
                run = run[end:]

    def fold(self, visit: Callable[[int, Any, Any], Any]) -> Any:
        """The sum of ``visit(start, x, s)`` over all chunks."""
        return in_pairs(visit(start, *self.read(start, stop)) for start, stop in chunks(self.num_samples, self.dim))


def chunk_rows(dim: int) -> int:
    """Rows of a chunk."""
    return max(1, CHUNK_VALUES // dim)


def chunks(num_rows: int, dim: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Bounds of the chunks of so many rows."""
    step = chunk_rows(dim)
    for start in range(first, num_rows, step):
        yield start, min(start + step, num_rows)


def in_pairs(terms: Iterable[T]) -> T:
    """The sum of at least one term, added pairwise: the sums that are held are few, and each is added to few others."""
    held: list[tuple[int, Any]] = []  # levels of the tree fall from left to right
    for term in terms:
        level, so_far = 0, term
        while held and held[-1][0] == level:
            so_far, level = held.pop()[1] + so_far, level + 1
        held.append((level, so_far))
    total = held.pop()[1]
    while held:
        total = held.pop()[1] + total
    return total


def evenly(count: int, most: int) -> Int[np.ndarray, " n"]:
    """Numbers below ``count``: all, or ``most`` of them from the first to the last."""
    if count <= most:
        return np.arange(count)
    return np.arange(most) * (count - 1) // max(most - 1, 1)
