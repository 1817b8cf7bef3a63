r"""The verdict of a test, from sums over blocks alone.

With $F_b$ the sum of the features of an entry over block b, the statistic is $|\sum_b F_b|^2$ and a draw of its null
$|\sum_b w_b F_b|^2$, without the terms of a block with itself where the weights are those of independent samples.

A sum over slices finds errors that are everywhere, the *largest* of standardised slices finds errors in one place. All
come from the same weights of the blocks, so that all entries together (`evidence`) are compared with draws of the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from slicestein.gof import null
from slicestein.gof.chains import disagreement
from slicestein.gof.evidence import as_deviations, combined, evidence
from slicestein.gof.measure import Sums
from slicestein.gof.null import Kind, Outcome
from slicestein.gof.parameters import KIND_SHARES, ParameterScores, draw_moments, kinds_of_error, parameter_scores
from slicestein.gof.plan import Plan

# Values (draws, features) alive at once: 64 MB.
DRAW_VALUES = 2**24
# Below, the field y / |y| of the radius jumps where samples are (D = 1), or its divergence has no variance (D = 2).
RADIUS_DIM = 3
STRAY = 0.01  # level at which a chain is called elsewhere
# How the level is shared among the entries. A mean that is a little off everywhere is the error that other tests find
# best, and people ask for first, and correlations come next; the rest is shared by the number of ways to be wrong that
# an entry sees. Fitted slices have seen a fifth of the rows only: little is left for them that the others miss.
LEVEL_SHARES = {
    "shift": 10.0,
    "largest": 8.0,
    "covariance": 7.0,
    "radius": 5.0,
    "parameters": 3.0,
    "fitted slices": 1.0,
    "coordinates": 0.5,
    "chains": 4.0,
}
# Parts of an entry share alike but for these: every kind of error of a parameter, and all slices at once.
PART_SHARES = {"largest": (*KIND_SHARES, 0.5)}
# Whoever brings rows to fit slices on asks for these slices: three quarters of the level, a little less with chains.
FITTED_ON_ROWS_BROUGHT = 3 * (sum(LEVEL_SHARES.values()) - LEVEL_SHARES["fitted slices"] - LEVEL_SHARES["chains"])


class Verdict(NamedTuple):
    """The outcome, every entry in standard deviations of its null, U of every slice, and a score of every parameter."""

    outcome: Outcome
    components: dict[str, float] | None
    per_slice: Float[np.ndarray, " m"]
    parameters: ParameterScores | None
    stray_chain: int | None = None


def judge(
    plan: Plan,
    sums: Sums,
    weights: Float[np.ndarray, "b n"],
    kind: Kind,
    chains: int | None = None,
    rng: np.random.Generator | None = None,
) -> Verdict:
    """The verdict, with these bootstrap weights of the blocks; of chains it takes further draws."""
    num_bootstrap = len(weights)
    weights = np.concatenate([np.ones((1, weights.shape[1]), weights.dtype), weights])
    forms = slice_forms(sums.slices, weights, kind)
    own = np.einsum("nmf,nmf->m", sums.slices, sums.slices, dtype=float)
    pairs = float(sums.counts.sum()) ** 2 - float(np.sum(sums.counts.astype(float) ** 2))
    per_slice = (np.sum(sums.slices.sum(0, dtype=float) ** 2, axis=-1) - own) / _pairs_seen(sums)
    if plan.whitening is None:
        return Verdict(_of_sum(forms.sum(1), own.sum(), sums.counts, pairs, kind), None, per_slice, None)
    moments = draw_moments(sums, weights, chains, rng)
    scores = _scores(forms, kind)
    kinds = kinds_of_error(scores[:, plan.groups["parameters"]], moments[:, :, :-1])
    entries = _entries(plan, sums, weights, kind, forms, moments)
    entries["largest"] = [*(evidence(of_kind.max(1)) for of_kind in kinds), evidence(scores.max(1))]
    stray = None
    if chains is not None and chains > 1:
        assert rng is not None
        of_chains = disagreement(sums, chains, rng, num_bootstrap)
        entries["chains"] = [evidence(of_chains.max(1))]
        stray = _stray(of_chains)
    together = {name: combined(parts, PART_SHARES.get(name, np.ones(len(parts)))) for name, parts in entries.items()}
    shares = LEVEL_SHARES | ({"fitted slices": FITTED_ON_ROWS_BROUGHT} if plan.brought else {})
    statistic = as_deviations(combined(list(together.values()), [shares[name] for name in together]))
    components = {name: float(as_deviations(found[0])) for name, found in together.items()}
    parameters = parameter_scores(plan, sums, kinds, chains)
    return Verdict(null.outcome(statistic[0], statistic[1:]), components, per_slice, parameters, stray)


def _entries(
    plan: Plan,
    sums: Sums,
    weights: Float[np.ndarray, "b n"],
    kind: Kind,
    forms: Float[np.ndarray, "b m"],
    moments: Float[np.ndarray, "b 4 e"],
) -> dict[str, list[Float[np.ndarray, " b"]]]:
    """Evidence of the statistics that every entry is made of: of the samples, then of the draws."""
    entries = {name: [forms[:, group].sum(1)] for name, group in plan.groups.items()}
    assert sums.white_scores is not None
    assert sums.radius is not None
    entries["shift"] = [field_forms(sums.white_scores, weights, kind)]
    entries["covariance"] = covariance_forms(plan, sums, weights, kind)
    if len(plan.scale) >= RADIUS_DIM:
        entries["radius"] = [field_forms(sums.radius, weights, kind), *moments[:, :, -1].T]
    entries["parameters"] += [moments[:, k, :-1].sum(1) for k in range(1, 4)]  # the first is the shift
    null.require_finite(0.0, np.concatenate([form for parts in entries.values() for form in parts]))
    return {name: [evidence(_scores(form, kind)) for form in parts] for name, parts in entries.items()}


def _pairs_seen(sums: Sums) -> Float[np.ndarray, " m"]:
    """Pairs of rows behind every slice: fitted ones are not looked at where they were fitted, and are zero there."""
    counts = np.where(sums.slices.any(axis=2), sums.counts[:, None].astype(float), 0)
    return np.maximum(counts.sum(0) ** 2 - np.sum(counts**2, axis=0), 1)


def _stray(of_chains: Float[np.ndarray, "b c"]) -> int | None:
    """The chain that is furthest from the others, if it is too far."""
    far = null.pvalue(of_chains[0].max(), of_chains[1:].max(1)) <= STRAY
    return int(np.argmax(of_chains[0])) if far else None


def _of_sum(
    forms: Float[np.ndarray, " b"], own: float, counts: Int[np.ndarray, " n"], pairs: float, kind: Kind
) -> Outcome:
    """The outcome of one sum over slices: U, or V where the diagonal is kept."""
    if null.has_diagonal(kind):
        values = forms / float(counts.sum()) ** 2
    else:
        values = (forms - own if kind == "wild" else forms) / pairs
    return null.outcome(values[0], values[1:])


def _scores(forms: Float[np.ndarray, "b *k"], kind: Kind) -> Float[np.ndarray, "b *k"]:
    return null.normal_scores(forms) if null.are_signs(kind) else null.standardized(forms)


def field_forms(
    sums: Float[np.ndarray, "n f"], weights: Float[np.ndarray, "b n"], kind: Kind
) -> Float[np.ndarray, " b"]:
    """Quadratic forms of one entry."""
    return slice_forms(sums[:, None], weights, kind)[:, 0]


def covariance_forms(
    plan: Plan, sums: Sums, weights: Float[np.ndarray, "b n"], kind: Kind
) -> list[Float[np.ndarray, " b"]]:
    """Forms of $s y^T + I$: whitened, and with the parameters as they are, where a model that is not normal is wide."""
    white = sums.white_covariance, sums.white_positions, sums.white_scores
    plain = sums.covariance, sums.positions, sums.scores
    found = []
    for covariance, y, s in (white, plain) if plan.mixed else (white,):
        if covariance is not None:
            found.append(field_forms(covariance, weights, kind))
        else:
            assert y is not None
            assert s is not None
            found.append(_row_forms(plan.sketched(y), plan.sketched(s), weights, kind))
    return found


def _row_forms(
    y: Float[np.ndarray, "n k"], s: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "b n"], kind: Kind
) -> Float[np.ndarray, " b"]:
    """Forms of $s y^T + I$ where every block is one row, from products of rows.

    Cost: O(N^2 (k + B)), where the k^2 features of every row would take O(N B k^2).
    """
    unit = np.abs(y).max() * np.abs(s).max()
    trace = np.einsum("nk,nk->n", s, y) / unit
    gram = (s @ s.T / unit) * (y @ y.T / unit) + (trace[:, None] + trace) / unit + y.shape[1] / unit**2
    forms = null.quadratic_forms(gram.astype(np.float32), weights, diagonal=null.are_signs(kind))
    return forms.astype(float) * float(unit) ** 2


def slice_forms(
    sums: Float[np.ndarray, "n m f"], weights: Float[np.ndarray, "b n"], kind: Kind
) -> Float[np.ndarray, "b m"]:
    """Quadratic forms of every slice; signs keep the diagonal, which is then a constant.

    Cost: O(B N M F) as matrix products in single precision, in blocks of slices. Every slice is in units of its largest
    sum: squares of what a chain far out has added up would overflow.
    """
    count, num, features = sums.shape
    step = max(1, DRAW_VALUES // (len(weights) * features))
    forms = np.empty((len(weights), num))
    for i in range(0, num, step):
        some = sums[:, i : i + step]
        unit = np.maximum(np.abs(some).max((0, 2)), np.finfo(sums.dtype).tiny)
        some = (some / unit[:, None]).astype(np.float32, copy=False)
        drawn = (weights @ some.reshape(count, -1)).reshape(len(weights), -1, features)
        forms[:, i : i + step] = np.einsum("bmf,bmf->bm", drawn, drawn)
        if not null.are_signs(kind):
            forms[:, i : i + step] -= weights**2 @ np.einsum("nmf,nmf->nm", some, some)
        forms[:, i : i + step] *= unit.astype(float) ** 2
    return forms
