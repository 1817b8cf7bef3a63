"""Watch a run: draws are measured as they come, and a verdict on all so far can be had at any time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein.gof.dependence import LONGEST_STRETCH
from slicestein.gof.maxsksd import MaxSKSD, Seen
from slicestein.gof.measure import MOST_BLOCKS, Span, joined, measure, paired
from slicestein.gof.method import SHORTEST_STRETCH, STRETCH_VALUES, Problem
from slicestein.gof.plan import Plan
from slicestein.gof.result import GofResult
from slicestein.rows.arrays import Chains, as_chains
from slicestein.rows.source import chunk_rows

FEWEST_PLAN_DRAWS = 20
FEWEST_DRAWS = 50  # to judge: a look at fewer would be wasted
# Draws from the null for every one that would be as large as the statistic at the level of a look.
DRAWS_PER_LEVEL = 2


class Monitor:
    r"""A goodness-of-fit test of a run that is not finished.

    The first draws choose what is looked at and are not tested. Later ones are measured when they come, and forgotten:
    memory does not grow, because blocks of draws are joined in pairs when there are too many.

    Looking often makes a right model look wrong once: of twenty looks at level 0.05 one would reject by chance. So
    the k-th look is made at the level

    $$ \alpha_k = \frac{\alpha}{k (k + 1)}, \qquad \sum_{k = 1}^\infty \alpha_k = \alpha, $$

    and all looks together, however many and whenever they are made, reject a right model with probability $\alpha$ at
    most. Every look makes the next one dearer: looking when the number of draws has doubled is a good habit.

    Parameters
    ----------
    score
        Function (n, D) -> (n, D); None if `update` is given the scores.
    key
        Int seed or JAX key.
    alpha
        Probability of rejecting a right model at any look.
    num_bootstrap
        Draws from the null, at least; a late look takes more, $2 / \alpha_k$, as its level is small.
    plan_draws
        How many draws of all chains choose what is looked at.
    train
        Earlier draws with their scores, or a score function, to choose on instead; then all that come are tested.
    names
        Names of the D coordinates.

    Attributes
    ----------
    rejected
        Whether any look so far has found the model wrong.
    pvalue
        The smallest of $k (k + 1) p_k$ so far, valid whenever it is looked at: at most alpha if ``rejected``.
    looks
        How many were made.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein.gof import Monitor
    >>> monitor = Monitor(lambda x: -x, key=0)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(5):
    ...     monitor.update(rng.standard_normal((4, 250, 3)) * [1.0, 1.4, 1.0])
    >>> result = monitor.verdict()
    >>> result.verdict, result.parameters[0].finding, monitor.rejected
    ('wrong', 'too wide', True)
    """

    def __init__(
        self,
        score: ScoreLike | None = None,
        *,
        key: Any,
        alpha: float = 0.05,
        num_bootstrap: int = 1000,
        plan_draws: int = 1000,
        train: tuple[Any, Any] | None = None,
        names: Sequence[str] | None = None,
    ):
        if score is not None:
            _checks.is_function("score", score)
        if not 0 < alpha < 1:
            raise InputError(f"alpha must lie between 0 and 1, got {alpha}")
        if plan_draws < FEWEST_PLAN_DRAWS:
            raise InputError(f"plan_draws must be at least {FEWEST_PLAN_DRAWS}, got {plan_draws}")
        self.score, self.alpha, self.num_bootstrap, self.plan_draws = score, alpha, num_bootstrap, plan_draws
        self.names = None if names is None else tuple(names)
        self.looks, self.rejected, self.pvalue = 0, False, 1.0
        self._rng, self._method = _checks.as_generator(key), MaxSKSD()
        self._shape: tuple[int, int] | None = None  # chains, D
        self._plan: Plan | None = None
        self._num_train = 0
        self._waiting: Chains | None = None
        self._spans: list[Span] = []
        self._block, self._draws = 1, 0  # draws of a block, and those of a chain that were measured
        self._seen: Seen | None = None
        self._stride = 1
        self._last: GofResult | None = None
        if train is not None:
            self._make_plan(as_chains(*train, "train"), brought=True)

    def __repr__(self) -> str:
        tested = len(self._spans) * self._draws
        state = "found wrong" if self.rejected else "not found wrong"
        looks = f"{state} in {self.looks} look{'s' if self.looks != 1 else ''}" if self.looks else "not looked at yet"
        return f"Monitor: {tested} draws measured, {looks}; verdict() looks"

    def update(self, draws: Any, score: Any = None) -> None:
        """Take further draws: (n, D) of one chain, or (chains, n, D), as many of every chain, in order of time.

        ``score`` is that of these draws, in their shape, if the monitor knows no function.
        """
        score = self.score if score is None else score
        if score is None:
            raise InputError("score is missing: pass that of these draws, or a function when the monitor is made")
        if np.ndim(draws) == 2:
            draws, score = np.asarray(draws)[None], score if callable(score) else np.asarray(score)[None]
        found = as_chains(draws, score, "draws", least=1)
        if self._shape is not None and (found.shape[0], found.dim) != self._shape:
            chains, dim = self._shape
            raise InputError(
                f"draws came in {chains} chains of dimension {dim}, now in {found.shape[0]} of dimension {found.dim}"
            )
        if self._plan is not None and len(self._plan.scale) != found.dim:
            raise InputError(f"draws have dimension {found.dim}, those of train {len(self._plan.scale)}")
        if self.names is not None and len(self.names) != found.dim:
            raise InputError(f"names must hold {found.dim} names, one per column of the draws, got {len(self.names)}")
        self._shape = found.shape[0], found.dim
        if self._plan is None:
            found = self._wait(found)
        for start in range(0, found.shape[1], step := chunk_rows(found.dim)):
            self._measure(found.part(slice(start, start + step)))

    def verdict(self) -> GofResult:
        """The verdict on all draws so far, at the level of this look; the same one until further draws come."""
        have = len(self._spans) * self._draws
        if self._plan is None or self._seen is None or have < FEWEST_DRAWS:
            came = have + (self._num_train if self._waiting is None else self._waiting.num_samples)
            raise InputError(
                f"there is nothing to judge yet: {self._num_train or self.plan_draws} draws choose and are not tested, "
                f"{FEWEST_DRAWS} more are the least to test; {came} came"
            )
        if self._last is not None:
            return self._last
        self.looks += 1
        spent = self.looks * (self.looks + 1)
        level = self.alpha / spent
        num_bootstrap = max(self.num_bootstrap, math.ceil(DRAWS_PER_LEVEL / level))
        begin = Chains(self._seen.begin, self._seen.begin, True)
        problem = Problem(begin, None, self._rng, level, num_bootstrap, 0.0, self.names, notes=[])
        found = self._method.conclude(
            problem,
            self._plan,
            joined([span.sums for span in self._spans]),
            "dependent",
            chains=len(self._spans),
            seen=self._seen,
            num_train=self._num_train,
            num_test=len(self._spans) * self._draws,
        )
        self.pvalue = min(self.pvalue, spent * found.pvalue)
        self.rejected |= found.reject
        every = f"all looks together reject a right model with probability {self.alpha:g} at most"
        note = f"look {self.looks}, at level {level:.2g}: {every}"
        self._last = dataclasses.replace(found, notes=(note,))
        return self._last

    def _make_plan(self, train: Chains, *, brought: bool = False) -> None:
        self._plan = self._method.plan_on(train, self._rng, brought=brought)
        self._num_train = train.num_samples

    def _wait(self, found: Chains) -> Chains:
        """Keep draws until they are enough to choose on; what is left of them then."""
        if self._waiting is not None:
            x, s = (np.concatenate([getattr(part, name) for part in (self._waiting, found)], axis=1) for name in "xs")
            found = Chains(x, s, True)
        if found.num_samples < self.plan_draws:
            self._waiting = found
            return found.part(slice(0, 0))
        cut = -(-self.plan_draws // found.shape[0])
        self._make_plan(found.part(slice(cut)))
        self._waiting = None
        return found.part(slice(cut, None))

    def _measure(self, found: Chains) -> None:
        """Add draws to the sums of their blocks, and join blocks where there are too many."""
        assert self._plan is not None
        self._last = None
        num_chains, count, dim = found.shape
        first, last = self._draws // self._block, -(-(self._draws + count) // self._block)
        ends = np.minimum(np.arange(first + 1, last + 1) * self._block - self._draws, count)
        new = [Span(first, measure(self._plan, x, s, ends)) for x, s in zip(found.x, found.s, strict=True)]
        self._spans = new if not self._spans else [one + two for one, two in zip(self._spans, new, strict=True)]
        self._look(found.x, max(SHORTEST_STRETCH, min(LONGEST_STRETCH, STRETCH_VALUES // (num_chains * dim))))
        self._draws += count
        while len(self._spans[0].sums.counts) > max(2, MOST_BLOCKS // num_chains):
            self._spans = [Span(0, paired(span.sums)) for span in self._spans]
            self._block *= 2

    def _look(self, x: Float[np.ndarray, "chains n d"], most: int) -> None:
        """Keep the first draws, and some that are spread over all, fewer of them where they get too many."""
        begin, spread = self._seen or Seen(x[:, :0], x[:, :0])
        spread = np.concatenate([spread, x[:, -self._draws % self._stride :: self._stride]], axis=1)
        while spread.shape[1] > most:
            spread, self._stride = spread[:, ::2], 2 * self._stride
        self._seen = Seen(np.concatenate([begin, x[:, : most - begin.shape[1]]], axis=1), spread)
