"""What every test has in common: the problem it is given, the split of the rows, and the shape of a method."""

from __future__ import annotations

import abc
import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from slicestein import _checks
from slicestein._checks import InputError
from slicestein.gof import dependence
from slicestein.gof.null import KINDS, Kind, Outcome
from slicestein.gof.result import GofResult
from slicestein.rows.arrays import Chains
from slicestein.rows.source import Source, evenly

Bootstrap = Literal["auto", "wild", "multinomial", "dependent", "eigenvalues"]
LEAST_ROWS = 5  # to plan on, and to test
# Autocorrelation times, mean and largest, from which on independent samples do not look independent; the mean of few
# samples is noisy, by some multiple of 1 / sqrt(N).
SLOW_MEAN, SLOW_LARGEST, NOISE = 2.0, 10.0, 10.0
# What is looked at of long or many chains to learn how long they remember, in values of x: 64 MB.
STRETCH_VALUES, SHORTEST_STRETCH, FEWEST_CHAINS = 2**23, 2**10, 16
# Rows that a test may take into memory, in values of x: 512 MB.
MEMORY_VALUES = 2**26
MOST_PAIRED = 2**15  # samples of which a test holds all pairs: 4 GB in single precision


class Problem(NamedTuple):
    """Rows to test, and how: the checked arguments of `gof_test`."""

    rows: Source
    score_fn: Callable[[Any], Any] | None  # None: the scores are known at the rows only
    rng: np.random.Generator
    alpha: float
    num_bootstrap: int
    train_fraction: float
    names: tuple[str, ...] | None
    notes: list[str]  # grows: what was noticed on the way, for the result


class CorrelatedDraws(UserWarning):
    """Samples that are taken to be independent look like a Markov chain; also among the notes of the result."""


@dataclasses.dataclass(frozen=True)
class Method(abc.ABC):
    """A test with its options. Methods are immutable: ``dataclasses.replace`` gives one with other options."""

    label: ClassVar[str] = ""
    needs_score: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Name in results, also a shortcut for `gof_test`."""
        return self.label

    @abc.abstractmethod
    def test(self, problem: Problem) -> GofResult:
        """Test checked rows."""

    def result(
        self, problem: Problem, outcome: Outcome, *, null: str, num_train: int, num_test: int, **more: Any
    ) -> GofResult:
        """The result of this method."""
        return GofResult(
            **outcome._asdict(),
            alpha=problem.alpha,
            method=self.name,
            num_train=num_train,
            num_test=num_test,
            names=problem.names,
            bootstrap=null,
            notes=tuple(problem.notes),
            **more,
        )


def split(rows: Chains, problem: Problem) -> tuple[Chains, Chains]:
    """Independent rows in memory to choose on, at random, and rows to test."""
    count = rows.num_samples
    cut = cut_at(count, problem)
    order = problem.rng.permutation(count)
    train, tested = (Chains(rows.x[:, some], rows.s[:, some], False) for some in (order[:cut], order[cut:]))
    return train, tested


def cut_at(draws: int, problem: Problem) -> int:
    """How many of the draws of a chain are to choose on."""
    cut, chains = round(problem.train_fraction * draws), problem.rows.shape[0]
    if min(cut, draws - cut) * chains < LEAST_ROWS:
        hint = "; samples are rows: of an array (D, N) pass x.T" if draws * chains < problem.rows.dim else ""
        raise InputError(
            f"x holds too few samples to split: {draws * chains} with train_fraction = {problem.train_fraction}{hint}"
        )
    return cut


def choose_bootstrap(bootstrap: Bootstrap, problem: Problem) -> tuple[Kind, Problem]:
    """The kind of bootstrap, and the problem with rows that are ordered in time if the kind is ``"dependent"``."""
    _checks.one_of("bootstrap", bootstrap, ("auto", *KINDS))
    kind: Any = ("dependent" if problem.rows.ordered else "wild") if bootstrap == "auto" else bootstrap
    if kind == "dependent":
        return kind, problem._replace(rows=problem.rows.in_order())
    warn_of_dependence(problem.rows, problem.notes)
    return kind, problem


def independent(problem: Problem, name: str, *, scored: bool = True) -> Chains:
    """The rows, in memory, of a test that has a null for independent samples only."""
    if problem.rows.ordered:
        raise InputError(
            f"{name} has no null for dependent samples: use a maxsksd method, ksd, or thinned draws (N, D)"
        )
    warn_of_dependence(problem.rows, problem.notes)
    return in_memory(problem, name, scored=scored)


def in_memory(problem: Problem, name: str, *, scored: bool = True) -> Chains:
    """All rows at once, for a test that needs them so; ``scored`` if it looks at their scores."""
    rows = problem.rows
    loaded = rows if isinstance(rows, Chains) else _load(rows, name)
    x, s = loaded.flat
    _checks.in_range(x=x)
    if scored:
        _checks.no_flat_score(s)
        _checks.in_range(score=s)
    return loaded


def pairs_fit(rows: Source, name: str) -> None:
    """Require that a matrix of all pairs of samples can be held."""
    if rows.num_samples > MOST_PAIRED:
        raise InputError(
            f"{name} holds a matrix of all pairs of samples, and x has {rows.num_samples}, more than {MOST_PAIRED}: "
            "thin them, or use a maxsksd method, whose cost is linear"
        )


def _load(rows: Source, name: str) -> Chains:
    if rows.num_samples * rows.dim > MEMORY_VALUES:
        raise InputError(
            f"{name} needs all rows in memory, and x has {rows.num_samples} x {rows.dim}: thin them, or use a maxsksd "
            "method, which goes over rows in chunks"
        )
    x, s = (z.reshape(rows.shape) for z in rows.read(0, rows.num_samples))
    return Chains(x, s, rows.ordered)


def stretch(rows: Source) -> Float[np.ndarray, "chains draws d"]:
    """The beginning of every chain, some 2**14 draws: memory is seen there.

    Fewer draws, and of many chains only some, where these would be more than 2**23 values.
    """
    chains, draws, dim = rows.shape
    length = min(draws, max(SHORTEST_STRETCH, min(dependence.LONGEST_STRETCH, STRETCH_VALUES // (chains * dim))))
    return _of_chains(rows, np.arange(length))


def spread_out(rows: Source, first: int) -> Float[np.ndarray, "chains draws d"]:
    """As many draws of every chain, evenly spread from the draw ``first`` to the end."""
    chains, draws, dim = rows.shape
    most = max(SHORTEST_STRETCH, min(dependence.LONGEST_STRETCH, STRETCH_VALUES // (chains * dim)))
    return _of_chains(rows, first + evenly(draws - first, most))


def _of_chains(rows: Source, draws: Int[np.ndarray, " n"]) -> Float[np.ndarray, "chains n d"]:
    which = evenly(rows.shape[0], max(FEWEST_CHAINS, STRETCH_VALUES // (len(draws) * rows.dim)))
    numbers = (which[:, None] * rows.shape[1] + draws).ravel()
    return rows.samples(numbers).reshape(len(which), len(draws), rows.dim)


def warn_of_dependence(rows: Source, notes: list[str]) -> None:
    """Warn where samples that are taken to be independent look like a Markov chain: the first 2**14 are looked at."""
    some = stretch(rows)
    times = dependence.times_with_squares(some)
    if times.mean() > SLOW_MEAN + NOISE / math.sqrt(some.shape[1]) or times.max() > SLOW_LARGEST:
        note = (
            f"the samples look serially correlated (autocorrelation time up to {times.max():.0f}): the test will "
            "reject too often. Pass Markov chains as an array (chains, draws, D), or thin them"
        )
        notes.append(note)
        warnings.warn(note, CorrelatedDraws, stacklevel=6)
