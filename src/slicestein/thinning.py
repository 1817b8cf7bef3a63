r"""Fewer draws that say the same, and weights that mend draws: both make a Stein discrepancy to the model small.

The discrepancy is $\sum_{ij} w_i w_j h_{ij}$ with the Stein kernel h of `_stein.columns` in whitened coordinates: along
slices, those of the parameters and those of the whitened axes, plus in the full space. Slices hold every marginal; the
full-space kernel alone prefers draws near the mode, the more so the more parameters there are.

Greedy thinning (Riabiz et al., Optimal thinning of MCMC output, 2022) takes, when $i_1, i_2, \ldots$ have been chosen,

$$ \arg\min_n \; \tfrac12 h_{nn} + \sum_k h_{n i_k} . $$

Weights (Liu and Lee, Black-box importance sampling, 2017) are those of the simplex that minimise the discrepancy. With
L landmarks among N draws, $\Phi = H_{NL} H_{LL}^{-1/2}$, its matrix is

$$ H \approx \Phi \Phi^\top + \operatorname{diag}(h_{nn} - |\Phi_n|^2) , $$

exact on the diagonal, and exact where every draw is a landmark.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._directions.whitening import find_whitening, roots
from slicestein._stein import full_space
from slicestein._stein.bandwidths import evenly_spread
from slicestein._stein.columns import Columns
from slicestein._stein.numpy_bandwidths import full_bandwidth, slice_bandwidths
from slicestein._stein.operator import Projected, in_units_of
from slicestein.gof.plan import everywhere
from slicestein.kernels import IMQ
from slicestein.rows.arrays import Chains, as_chains

Discrepancy = Literal["both", "sksd", "ksd"]

# Heavy tails: a draw far away is still seen by those that are chosen.
KERNEL = IMQ()
LANDMARKS = 500
MOST_STEPS = 1000
# Weights are final when others can gain no more than twice this share of the discrepancy of equal weights.
GAIN = 1e-3


class Weights(NamedTuple):
    """Weights of draws, how many equal ones they are worth, and the discrepancy before and after."""

    weights: Float[np.ndarray, "*n"]  # not negative, of sum one; (N,) or (chains, draws)
    effective_sample_size: float
    discrepancy: float
    discrepancy_before: float  # of equal weights


def thin(
    x: Any, score: ScoreLike | None = None, num: int | None = None, *, discrepancy: Discrepancy = "both"
) -> Int[np.ndarray, " num"]:
    """Indices of the draws that together are closest to the model: burn-in is left out, bias is reduced.

    Parameters
    ----------
    x
        Draws (N, D) or chains (chains, draws, D), of any sampler; they need not be independent, nor right. Or what an
        adapter returned, with the scores inside.
    score
        Scores of the model at the draws, of the shape of x, or a function (N, D) -> (N, D).
    num
        How many to keep; ``thin(draws, num=100)`` where the scores are inside.
    discrepancy
        What is made small: ``"sksd"`` along slices, ``"ksd"`` in the full space, or the sum of both.

    Returns
    -------
    indices
        Rows of ``x.reshape(-1, D)`` in the order in which they were chosen: the first 50 are the answer to num = 50.
        A draw may be chosen more than once, and then counts as often, as in the literature: where few draws lie where
        the model has much mass, copies of them are closer to the model than their neighbours.

    Notes
    -----
    Draws are compared in whitened coordinates: units, shifts and linear correlations of the parameters do not matter.
    Modes without a draw are not found, and the relative weight of modes far apart is hardly seen by any score.

    Cost: O(N D) time for every draw that is kept and O(N D^2) once; memory a few times that of x.

    Examples
    --------
    >>> import numpy as np
    >>> import slicestein as ss
    >>> x = np.random.default_rng(0).standard_normal((2000, 3))
    >>> x[:500] += np.linspace(9, 0, 500)[:, None]            # the chain has come from far away
    >>> kept = ss.thin(x, -x, 50)
    >>> bool(x.mean() > 1), bool(abs(x[kept].mean()) < 0.05)
    (True, True)
    """
    if num is None:
        raise InputError("num is missing: say how many draws to keep, as in thin(x, score, num=100)")
    try:
        num = operator.index(num)
    except TypeError:
        raise InputError(f"num must be a whole number of draws, got {num!r}") from None
    x, score, _ = _checks.unpack(x, score)
    rows = as_chains(x, score)
    if not 1 <= num <= rows.num_samples:
        raise InputError(f"num must lie between 1 and the number of draws, {rows.num_samples}, got {num}")
    columns = _columns(rows, discrepancy)
    objective = columns.diagonal() / 2
    chosen = np.empty(num, np.int64)
    for k in range(num):
        chosen[k] = np.argmin(objective)
        objective += columns.column(chosen[k])
    return chosen


def weights(x: Any, score: ScoreLike | None = None, *, discrepancy: Discrepancy = "both") -> Weights:
    """Weights of draws that bring them as close to the model as they can be brought, with all draws kept.

    Parameters
    ----------
    x
        Draws (N, D) or chains (chains, draws, D): of an approximation, of a biased sampler, of a short chain. Or what
        an adapter returned, with the scores inside.
    score
        Scores of the model at the draws, of the shape of x, or a function (N, D) -> (N, D).
    discrepancy
        What is made small: ``"sksd"`` along slices, ``"ksd"`` in the full space, or the sum of both.

    Notes
    -----
    The density that the draws come from is not needed. Where the draws do not reach, weights cannot: look at the
    effective sample size, and at how much of the discrepancy is left.

    Cost: O(N D L) for the columns of L = min(N, 500) landmarks, then O(N L) a step; memory O(N (D + L)).

    Examples
    --------
    >>> import numpy as np
    >>> import slicestein as ss
    >>> x = 0.8 * np.random.default_rng(0).standard_normal((1000, 2))    # too narrow
    >>> found = ss.weights(x, -x)
    >>> spread = np.sqrt(found.weights @ x**2)
    >>> bool(abs(spread - 1).max() < 0.05), bool(found.effective_sample_size > 200)
    (True, True)
    """
    x, score, _ = _checks.unpack(x, score)
    rows = as_chains(x, score)
    columns = _columns(rows, discrepancy)
    low_rank, rest = _factors(columns)
    equal = np.full(rows.num_samples, 1 / rows.num_samples)
    found = np.zeros_like(equal)
    near = _near(low_rank, rest)
    found[near] = _on_simplex(low_rank[near], rest[near], np.full(near.sum(), 1 / near.sum()))

    def value(w: np.ndarray) -> float:
        return float(np.sum((w @ low_rank) ** 2) + w**2 @ rest)

    shape = rows.x.shape[:2] if rows.ordered else (rows.num_samples,)
    return Weights(found.reshape(shape), float(1 / np.sum(found**2)), value(found), value(equal))


def _columns(rows: Chains, discrepancy: Discrepancy) -> Columns:
    """The kernel of the draws in whitened coordinates."""
    _checks.one_of("discrepancy", discrepancy, ("both", "sksd", "ksd"))
    x, s = rows.flat
    _checks.columns_vary(x)
    centred = (x - x.mean(0, dtype=float)).astype(float)
    whitening = find_whitening(centred, s.astype(float))
    sliced = full = None
    if discrepancy != "ksd":
        pairs = everywhere(whitening).values()
        r, g = (np.concatenate([getattr(pair, name) for pair in pairs]) for name in "rg")
        spread = np.linalg.norm(g @ whitening.inverse, axis=1)[:, None]  # of the model along g, were it Gaussian
        t = (g / spread @ centred.T).astype(x.dtype)
        bandwidth = slice_bandwidths(KERNEL, t)
        aligned = np.sum(r * g, axis=1, keepdims=True).astype(x.dtype)
        sliced = in_units_of(Projected(t, (r * spread @ s.T).astype(x.dtype), aligned), bandwidth)
    if discrepancy != "sksd":
        y, sy = (z.astype(x.dtype) for z in whitening(centred, s))
        full = full_space.scale(y, sy, full_bandwidth(KERNEL, y))
    return Columns(KERNEL, sliced, full)


def _factors(columns: Columns) -> tuple[Float[np.ndarray, "n l"], Float[np.ndarray, " n"]]:
    """Phi, and what it leaves of the diagonal."""
    diagonal = columns.diagonal()
    landmarks = evenly_spread(np.arange(len(diagonal)), LANDMARKS)
    some = np.stack([columns.column(index) for index in landmarks], axis=1)
    low_rank = some @ roots(some[landmarks])[1]
    return low_rank, np.maximum(diagonal - np.sum(low_rank**2, axis=1), 0)


def _near(low_rank: Float[np.ndarray, "n l"], rest: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Draws that may have a weight: one so far out that it outweighs all others would set the scale of all steps."""
    own = np.sum(low_rank**2, axis=1) + rest
    return own <= len(own) ** 2 * np.median(own)


def _on_simplex(
    low_rank: Float[np.ndarray, "n l"], rest: Float[np.ndarray, " n"], start: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Weights of the least quadratic form: projected gradients, with momentum that starts anew when it misleads."""

    def gradient(w: np.ndarray) -> np.ndarray:
        return low_rank @ (w @ low_rank) + rest * w

    steepest = np.linalg.norm(low_rank, 2) ** 2 + rest.max()
    w = ahead = start
    slope = slope_ahead = gradient(start)
    enough = GAIN * (start @ slope)
    momentum = 1.0
    for _ in range(MOST_STEPS):
        if w @ slope - slope.min() <= enough:  # the left is a bound on half of what can be gained
            break
        new = project(ahead - slope_ahead / steepest)
        if (ahead - new) @ (new - w) > 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        carry, new_slope = (momentum - 1) / following, gradient(new)
        ahead, slope_ahead = new + carry * (new - w), new_slope + carry * (new_slope - slope)
        w, slope, momentum = new, new_slope, following
    return w


def project(v: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The nearest point of the simplex."""
    largest = np.sort(v)[::-1]
    excess = (np.cumsum(largest) - 1) / np.arange(1, len(v) + 1)
    return np.maximum(v - excess[np.flatnonzero(largest > excess)[-1]], 0)
