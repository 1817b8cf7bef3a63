r"""Which of several sample sets is closest to the model, with uncertainty.

All sets are measured with one ruler. The first part of every set chooses it: coordinates, bandwidths and weights on
these parts together, slices on each part alone, because errors of opposite sign cancel in a pool. The sets are then
compared by the weighted sum of sliced U-statistics on the rest, along the slices of all.

The standard error is a jackknife over K blocks of consecutive draws,

$$ \operatorname{se}^2 = \frac{K - 1}{K} \sum_{k=1}^K (U_{-k} - \bar U_{-})^2, $$

which counts the dependence within Markov chains as long as blocks are longer than their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._directions.fitting import choose
from slicestein._directions.whitening import Whitening, find_whitening
from slicestein._stein import features
from slicestein._stein.features import Lines, Rule
from slicestein.gof.measure import Sums
from slicestein.gof.survey import Layout, Measured, gather, span
from slicestein.kernels import RBF
from slicestein.rows.arrays import Chains
from slicestein.rows.opening import as_source
from slicestein.rows.source import Source

BLOCKS = 20  # of the jackknife, at least; every chain has as many as the others
PARTS = 50  # of each block: draws are not compared with their neighbours in the same part
LEAST_SAMPLES = 100  # in every set: blocks of a few draws tell nothing


class Quality(NamedTuple):
    """Discrepancy of one sample set, with its uncertainty."""

    name: str
    discrepancy: float
    standard_error: float
    num_samples: int
    behind: float  # distance to the best set, in standard errors of the difference


def compare(
    sets: Mapping[str, Any], score: Callable[[Any], Any] | None = None, *, key: Any, train_fraction: float = 0.2
) -> list[Quality]:
    """Rank sample sets by their discrepancy to one model, best first.

    Parameters
    ----------
    sets
        Samples (N, D) or chains (chains, draws, D), rows from `slicestein.rows.open`, or what adapters returned, by
        name; sizes may differ.
    score
        Score function of the model, (N, D) -> (N, D); left out where all sets have their scores inside.
    key
        Int seed or JAX key.
    train_fraction
        Share of every set, from its start, that chooses the ruler.

    Notes
    -----
    The numbers depend on the ruler, and so on the company: compare within one call only. Draws that are correlated in
    time have a larger discrepancy, as they are worth fewer. Where a set is exact its standard error is on the large
    side: the jackknife is conservative for a U-statistic that is centred.

    Cost: O(N M (D + J)) per set; the jackknife needs no second look at the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein.quality import compare
    >>> x = np.random.default_rng(0).standard_normal((2, 1000, 5))
    >>> best, worst = compare({"short step": x[0], "long step": 1.3 * x[1]}, lambda x: -x, key=0)
    >>> best.name, worst.behind > 3
    ('short step', True)
    """
    if not 0 < train_fraction < 1:
        raise InputError(f"train_fraction must lie between 0 and 1, got {train_fraction}")
    _check_arguments(sets, score)
    data = {name: _checked(name, x, score) for name, x in sets.items()}
    dims = {name: rows.dim for name, rows in data.items()}
    if len(set(dims.values())) > 1:
        found = ", ".join(f"{name}: {dim}" for name, dim in dims.items())
        raise InputError(f"the sample sets differ in dimension ({found}): compare samples of one model")
    cuts = {name: round(train_fraction * rows.shape[1]) for name, rows in data.items()}
    for name, rows in data.items():
        if not 0 < cuts[name] < rows.shape[1]:
            raise InputError(
                f"{name}: chains of {rows.shape[1]} draws cannot be split with train_fraction = {train_fraction}: pass "
                "longer chains"
            )
    starts = [_beginning(rows, cuts[name]) for name, rows in data.items()]
    ruler = _ruler(starts, _checks.as_generator(key))
    measured = [Quality(name, *_measure(ruler, rows, cuts[name]), 0.0) for name, rows in data.items()]
    best, *others = sorted(measured, key=lambda q: q.discrepancy)
    return [best, *(q._replace(behind=_distance(q, best)) for q in others)]


def _distance(one: Quality, other: Quality) -> float:
    return (one.discrepancy - other.discrepancy) / float(np.hypot(one.standard_error, other.standard_error))


class _Ruler(NamedTuple):
    origin: Float[np.ndarray, " d"]
    coordinates: Whitening
    lines: Lines
    rule: Rule


def _check_arguments(sets: Any, score: Any) -> None:
    if not isinstance(sets, Mapping):
        raise InputError(
            f'sets must be a dict of sample sets by name, {{"first": x, "second": y}}, got {type(sets).__name__}'
        )
    if not sets:
        raise InputError("sets is empty: pass sample sets by name")
    if score is not None and not callable(score):
        raise InputError(
            f"score must be a function (N, D) -> (N, D), for every set has its own rows, got {type(score).__name__}; "
            "scores that are arrays go with their set: rows.open(x, score)"
        )


def _checked(name: str, x: Any, score: Callable[[Any], Any] | None) -> Source:
    if isinstance(x, tuple) and not hasattr(x, "score"):
        raise InputError(f"{name}: is a tuple: samples and scores that are arrays go in as rows.open(x, score)")
    try:
        if score is None and not isinstance(x, Source):
            x, score, _ = _checks.unpack(x)
        rows = as_source(x, score)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if rows.num_samples < LEAST_SAMPLES:
        raise InputError(f"{name}: holds {rows.num_samples} samples: at least {LEAST_SAMPLES} are needed")
    return rows


def _beginning(rows: Source, cut: int) -> Chains:
    """The first draws of every chain, or some that are spread over them."""
    layout = Layout(*rows.shape[:2], cut)
    return gather(rows, layout, 0)[0]


def _ruler(parts: list[Chains], rng: np.random.Generator) -> _Ruler:
    x, s = (np.concatenate(arrays) for arrays in zip(*(part.flat for part in parts), strict=True))
    _checks.columns_vary(x)
    origin = x.mean(0)
    coordinates = find_whitening((x - origin).astype(float), s.astype(float))
    slices = []
    for part in parts:
        y, sy = (z.reshape(part.x.shape) for z in coordinates(part.flat[0] - origin, part.flat[1]))
        slices.append(choose(Chains(y, sy, part.ordered), rng, "rg", None, "best", RBF())[0])
    y, sy = coordinates(x - origin, s)
    r, g = (np.concatenate([getattr(pairs, name) for pairs in slices]) for name in "rg")
    lines = features.lay_lines(r, g, y, RBF())
    lines = lines.weighted(1 / features.noise(lines, sy, RBF()))
    return _Ruler(origin, coordinates, lines, features.rule_for(RBF(), lines.bulk))


@dataclass(frozen=True)
class _Visit:
    """Sums along the ruler over the draws of every chain after the first ones."""

    ruler: _Ruler
    layout: Layout
    ends: Int[np.ndarray, " b"]

    def __call__(self, start: int, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Measured:
        late = ~self.layout.are_early(start, start + len(x))
        return Measured(span(self._sums, x[late], s[late], self.ends, start - self.layout.early_before(start)), None)

    def _sums(self, x: np.ndarray, s: np.ndarray, ends: Int[np.ndarray, " b"]) -> Sums:
        coordinates = self.ruler.coordinates(x - self.ruler.origin, s)
        return Sums(np.diff(ends, prepend=0), features.sums(self.ruler.lines, self.ruler.rule, *coordinates, ends))


def _measure(ruler: _Ruler, rows: Source, cut: int) -> tuple[float, float, int]:
    """Discrepancy, standard error and number of samples, from sums over parts of blocks of equal length."""
    chains, draws, _ = rows.shape
    per_chain = min(-(-BLOCKS // chains), draws - cut)
    first = cut + (draws - cut) % per_chain  # draws that do not fill a block are left out from the start
    blocks, length = chains * per_chain, (draws - first) // per_chain
    parts = min(PARTS, length)
    within = np.round(np.linspace(0, length, parts + 1)[1:]).astype(np.int64)
    ends = (within + length * np.arange(blocks)[:, None]).ravel()
    found: Measured = rows.fold(_Visit(ruler, Layout(chains, draws, first), ends))
    assert found.late is not None
    sums = found.late.sums.slices.reshape(blocks, parts, -1).astype(float)
    own, pairs = np.sum(sums**2, axis=(1, 2)), np.sum(np.diff(within, prepend=0).astype(float) ** 2)

    def discrepancy(kept: np.ndarray) -> float:
        total = np.sum(sums[kept].sum((0, 1)) ** 2) - own[kept].sum()
        return float(total / ((kept.sum() * length) ** 2 - kept.sum() * pairs))

    without = np.array([discrepancy(np.arange(blocks) != k) for k in range(blocks)])
    return discrepancy(np.full(blocks, True)), float(np.sqrt((blocks - 1) * without.var())), blocks * length
