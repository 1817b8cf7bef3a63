"""How long Markov chains remember, and what the bootstrap must keep of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import digamma, polygamma

# Autocorrelations are summed up to this many autocorrelation times (Sokal's window).
WINDOW = 4.0
# Constants of `flip_probability`: see its docstring.
FLIP_CONSTANT = 0.9
EXPECTED_FLIPS = 5.0
# Rows of every chain that are looked at: memory is seen in fewer, and a transform of a million rows takes seconds.
LONGEST_STRETCH = 2**14
# Stretches of a chain are joined in pairs no more where there are fewer: their cubes are noise.
FEWEST_STRETCHES = 8
# Independent values that an error is known from at least: below, draws would have no variance.
FEWEST_KNOWN = 3.0
# An autocorrelation time that is smaller, or negative, is an error of estimation.
LEAST_TIME = 0.1
# Variance that a sum has at least, of that of independent terms: chains that are stuck have none.
LEAST_VARIANCE = 1e-6


def autocorrelation_times(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, " d"]:
    r"""Integrated autocorrelation time of each column, $\tau = 1 + 2 \sum_{k \ge 1} \rho_k$, at least 1.

    The sum stops at the first lag W beyond ``WINDOW`` times the sum so far. Autocorrelations are averaged over
    chains, each around its own mean: chains that disagree are not slow, they are wrong (`chains`). The mean of a
    chain of length n takes $\tau / n$ of the variance from every autocovariance, which is given back (Wolff 2004):
    $\tau$ is multiplied by $(1 + (2 W + 1) / n) / (1 + \tau / n)$. Cost: O(N D log N).
    """
    return np.maximum(_plain_times(x), 1)


def _plain_times(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, " d"]:
    """The same, below 1 for draws that alternate."""
    x = x[:, :LONGEST_STRETCH]
    length = x.shape[1]
    if length == 1:
        return np.ones(x.shape[2])
    deviations = x - x.mean(1, keepdims=True)
    covariance = np.empty((length, x.shape[2]))
    for d in range(x.shape[2]):  # a column at a time: the padded transform of all would be large
        power = np.abs(np.fft.rfft(deviations[:, :, d], 2 * length, axis=1)) ** 2  # padded: no wrap-around
        covariance[:, d] = np.fft.irfft(power, 2 * length, axis=1)[:, :length].mean(0)
    varies = np.ptp(x, axis=1).max(0) > 0  # the covariance of a constant is rounding
    times = 2 * np.cumsum(covariance / np.where(varies, covariance[0], 1), axis=0) - 1
    beyond = np.arange(length)[:, None] >= WINDOW * times
    first = np.where(beyond.any(0), np.argmax(beyond, axis=0), np.argmax(times, axis=0))
    found = np.take_along_axis(times, first[None], axis=0)[0]
    found *= (1 + (2 * first + 1) / length) / (1 + found / length)
    return np.where(varies, found, 1)


def times_with_squares(x: Float[np.ndarray, "chains draws d"]) -> Float[np.ndarray, " two_d"]:
    """Autocorrelation times of the samples, then of the squares of their deviations."""
    deviations = x[:, :LONGEST_STRETCH]
    deviations = deviations - deviations.mean(1, keepdims=True)
    largest = np.abs(deviations).max((0, 1))
    deviations = deviations / np.where(largest > 0, largest, 1)  # squares of large numbers would overflow
    return autocorrelation_times(np.concatenate([deviations, deviations**2], axis=2))


def flip_probability(x: Float[np.ndarray, "chains draws d"], num_samples: int | None = None) -> float:
    r"""Flip probability of the dependent bootstrap, from the autocorrelation of the samples and of their squares.

    $$
    a = \min\Big(\frac12, \; c \, \big(N (1 + K) \bar\tau^2\big)^{-1/3} \Big), \qquad
    \bar\tau = \frac{\sum_d \tau_d^2 (\tau_d - 1 / \tau_d)}{\sum_d \tau_d^2}, \quad
    K = \frac{(\sum_d \tau_d)^2}{\sum_d \tau_d^2} .
    $$

    The bootstrap replaces the variance $\tau$ of a mean by $\sum_k (1 - 2a)^{|k|} \rho_k$. For an
    autoregression this is too small by the fraction $a (\tau - 1 / \tau)$, which shifts the null by
    $\sqrt{K / 2}$ times as many of its standard deviations if K directions add up; and it fluctuates by
    about $1 / \sqrt{N a}$. The sum of both squares is least at a multiple c of
    $(N K \bar\tau^2)^{-1/3}$. Columns are weighted by their part in the variance of the null,
    $\tau_d^2$, so that one slow parameter among many fast ones counts. Squares count as columns: draws of
    Hamiltonian Monte Carlo alternate, so that their means look independent and their scales are not. The 1
    beside K stands for what the kernel sees beyond the columns. The value is kept large enough that the signs of
    a draw are all equal, and the draw equal to the statistic, with a probability below $e^{-5}$.

    The constant c = 0.9 comes from simulated KSD and maxSKSD tests of autoregressions; tests/unit/test_null.py and
    experiments/chain_level.py repeat a part of them.

    Parameters
    ----------
    x
        Samples in order of time, (chains, draws, D); other columns that may mix slowly
        (scores, the log-density) can be put beside them.
    num_samples
        N, where x is a stretch of longer chains.
    """
    chains, draws, _ = x.shape
    count = num_samples or chains * draws
    tau = times_with_squares(x)
    square = np.sum(tau**2)
    slowness = np.sum(tau**2 * (tau - 1 / tau)) / square
    wide = np.sum(tau) ** 2 / square
    least = max(EXPECTED_FLIPS - (chains - 1) * math.log(2), 0) / count
    balanced = FLIP_CONSTANT / np.cbrt(max(count * (1 + wide) * slowness**2, 1e-300))
    return float(np.clip(balanced, min(least, 0.5), 0.5))


def between_blocks(flip: float, rows: float) -> float:
    """Flip probability from one block to the next, for signs that flip with a probability from row to row."""
    return (1 - (1 - 2 * flip) ** rows) / 2


class SumLaw(NamedTuple):
    """The law of sums under the null."""

    variance: Float[np.ndarray, "*g k"]
    cumulant: Float[np.ndarray, "*g k"]  # the third
    known: Float[np.ndarray, "*g k"] | None  # from how many independent values the variance is known; None: well enough


def law_of_sums(terms: Float[np.ndarray, "n *g k"], chains: int | None) -> SumLaw:
    r"""The law of the sum of every column: of independent terms, or of those of so many chains, one after the other.

    In chains the variance is $N v \tau$, with the variance v within chains and the autocorrelation time of the column,
    known from $N / (2 W + 1)$ values with the window $W$ of that time, ``WINDOW`` times $\tau$ (Sokal 1997), and from
    the times of the other columns k of its group (`_shared_times`).
    """
    terms = terms.astype(float)  # cubes of large numbers would overflow in single precision
    squares = np.sum(terms**2, axis=0)
    if chains is None:
        return SumLaw(squares, np.sum((terms - terms.mean(0)) ** 3, axis=0), None)
    groups = squares.shape
    series = terms.reshape(chains, -1, squares.size)
    times = _plain_times(series).reshape(-1, groups[-1])
    shared = [_shared_times(group, len(terms)) for group in times]
    tau, known = (np.stack(part).reshape(groups) for part in zip(*shared, strict=True))
    variance = len(terms) * tau * series.var(axis=1, ddof=1).mean(0).reshape(groups)
    cumulant = _third_cumulant(series, tau.ravel()).reshape(groups)
    return SumLaw(np.maximum(variance, LEAST_VARIANCE * squares), cumulant, known)


def _shared_times(
    times: Float[np.ndarray, " k"], count: int
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    r"""Autocorrelation times, at least 1, that learn from each other, and from how many values each is known.

    As variances do in a moderated t-test (Smyth 2004): times of columns scatter around a common one, by their errors
    and by what they differ. The less they differ, the more the others tell of each. A column that is slower than its
    error and the others explain keeps its own time. Middle and scatter are medians, so that a few slow columns do not
    count.
    """
    own = np.maximum(count / (2 * WINDOW * np.maximum(times, 1) + 1), FEWEST_KNOWN)
    logs = np.log(np.maximum(times, LEAST_TIME)) - digamma(own / 2) + np.log(own / 2)
    noise = polygamma(1, own / 2)
    middle = np.median(logs)
    scatter = (1.4826 * np.median(np.abs(logs - middle))) ** 2
    # Others count as much as the column itself at most: what all times have wrong together does not show.
    differ = max(scatter - np.median(noise), 0) + np.median(noise)
    others = (1 - 1 / len(times)) * 2 / differ
    joint = (others * np.exp(middle) + own * times) / (others + own)
    alike = logs - middle < 2 * np.sqrt(noise + differ)
    return np.maximum(np.where(alike, joint, times), 1), np.where(alike, others + own, own)


def _third_cumulant(
    series: Float[np.ndarray, "chains draws k"], tau: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """Of the sum of every column: cubes of sums over stretches that are longer than its memory."""
    stretches = series - series.mean((0, 1))
    found = np.empty(len(tau))
    length, left = 1, np.ones(len(tau), bool)
    while left.any():
        now = left & ((length >= 2 * tau - 1) | (stretches.shape[1] < FEWEST_STRETCHES))
        found[now] = np.sum(stretches[:, :, now] ** 3, axis=(0, 1))
        left &= ~now
        stretches = np.add.reduceat(stretches, np.arange(0, stretches.shape[1], 2), axis=1)
        length *= 2
    return found


def with_estimated_error(
    draws: Float[np.ndarray, "b *c k"], known: Float[np.ndarray, " k"], rng: np.random.Generator
) -> Float[np.ndarray, "b *c k"]:
    """Draws of normal variables, divided by errors that are known from so many independent values only."""
    ratios = rng.chisquare(known, (len(draws), len(known))) / known
    return draws / np.sqrt(ratios.reshape(len(draws), *(1,) * (draws.ndim - 2), -1))
