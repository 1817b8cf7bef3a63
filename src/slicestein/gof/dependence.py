"""How long Markov chains remember, and what the bootstrap must keep of it."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein._checks import InputError

# Autocorrelations are summed up to this many autocorrelation times (Sokal's window).
WINDOW = 5.0
# Constants of `flip_probability`: see its docstring.
FLIP_CONSTANT = 0.9
EXPECTED_FLIPS = 5.0


@functools.partial(jax.jit, static_argnames="num_chains")
def autocorrelation_times(x: Float[Array, "n d"], num_chains: int = 1) -> Float[Array, " d"]:
    r"""Integrated autocorrelation time of each column, $\tau = 1 + 2 \sum_{k \ge 1} \rho_k$, at least 1.

    The sum stops at the first lag beyond ``WINDOW`` times the sum so far. Autocorrelations are averaged over
    chains around the common mean, so that chains that disagree count as slow. Cost: O(N D log N).
    """
    length = chain_length(x.shape[0], num_chains)

    def one_column(column: Array) -> Array:
        chains = (column - column.mean()).reshape(num_chains, length)
        power = jnp.abs(jnp.fft.rfft(chains, 2 * length, axis=1)) ** 2  # padded: no wrap-around
        covariance = jnp.fft.irfft(power, 2 * length, axis=1)[:, :length].mean(0)
        times = jnp.where(jnp.ptp(column) > 0, 2 * jnp.cumsum(covariance / covariance[0]) - 1, 1)
        beyond = jnp.arange(length) >= WINDOW * times
        return jnp.maximum(jnp.where(beyond.any(), times[jnp.argmax(beyond)], times.max()), 1)

    return lax.map(one_column, x.T)


@functools.partial(jax.jit, static_argnames="num_chains")
def times_with_squares(x: Float[Array, "n d"], num_chains: int = 1) -> Float[Array, " two_d"]:
    """Autocorrelation times of the samples, then of the squares of their deviations."""
    return autocorrelation_times(jnp.concatenate([x, (x - x.mean(0)) ** 2], axis=1), num_chains)


@functools.partial(jax.jit, static_argnames="num_chains")
def flip_probability(x: Float[Array, "n d"], num_chains: int = 1) -> Float[Array, ""]:
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
        Samples in order of time, (N, D), one chain after the other; other columns that may mix slowly
        (scores, the log-density) can be put beside them.
    num_chains
        Number of chains of equal length.
    """
    count = x.shape[0]
    tau = times_with_squares(x, num_chains)
    square = jnp.sum(tau**2)
    slowness = jnp.sum(tau**2 * (tau - 1 / tau)) / square
    directions = jnp.sum(tau) ** 2 / square
    least = max(EXPECTED_FLIPS - (num_chains - 1) * math.log(2), 0) / count
    balanced = FLIP_CONSTANT / jnp.cbrt(count * (1 + directions) * slowness**2)
    return jnp.clip(balanced, least, 0.5)


def chain_length(num_samples: int, num_chains: int) -> int:
    """Samples per chain."""
    if num_samples % num_chains:
        raise InputError(
            f"num_chains = {num_chains} does not divide the {num_samples} samples: pass chains of equal length, "
            "one after the other"
        )
    return num_samples // num_chains
