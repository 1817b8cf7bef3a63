r"""Which parameter is wrong, how, and by how much.

Along the slice of parameter d, $r = C e_d / C_{dd}$ and $t = x_d$, the score $a = r^\top s$ is that of the marginal if
the model is Gaussian, whatever the other parameters do. Stein's identity with f = 1 and f = t then gives

$$
E_q[x_d] - E_p[x_d] = -C_{dd} E_q[a], \qquad
\frac{\operatorname{Var}_q x_d}{\operatorname{Var}_p x_d} = - \operatorname{Cov}_q(a, x_d),
$$

the error of the mean and the ratio of the variances: exact for a Gaussian model, a linearisation for others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from slicestein.gof import null
from slicestein.gof.dependence import law_of_sums, with_estimated_error
from slicestein.gof.evidence import combined, evidence
from slicestein.gof.measure import Sums
from slicestein.gof.plan import Plan
from slicestein.gof.result import Parameter

SHAPE, SHIFT, SPREAD = range(3)  # beyond: skewness and tails, which are shape too
# How the kinds share what a parameter gets of the level: a wrong spread is what samplers do most.
KIND_SHARES = (1.0, 1.0, 2.0, 1.0, 1.0)
# An error of the mean or of the spread of so many standard errors is what is wrong, and not the shape.
CLEAR = 3.0


class ParameterScores(NamedTuple):
    """Evidence against every parameter, and estimates of what is wrong with it."""

    evidence: Float[np.ndarray, " d"]
    largest: Float[np.ndarray, " b"]  # over all parameters, of every draw
    by: Int[np.ndarray, " d"]  # the kind of error with the most evidence: SHAPE, SHIFT or SPREAD
    shift: Float[np.ndarray, " d"]  # in standard deviations of the model
    shift_error: Float[np.ndarray, " d"]
    spread: Float[np.ndarray, " d"]  # ratio of standard deviations
    spread_error: Float[np.ndarray, " d"]

    @property
    def pvalues(self) -> Float[np.ndarray, " d"]:
        """p-values that count how many parameters were looked at: each against the largest of all."""
        return np.array([null.pvalue(found, self.largest) for found in self.evidence])


def draw_moments(
    sums: Sums, weights: Float[np.ndarray, "b n"], chains: int | None = None, rng: np.random.Generator | None = None
) -> Float[np.ndarray, "b 4 e"]:
    """Squares of four moments of every parameter and of the radius, in units of their variance: samples, then draws.

    In chains every moment has a memory of its own. Signs that persist as all of them together ask for would hide an
    error of one that is fast, so that they only tell how moments depend on each other: draws are those of sums around
    their mean, in units of their own spread, over an error that is known from a few independent values only.
    """
    assert sums.moments is not None
    terms = sums.moments.reshape(len(sums.counts), -1).astype(np.float32)
    law = law_of_sums(sums.moments.astype(np.float32), chains)
    variance, cumulant = law.variance.ravel(), law.cumulant.ravel()
    scale = np.sqrt(np.where(variance > 0, variance, 1))
    if law.known is None:
        drawn = (weights @ terms).astype(float) / scale
    else:
        assert rng is not None
        drawn = (weights @ (terms - terms.mean(0))).astype(float)
        spread = drawn[1:].std(0)
        drawn[1:] = with_estimated_error(drawn[1:] / np.where(spread > 0, spread, 1), law.known.ravel(), rng)
    drawn[0] = without_skewness(terms.sum(0, dtype=float) / scale, cumulant / scale**3)
    return (drawn**2).reshape(len(weights), *sums.moments.shape[1:])


def kinds_of_error(
    of_slices: Float[np.ndarray, "b d"], moments: Float[np.ndarray, "b 4 d"]
) -> Float[np.ndarray, "k b d"]:
    """Scores of every parameter for every kind of error: SHAPE, SHIFT, SPREAD, then the other moments."""
    return np.concatenate([of_slices[None], np.moveaxis(null.normal_scores(moments), 1, 0)])


def without_skewness(t: Float[np.ndarray, " k"], skewness: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    r"""Standardised sums, moved to where they would be were they symmetric under the null, as draws with signs are.

    $$ T + \frac{\gamma}{3} T^2 + \frac{\gamma^2}{27} T^3 + \frac{\gamma}{6} $$

    with the skewness $\gamma$ of T (Hall 1992). The largest of many sums would else be one in the longer tail.
    """
    return t + skewness / 3 * t**2 + skewness**2 / 27 * t**3 + skewness / 6


def parameter_scores(
    plan: Plan, sums: Sums, kinds: Float[np.ndarray, "k b d"], chains: int | None = None
) -> ParameterScores:
    """Evidence against every parameter from all kinds of error, and estimates with their standard errors."""
    assert plan.whitening is not None
    assert sums.scores is not None
    assert sums.slopes is not None
    assert sums.positions is not None
    total, size = sums.counts.sum(), sums.counts[:, None]
    variances = plan.whitening.variances
    along = sums.scores @ plan.whitening.covariance / variances  # sums of a
    mean_a, mean_t, mean_slope = (part.sum(0) / total for part in (along, sums.positions, sums.slopes))
    ratio = np.maximum(1 - mean_slope + mean_a * mean_t, 1e-6)  # of the variances
    influence = (
        mean_t * (along - size * mean_a) + mean_a * (sums.positions - size * mean_t) - (sums.slopes - size * mean_slope)
    )
    shift_error, ratio_error = (
        np.sqrt(law_of_sums(part, chains).variance) / total for part in (along - size * mean_a, influence)
    )
    unit, spread = np.sqrt(variances), np.sqrt(ratio)
    largest = kinds.max(2)  # of a kind, over the parameters
    found = np.stack([evidence(of_kind[0], of_all) for of_kind, of_all in zip(kinds, largest, strict=True)])
    return ParameterScores(
        combined(list(found), KIND_SHARES),
        combined([evidence(of_all) for of_all in largest], KIND_SHARES)[1:],
        found.argmax(0),
        -unit * mean_a,
        unit * shift_error,
        spread,
        ratio_error / (2 * np.sqrt(np.maximum(ratio, ratio_error))),  # a ratio within its error of 0 has no slope
    )


def findings(
    scores: ParameterScores, names: list[str], units: Float[np.ndarray, " d"], alpha: float
) -> tuple[Parameter, ...]:
    """Every parameter in words and numbers, worst first."""
    pvalues = scores.pvalues
    order = np.argsort(-scores.evidence, kind="stable")
    return tuple(
        Parameter(
            name=names[d],
            pvalue=float(pvalues[d]),
            shift=float(scores.shift[d]),
            shift_error=float(scores.shift_error[d]),
            spread=float(scores.spread[d]),
            spread_error=float(scores.spread_error[d]),
            unit=float(units[d]),
            finding=_finding(scores, d) if pvalues[d] <= alpha else "",
        )
        for d in order
    )


def _finding(scores: ParameterScores, d: int) -> str:
    shift = scores.shift[d] / max(scores.shift_error[d], 1e-300)
    spread = (scores.spread[d] - 1) / max(scores.spread_error[d], 1e-300)
    by = scores.by[d]
    if by not in (SHIFT, SPREAD) and max(abs(shift), abs(spread)) >= CLEAR:
        by = SHIFT if abs(shift) > abs(spread) else SPREAD
    if by not in (SHIFT, SPREAD):
        return "wrong shape"
    if by == SHIFT:
        return "too high" if shift > 0 else "too low"
    return "too wide" if spread > 0 else "too narrow"
