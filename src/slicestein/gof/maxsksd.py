"""The sliced test, maxSKSD (label "alg: GOF Test"): plan, measure, verdict.

Some of the rows choose coordinates and slices (`plan`), the others are measured (`measure`), and the sums that come of
it, with their bootstrap, are the verdict (`verdict`). Rows go one way and once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import numpy as np

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._directions.starts import INITS, Init
from slicestein.gof import chains, dependence
from slicestein.gof.measure import MOST_BLOCKS, block_ends, in_time, measure
from slicestein.gof.method import Bootstrap, Method, Problem, choose_bootstrap, split
from slicestein.gof.null import Kind, draw_weights
from slicestein.gof.parameters import findings
from slicestein.gof.plan import Plan, exchange, make_plan, plan_given
from slicestein.gof.result import GofResult
from slicestein.gof.verdict import Verdict, judge
from slicestein.kernels import RBF, Kernel
from slicestein.rows.arrays import Chains, as_chains
from slicestein.slices import Slices, unit_rows

LEAST_DRAWS = 8  # of a chain, for R-hat to mean anything
# That add up, for the memory of the bootstrap: most entries look at one direction or at the largest of many. Of 3, 6,
# 10 and all, 3 keeps the level of autoregressions and finds a spread of 0.85 in one of 35 parameters of NUTS draws.
MOST_DIRECTIONS = 3


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
        Other samples, and their scores or a score function, to choose on; then all of x is tested.
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

    def check(self, rows: Chains) -> None:
        _checks.no_flat_score(rows.flat[1])  # units do not matter: samples are whitened

    def test(self, problem: Problem) -> GofResult:
        """Plan, measure, verdict."""
        kind, problem = choose_bootstrap(self.bootstrap, problem)
        plan, train, rows = self._plan(problem)
        exchanged = train if self.train is None and plan.whitening is not None else None
        found = _examine(plan, exchanged, rows, problem, kind)
        return self.result(
            problem,
            found.outcome,
            null=kind,
            num_train=0 if train is None else train.num_samples,
            num_test=rows.num_samples,
            slices=plan.slices,
            per_slice=found.per_slice,
            per_dimension=_shares(plan, found),
            components=found.components,
            **_of_parameters(plan, rows, found, problem),
        )

    def _plan(self, problem: Problem) -> tuple[Plan, Chains | None, Chains]:
        """The plan, the rows it was made on and the rows to test."""
        rows = problem.rows
        if self.slices is not None:
            _checks.slices_fit(self.slices, score_dim=rows.dim, input_dim=rows.dim)
            return plan_given(self.slices, rows, self.kernel), None, rows
        if self.train is None:
            train, rows = split(problem)
        else:
            train = as_chains(*self.train, "train")
            _checks.as_wide_as(rows.x, train=train.x)
        _checks.columns_vary(train.flat[0])
        omnibus = self.omnibus and self.optimize == "rg"
        names = ("optimize", "init", "num_slices", "steps", "standardize", "kernel")
        plan = make_plan(train, problem.rng, omnibus=omnibus, **{name: getattr(self, name) for name in names})
        return plan, train, rows


# Options that say how slices are chosen.
_CHOICES = ("init", "steps", "num_slices", "train", "standardize", "omnibus")


def _default(name: str) -> Any:
    return next(field.default for field in dataclasses.fields(MaxSKSD) if field.name == name)


def _examine(plan: Plan, exchanged: Chains | None, rows: Chains, problem: Problem, kind: Kind) -> Verdict:
    """Measure the rows, and those of the plan with a plan that is made on the others, and judge the sums."""
    num_chains, draws, _ = rows.x.shape
    share = 1.0 if exchanged is None else rows.num_samples / (rows.num_samples + exchanged.num_samples)
    ends, per_chain = block_ends(num_chains, draws, round(share * MOST_BLOCKS))
    sums = measure(plan, *rows.flat, ends)
    if exchanged is not None:
        early, more = block_ends(num_chains, exchanged.x.shape[1], MOST_BLOCKS - len(ends))
        sums = in_time(measure(exchange(plan, rows), *exchanged.flat, early), sums, num_chains)
        per_chain += more
    flip = 0.5
    if kind == "dependent":
        memory = dependence.flip_probability(problem.rows.x, MOST_DIRECTIONS)
        flip = dependence.between_blocks(memory, sums.counts.mean())
    weights = draw_weights(kind, problem.rng, problem.num_bootstrap, (per_chain,) * num_chains, flip)
    return judge(plan, sums, weights, kind, num_chains if kind == "dependent" else 1, problem.rng)


def _of_parameters(plan: Plan, rows: Chains, found: Verdict, problem: Problem) -> dict[str, Any]:
    """What the result says of single parameters and of the chains."""
    more: dict[str, Any] = {"stray_chain": found.stray_chain}
    if rows.ordered and rows.x.shape[1] >= LEAST_DRAWS:
        more |= {"rhat": chains.rhat(rows.x), "ess": chains.ess(rows.x)}
    if found.parameters is not None:
        names = list(problem.names or (f"x[{d}]" for d in range(rows.dim)))
        more["parameters"] = findings(found.parameters, names, plan.spread, problem.alpha)
    return more


def _shares(plan: Plan, found: Verdict) -> np.ndarray:
    """Share of every coordinate in the discrepancy."""
    if found.parameters is not None:
        shares = found.parameters.evidence
    else:
        shares = np.maximum(found.per_slice, 0) @ (unit_rows(plan.lines.r) ** 2 + unit_rows(plan.lines.g) ** 2)
    return shares / max(shares.sum(), np.finfo(float).tiny)
