r"""Several statistics as one.

Every statistic is brought to the same scale, its evidence $E = -\log p$ under its own null, and evidences are added
with prior weights:

$$ T = \log \sum_k w_k e^{E_k}, \qquad \sum_k w_k = 1, $$

minus the logarithm of the weighted harmonic mean of the p-values (Good 1958, Wilson 2019). One clear statistic among
many is enough, several that are half clear add up, and a statistic that is asked more often gets more of the level.

Where under the null the statistic and its draws are exchangeable the test is valid whatever the weights and however
rough the tails are: everything here treats them alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, ndtri_exp

# Share of the values that tell how the tail of a null falls off, and the least number of them.
TAIL, FEWEST = 0.1, 5


def evidence(values: Float[np.ndarray, "*k"], null: Float[np.ndarray, " b"] | None = None) -> Float[np.ndarray, "*k"]:
    r"""$-\log p$ of values under the null of which ``null``, the statistic and its draws, is a sample.

    By rank up to the 90% point q, and by an exponential tail beyond, $p = 0.1 \, e^{-(x - q) / \beta}$, with $\beta$
    from the median of the largest tenth: a statistic far out must not stretch the scale it is measured on. A null
    without spread says nothing: evidence 0. By default values are their own null.
    """
    ordered = np.sort(np.asarray(values if null is None else null, float))
    count = len(ordered)
    in_tail = min(max(round(TAIL * count), FEWEST), count - 1)
    start = ordered[-in_tail - 1]
    unit = float(np.median(ordered[-in_tail:] - start)) / math.log(2)
    if unit <= 0:
        return np.zeros(np.shape(values))
    as_large = count - np.searchsorted(ordered, values, side="left")
    by_rank = -np.log((np.maximum(as_large, 1) - 0.5) / count)  # a value beyond all is in the tail anyway
    beyond = np.maximum(np.asarray(values, float) - start, 0) / unit
    return np.where(beyond > 0, beyond - math.log(in_tail / count), by_rank)


def combined(
    evidences: Sequence[Float[np.ndarray, "*k"]], weights: Sequence[float] | np.ndarray
) -> Float[np.ndarray, "*k"]:
    """Evidence of several statistics together; weights count relative to each other."""
    shares = np.asarray(weights, float) / np.sum(weights)
    return logsumexp(np.stack(evidences), axis=0, b=shares.reshape(-1, *(1,) * np.ndim(evidences[0])))


def as_deviations(evidence: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """Evidence in standard deviations: how far out a normal variable with this p-value is."""
    return -ndtri_exp(-np.asarray(evidence, float))
