"""What every test has in common: the problem it is given, the split of the rows, and the shape of a method."""

from __future__ import annotations

import abc
import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from slicestein import _checks
from slicestein._checks import InputError
from slicestein.gof import dependence
from slicestein.gof.null import KINDS, Kind, Outcome
from slicestein.gof.result import GofResult
from slicestein.rows.arrays import Chains

Bootstrap = Literal["auto", "wild", "multinomial", "dependent", "eigenvalues"]
LEAST_ROWS = 5  # to plan on, and to test
# Autocorrelation times, mean and largest, from which on independent samples do not look independent; the mean of few
# samples is noisy, by some multiple of 1 / sqrt(N).
SLOW_MEAN, SLOW_LARGEST, NOISE = 2.0, 10.0, 10.0


class Problem(NamedTuple):
    """Rows to test, and how: the checked arguments of `gof_test`."""

    rows: Chains
    score_fn: Callable[[Any], Any] | None  # None: the scores are known at the rows only
    rng: np.random.Generator
    alpha: float
    num_bootstrap: int
    train_fraction: float
    names: tuple[str, ...] | None


@dataclasses.dataclass(frozen=True)
class Method(abc.ABC):
    """A test with its options. Methods are immutable: ``dataclasses.replace`` gives one with other options."""

    label: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """Name in results, also a shortcut for `gof_test`."""
        return self.label

    def check(self, rows: Chains) -> None:
        """Refuse rows that the method cannot test."""
        x, s = rows.flat
        _checks.no_flat_score(s)
        _checks.in_range(x=x, score=s)

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
            **more,
        )


def split(problem: Problem) -> tuple[Chains, Chains]:
    """Rows to plan on and rows to test: at random, or the first part of every chain."""
    rows, fraction = problem.rows, problem.train_fraction
    chains, draws, _ = rows.x.shape
    if not rows.ordered:
        order = problem.rng.permutation(draws)
        rows = rows._replace(x=rows.x[:, order], s=rows.s[:, order])
    cut = round(fraction * draws)
    if min(cut, draws - cut) * chains < LEAST_ROWS:
        raise InputError(f"x holds too few samples to split: {rows.num_samples} with train_fraction = {fraction}")
    return rows.part(slice(cut)), rows.part(slice(cut, None))


def choose_bootstrap(bootstrap: Bootstrap, problem: Problem) -> tuple[Kind, Problem]:
    """The kind of bootstrap, and the problem with rows that are ordered in time if the kind is ``"dependent"``."""
    _checks.one_of("bootstrap", bootstrap, ("auto", *KINDS))
    kind: Any = ("dependent" if problem.rows.ordered else "wild") if bootstrap == "auto" else bootstrap
    if kind == "dependent":
        return kind, problem._replace(rows=problem.rows._replace(ordered=True))
    warn_of_dependence(problem.rows)
    return kind, problem


def independent(problem: Problem, name: str) -> Chains:
    """The rows of a test that has a null for independent samples only."""
    if problem.rows.ordered:
        raise InputError(
            f"{name} has no null for dependent samples: use a maxsksd method, ksd, or thinned draws (N, D)"
        )
    warn_of_dependence(problem.rows)
    return problem.rows


def warn_of_dependence(rows: Chains) -> None:
    """Warn where samples that are taken to be independent look like a Markov chain."""
    times = dependence.times_with_squares(rows.x)
    if times.mean() > SLOW_MEAN + NOISE / math.sqrt(rows.x.shape[1]) or times.max() > SLOW_LARGEST:
        warnings.warn(
            f"the samples look serially correlated (autocorrelation time up to {times.max():.0f}): the test will "
            "reject too often. Pass Markov chains as an array (chains, draws, D), or thin them",
            stacklevel=6,
        )
