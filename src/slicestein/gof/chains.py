r"""Do the chains agree: R-hat, effective sample size, and a test that compares chains.

R-hat and effective sample size are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), as ArviZ has them:
chains are split in halves and draws replaced by normal scores of their ranks.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from slicestein.gof.dependence import law_of_sums, with_estimated_error
from slicestein.gof.measure import Sums

NO_ERROR = 1e-6  # of the distance between chains


def rhat(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, " d"]:
    """Rank-normalised split R-hat of every parameter: the larger one of location and of spread."""
    halves = _split(x)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_plain_rhat(_normal_scores(halves)), _plain_rhat(_normal_scores(folded)))


def ess(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, " d"]:
    """Bulk effective sample size of every parameter."""
    return np.array([_plain_ess(column) for column in np.moveaxis(_normal_scores(_split(x)), 2, 0)])


def long_ess(
    stretch: Float[np.ndarray, "chains m d"], spread: Float[np.ndarray, "chains n d"], num_samples: int
) -> Float[np.ndarray, " d"]:
    """Effective sample size of N draws, from consecutive ones and from others that are spread over all of them.

    What is forgotten between two draws that are spread out is seen in the consecutive ones, and their effective share
    is that of all draws. What is not shows in the others, which are then worth about as much as all.
    """
    slow = ess(spread)
    if spread.shape[0] * spread.shape[1] >= num_samples:
        return slow
    fast = ess(stretch) * (num_samples / (stretch.shape[0] * stretch.shape[1]))
    return np.where(slow < spread.shape[0] * spread.shape[1] / 2, slow, np.maximum(slow, fast))


def _split(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, "halves half d"]:
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, "chains draws d"]:
    ranks = np.apply_along_axis(_average_ranks, 0, x.reshape(-1, x.shape[2])).reshape(x.shape)
    return ndtri((ranks - 0.375) / (x.shape[0] * x.shape[1] + 0.25))


def _average_ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Ranks from 1 to n, of equal values the mean; as in scipy.stats, which takes a quarter of a second to import."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _plain_rhat(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, " d"]:
    draws = x.shape[1]
    within = x.var(axis=1, ddof=1).mean(0)
    between = draws * x.mean(1).var(axis=0, ddof=1)
    stuck = np.ptp(x, axis=1).max(0) == 0  # every chain at one place of its own
    ratio = between / np.where(stuck, 1, within)
    same = np.ptp(x, axis=(0, 1)) == 0
    return np.where(stuck, np.where(same, 1, np.inf), np.sqrt((ratio + draws - 1) / draws))


def _plain_ess(x: Float[np.ndarray, "chains draws"]) -> float:
    """Effective sample size by Geyer's initial monotone sequence: pairs of lags, to the first that is not positive."""
    chains, draws = x.shape
    if np.ptp(x) == 0:
        return float(x.size)
    deviations = x - x.mean(1, keepdims=True)
    power = np.abs(np.fft.rfft(deviations, 2 * draws, axis=1)) ** 2
    covariance = np.fft.irfft(power, 2 * draws, axis=1)[:, :draws].mean(0) / draws
    within = covariance[0] * draws / (draws - 1)
    total = within * (draws - 1) / draws + (x.mean(1).var(ddof=1) if chains > 1 else 0.0)
    rho = 1 - (within - covariance) / total
    rho[0] = 1
    pairs = rho[: draws - draws % 2].reshape(-1, 2).sum(1)
    last = max((draws - 3) // 2, 1)  # ArviZ has 0 for halves of four draws, which would be taken for independent
    last = next(iter(np.flatnonzero(pairs[:last] <= 0)), last)
    tail = rho[2 * last] if rho[2 * last] > 0 or pairs[last] >= 0 else 0.0
    tau = -1 + 2 * np.minimum.accumulate(pairs[:last]).sum() + tail
    return x.size / max(tau, 1 / math.log10(x.size))


def disagreement(
    sums: Sums, chains: int, rng: np.random.Generator, num_bootstrap: int
) -> Float[np.ndarray, "b_and_one chains"]:
    r"""How far every chain is from the others, the largest over parameters: of the samples, then B draws of the null.

    In standard errors of a chain's mean, $\sqrt{v \tau / n}$, with variance and memory of all chains together
    (`dependence.law_of_sums`): a chain that hardly moves has no small error of its own, and is found where it sits.
    Draws are normal means over an error that is known from a few independent values only. The bootstrap cannot give
    them: a single chain has room for a few flips of its signs only, and would be called different far too often. Cube
    roots of squares are nearly normal.
    """
    assert sums.positions is not None
    size = sums.counts.reshape(chains, -1, 1).astype(float)
    series = sums.positions.reshape(chains, size.shape[1], -1) / size
    means = np.sum(series * size, axis=1) / size.sum(1)
    away = means - means.mean(0)
    variance, _, known = law_of_sums(series.reshape(-1, series.shape[2]), chains)
    assert known is not None
    error = np.sqrt(variance / chains) / series.shape[1]
    error = np.maximum(error, NO_ERROR * np.abs(away).max(0))  # all chains are stuck
    draws = rng.standard_normal((num_bootstrap, *away.shape))
    draws = with_estimated_error(draws - draws.mean(1, keepdims=True), known, rng)
    every = np.concatenate([(away / np.where(error > 0, error, 1))[None], draws])
    return np.cbrt(every**2).max(2)
