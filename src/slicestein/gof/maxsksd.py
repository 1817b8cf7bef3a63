"""The sliced test, maxSKSD (label "alg: GOF Test"): plan, measure, verdict.

Some of the rows choose coordinates and slices (`plan`), then all are read once and measured (`survey`), and the sums
that come of it, with their bootstrap, are the verdict (`verdict`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._directions.starts import INITS, Init
from slicestein.gof import dependence
from slicestein.gof.chains import long_ess, rhat
from slicestein.gof.measure import Sums
from slicestein.gof.method import Bootstrap, Method, Problem, choose_bootstrap, spread_out, stretch
from slicestein.gof.null import Kind, draw_weights
from slicestein.gof.parameters import findings
from slicestein.gof.plan import EXCHANGE_VALUES, Plan, exchange, make_plan, plan_given
from slicestein.gof.result import GofResult, Parameter
from slicestein.gof.survey import Layout, gather, lay_out, plan_rows, survey
from slicestein.gof.verdict import Verdict, judge
from slicestein.kernels import RBF, Kernel
from slicestein.rows.arrays import Chains, as_chains
from slicestein.slices import Slices, unit_rows

LEAST_DRAWS = 8  # of a chain, for R-hat to mean anything


class Seen(NamedTuple):
    """Draws of chains that are looked at to learn how they mix: consecutive ones, and others spread over all."""

    begin: Float[np.ndarray, "chains m d"]
    spread: Float[np.ndarray, "chains n d"]

    def agreement(self, num_samples: int) -> dict[str, np.ndarray]:
        """R-hat and effective sample size of so many draws."""
        if self.spread.shape[1] < LEAST_DRAWS:
            return {}
        return {"rhat": rhat(self.spread), "ess": long_ess(self.begin, self.spread, num_samples)}


@dataclasses.dataclass(frozen=True)
class MaxSKSD(Method):
    """Test along slices that are chosen on a part of the samples.

    Parameters
    ----------
    optimize
        ``"rg"``: both directions are chosen (maxSKSD-rg); ``"g"``: r stays a basis (maxSKSD-g).
    kernel
        Kernel on each slice. Bandwidths by the median rule are those of the samples that choose the slices, and of all
        samples where slices are given.
    bootstrap
        ``"wild"`` (signs) or ``"multinomial"`` for independent samples, ``"dependent"`` for chains, ``"eigenvalues"``
        for the law of the asymptotic null; ``"auto"`` is dependent for chains and wild otherwise. For ``"dependent"``
        samples (N, D) are one chain, in order.
    slices
        Test along these (in the coordinates of x, nothing is fitted) instead of choosing slices.
    init, steps, num_slices
        As in `fit_slices`; slices as ``init`` are in the coordinates of x.
    standardize
        Whiten on the training part, so that the units and the correlations of the parameters do not matter.
    omnibus
        For ``optimize="rg"``: besides the fitted slices look at everything in the table of `slicestein.gof.plan`. The
        statistic is then the harmonic mean of the p-values of all entries, as standard deviations of a normal law.
    train
        Other samples, and their scores or a score function, to choose on; then all of x is tested, and the slices that
        were fitted on them get three quarters of the level.
    """

    optimize: Literal["g", "rg"] = "rg"
    kernel: Kernel = RBF()
    bootstrap: Bootstrap = "auto"
    slices: Slices | None = None
    init: Init | Slices = "best"
    steps: int = 0
    num_slices: int | None = None
    standardize: bool = True
    omnibus: bool = True
    train: tuple[Any, Any] | None = None
    label: ClassVar[str] = "maxsksd"

    def __post_init__(self) -> None:
        _checks.one_of("optimize", self.optimize, ("g", "rg"))
        if not isinstance(self.init, Slices):
            _checks.one_of("init", self.init, INITS)
        _checks.kernel(self.kernel, 1 if self.slices is None else self.slices.num)
        unused = [name for name in _CHOICES if getattr(self, name) != _default(name)] if self.slices is not None else []
        if unused:
            raise InputError(f"slices are given: leave {' and '.join(unused)} out, nothing is chosen")
        if self.optimize == "g" and not self.omnibus:
            raise InputError('omnibus is for optimize="rg": leave it out')

    @property
    def name(self) -> str:
        """``"maxsksd-g"`` or ``"maxsksd-rg"``."""
        return f"{self.label}-{self.optimize}"

    def test(self, problem: Problem) -> GofResult:
        """Plan, measure, verdict."""
        kind, problem = choose_bootstrap(self.bootstrap, problem)
        layout, plan, exchanged, num_train = self._plan(problem)
        sums = survey(problem.rows, layout, plan, exchanged)
        first = layout.cut if exchanged is None else 0
        seen = Seen(stretch(problem.rows), spread_out(problem.rows, first)) if problem.rows.ordered else None
        num_test = layout.chains * (layout.draws - first)
        return self.conclude(
            problem, plan, sums, kind, chains=layout.chains, seen=seen, num_train=num_train, num_test=num_test
        )

    def conclude(
        self,
        problem: Problem,
        plan: Plan,
        sums: Sums,
        kind: Kind,
        *,
        chains: int,
        seen: Seen | None,
        num_train: int,
        num_test: int,
    ) -> GofResult:
        """The result from sums over blocks, as many of every chain."""
        flip = 0.5
        if kind == "dependent":
            assert seen is not None
            memory = dependence.flip_probability(seen.begin, int(sums.counts.sum()))
            flip = dependence.between_blocks(memory, sums.counts.mean())
        lengths = (len(sums.counts) // chains,) * chains
        weights = draw_weights(kind, problem.rng, problem.num_bootstrap, lengths, flip)
        # Chains of which each is one block are independent sums, and have no memory that could be seen.
        in_time = kind == "dependent" and len(sums.counts) > chains
        found = judge(plan, sums, weights, kind, chains if in_time else None, problem.rng)
        return self.result(
            problem,
            found.outcome,
            null=kind,
            num_train=num_train,
            num_test=num_test,
            slices=plan.slices,
            per_slice=found.per_slice,
            per_dimension=_shares(plan, found),
            components=found.components,
            stray_chain=found.stray_chain,
            parameters=_parameters(plan, found, problem),
            **({} if seen is None else seen.agreement(num_test)),
        )

    def _plan(self, problem: Problem) -> tuple[Layout, Plan, Plan | None, int]:
        """Which rows are tested, the plan, the plan for the rows that it was made on, and how many these are."""
        rows = problem.rows
        every = Layout(*rows.shape[:2])
        if self.slices is not None:
            _checks.slices_fit(self.slices, score_dim=rows.dim, input_dim=rows.dim)
            _, some = gather(rows, every, plan_rows(rows.dim))
            _checks.no_flat_score(some.flat[1])
            return every, plan_given(self.slices, some, self.kernel), None, 0
        omnibus = self.omnibus and self.optimize == "rg"
        if self.train is None:
            layout = lay_out(problem)
            train, others = gather(rows, layout, EXCHANGE_VALUES // rows.dim if omnibus else 0)
        else:
            layout, train, others = every, as_chains(*self.train, "train"), None
            _checks.as_wide_as(np.empty((0, rows.dim)), train=train.x)
        plan = self.plan_on(train, problem.rng, brought=self.train is not None)
        exchanged = exchange(plan, others) if omnibus and others is not None else None
        return layout, plan, exchanged, train.num_samples

    def plan_on(self, train: Chains, rng: np.random.Generator, *, brought: bool = False) -> Plan:
        """The plan from the rows that are set apart, or were brought, for it."""
        _checks.columns_vary(train.flat[0])
        _checks.no_flat_score(train.flat[1])
        names = ("optimize", "init", "num_slices", "steps", "standardize", "kernel")
        omnibus = self.omnibus and self.optimize == "rg"
        plan = make_plan(train, rng, omnibus=omnibus, **{name: getattr(self, name) for name in names})
        return dataclasses.replace(plan, brought=brought)


# Options that say how slices are chosen.
_CHOICES = ("init", "steps", "num_slices", "train", "standardize", "omnibus")


def _default(name: str) -> Any:
    return next(field.default for field in dataclasses.fields(MaxSKSD) if field.name == name)


def _parameters(plan: Plan, found: Verdict, problem: Problem) -> tuple[Parameter, ...] | None:
    if found.parameters is None:
        return None
    names = list(problem.names or (f"x[{d}]" for d in range(len(plan.scale))))
    level = problem.alpha if found.outcome.pvalue <= problem.alpha else 0.0  # nothing is named in what fits
    return findings(found.parameters, names, plan.spread, level)


def _shares(plan: Plan, found: Verdict) -> np.ndarray:
    """Share of every coordinate in the discrepancy."""
    if found.parameters is not None:
        shares = found.parameters.evidence
    else:
        shares = np.maximum(found.per_slice, 0) @ (unit_rows(plan.lines.r) ** 2 + unit_rows(plan.lines.g) ** 2)
    return shares / max(shares.sum(), np.finfo(float).tiny)
