"""The way of a test over its rows: which choose, which are measured, and one pass over all of them.

A few rows are gathered to make the plan; then every row is read once, in chunks, and measured. Memory is that of some
chunks and of the sums, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from slicestein.gof.measure import MOST_BLOCKS, Span, Sums, block_ends, in_time, measure
from slicestein.gof.method import Problem, cut_at
from slicestein.gof.plan import Plan
from slicestein.rows.arrays import Chains
from slicestein.rows.source import Source, evenly

# Rows that a plan is made on, at most: more make it dearer and hardly better.
PLAN_ROWS, PLAN_VALUES = 2**16, 2**24


class Layout(NamedTuple):
    """Which rows are early, those that choose, and which are late.

    Early are the first ``cut`` draws of every chain; of independent samples, a random part: ``scattered`` rows.
    """

    chains: int
    draws: int
    cut: int = 0
    scattered: Int[np.ndarray, " n"] | None = None

    @property
    def early(self) -> tuple[int, int]:
        """Chains, and early draws of each."""
        return self.chains, self.cut

    @property
    def late(self) -> tuple[int, int]:
        """Chains, and late draws of each."""
        return self.chains, self.draws - self.cut

    def early_before(self, row: int) -> int:
        """How many of the rows before this one are early."""
        if self.scattered is not None:
            return int(np.searchsorted(self.scattered, row))
        chain, draw = divmod(row, self.draws)
        return chain * self.cut + min(draw, self.cut)

    def are_early(self, start: int, stop: int) -> Bool[np.ndarray, " n"]:
        """Whether rows ``start:stop`` are."""
        if self.scattered is None:
            return np.arange(start, stop) % self.draws < self.cut
        found = np.zeros(stop - start, bool)
        found[self.scattered[self.early_before(start) : self.early_before(stop)] - start] = True
        return found

    def early_rows(self, draws: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """Rows of these of the early draws, of every chain."""
        return self._rows(draws) if self.scattered is None else self.scattered[draws]

    def late_rows(self, draws: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """Rows of these of the late draws, of every chain."""
        if self.scattered is None:
            return self._rows(self.cut + draws)
        return draws + np.searchsorted(self.scattered - np.arange(self.cut), draws, side="right")

    def _rows(self, draws: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        return (np.arange(self.chains)[:, None] * self.draws + draws).ravel()


class Measured(NamedTuple):
    """Sums over late rows, and over early ones."""

    late: Span | None
    early: Span | None

    def __add__(self, other):  # type: ignore[no-untyped-def]
        """Sums over the rows of both."""
        pairs = zip(self, other, strict=True)
        return Measured(*((one or two) if one is None or two is None else one + two for one, two in pairs))


@dataclass(frozen=True)
class Survey:
    """What is measured where. Small, of plain arrays: it is sent to where the rows are."""

    layout: Layout
    plan: Plan
    exchanged: Plan | None  # for the early rows, made on late ones; None: early rows are not measured
    ends: Int[np.ndarray, " b"]
    early_ends: Int[np.ndarray, " c"]

    def __call__(self, start: int, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Measured:
        """Sums over rows that begin at ``start``."""
        stop = start + len(x)
        before, then = self.layout.early_before(start), self.layout.early_before(stop)
        sums_of = partial(partial, measure, apart=self.apart)
        if before == then:
            return Measured(span(sums_of(self.plan), x, s, self.ends, start - before), None)
        early = self.layout.are_early(start, stop)
        late = span(sums_of(self.plan), x[~early], s[~early], self.ends, start - before)
        if self.exchanged is None:
            return Measured(late, None)
        return Measured(late, span(sums_of(self.exchanged), x[early], s[early], self.early_ends, before))

    @property
    def apart(self) -> bool:
        """Whether every block is one row."""
        late, early = (part[0] * part[1] for part in (self.layout.late, self.layout.early))
        return len(self.ends) == late and (self.exchanged is None or len(self.early_ends) == early)


def span(
    sums_of: Callable[[np.ndarray, np.ndarray, np.ndarray], Sums],
    x: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
    ends: Int[np.ndarray, " b"],
    first: int,
) -> Span | None:
    """Sums over rows of which the first is number ``first`` among those whose blocks end at ``ends``."""
    if not len(x):
        return None
    stop = first + len(x)
    blocks = slice(int(np.searchsorted(ends, first, "right")), int(np.searchsorted(ends, stop)) + 1)
    return Span(blocks.start, sums_of(x, s, np.minimum(ends[blocks], stop) - first))


def lay_out(problem: Problem) -> Layout:
    """Split the rows: at random, or after the first part of every chain."""
    chains, draws, dim = problem.rows.shape
    cut = cut_at(draws, problem)
    if problem.rows.ordered:
        return Layout(chains, draws, cut)
    cut = min(cut, plan_rows(dim))
    return Layout(chains, draws, cut, np.sort(problem.rng.choice(draws, cut, replace=False, shuffle=False)))


def plan_rows(dim: int) -> int:
    """Most rows of a plan."""
    return min(PLAN_ROWS, max(PLAN_VALUES // dim, 1))


def gather(rows: Source, layout: Layout, num_late: int) -> tuple[Chains, Chains]:
    """Early rows to plan on, and about so many late ones; both spread over all there are."""
    train = layout.early_rows(evenly(layout.cut, max(1, plan_rows(rows.dim) // layout.chains)))
    others = layout.late_rows(evenly(layout.late[1], -(-num_late // layout.chains)))
    wanted = np.union1d(train, others)
    found = rows.gather(wanted)

    def part(numbers: Int[np.ndarray, " n"]) -> Chains:
        places = np.searchsorted(wanted, numbers)
        x, s = (z[places].reshape(layout.chains, -1, rows.dim) for z in found)
        return Chains(x, s, rows.ordered)

    return part(train), part(others)


def survey(rows: Source, layout: Layout, plan: Plan, exchanged: Plan | None) -> Sums:
    """Sums over blocks, as many of every chain, chain by chain in order of time."""
    late, early = (part[0] * part[1] for part in (layout.late, layout.early))
    share = 1.0 if exchanged is None else late / (late + early)
    ends = block_ends(*layout.late, round(share * MOST_BLOCKS))
    early_ends = block_ends(*layout.early, MOST_BLOCKS - len(ends)) if exchanged else ends[:0]
    found: Measured = rows.fold(Survey(layout, plan, exchanged, ends, early_ends))
    assert found.late is not None
    if found.early is None:
        return found.late.sums
    return in_time(found.early.sums, found.late.sums, layout.chains)
