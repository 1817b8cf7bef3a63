r"""Kernelized Stein discrepancy tests in the full space: all pairs, and disjoint pairs.

$$
h(x, y) = \kappa \, s(x)^\top s(y) - \frac{\kappa'}{d} (s(x) - s(y))^\top (x - y)
- \kappa'' - (D - 1) \frac{\kappa'}{d}, \quad d = |x - y|
$$

in units of the bandwidth (label "eq: KSD"; Liu, Lee and Jordan 2016; Chwialkowski, Strathmann and Gretton 2016).
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from slicestein._stein import bandwidths, full_space
from slicestein.gof.null import Kind, Outcome, bootstrap_test
from slicestein.kernels import RBF, Kernel


@jax.jit
def ksd_matrix(x: Float[Array, "n d"], s: Float[Array, "n d"], kernel: Kernel = RBF()) -> Float[Array, "n n"]:
    """The Stein kernel between all samples.

    Parameters
    ----------
    x, s
        Samples and scores, (N, D).
    kernel
        Kernel on the full space; the median bandwidth is the median distance between samples.

    Notes
    -----
    Cost: O(N^2 D) time in three matrix products, O(N^2) memory.
    """
    return full_space.matrix(full_space.scale(x, s, bandwidths.in_full_space(kernel, x)), kernel)


@functools.partial(jax.jit, static_argnames=("num_draws", "kind", "num_chains"))
def ksd_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    kernel: Kernel = RBF(),
    kind: Kind = "rademacher",
    num_chains: int = 1,
    flip_probability: float | Float[Array, ""] | None = None,
) -> Outcome:
    """KSD test with all pairs of samples.

    Parameters
    ----------
    x, s
        Samples and scores, (N, D).
    kernel
        Kernel on the full space.
    kind, num_draws, num_chains, flip_probability
        The bootstrap: see :func:`slicestein.null.bootstrap_test`. The statistic is U, and V for ``"dependent"``.

    Notes
    -----
    Cost: O(N^2 (D + B)) time, O(N^2 + B N) memory.

    Differs from the paper: signs by default, not multinomial counts; the same from N = 100 on, and closer to the
    level below.
    """
    return bootstrap_test(
        ksd_matrix(x, s, kernel),
        key=key,
        kind=kind,
        num_draws=num_draws,
        num_chains=num_chains,
        flip_probability=flip_probability,
    )


@functools.partial(jax.jit, static_argnames="pairing")
def linear_ksd_terms(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    kernel: Kernel = RBF(),
    pairing: Literal["halves", "neighbours"] = "halves",
) -> Float[Array, " k"]:
    """h of N // 2 disjoint pairs of samples: i with i + N // 2 (``"halves"``), or 2 i with 2 i + 1.

    Halves keep the pairs of a Markov chain nearly independent. Cost: O(N D).
    """
    half = x.shape[0] // 2
    first, second = (slice(half), slice(half, 2 * half))
    if pairing == "neighbours":
        first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    y, b, bandwidth = full_space.scale(x, s, bandwidths.in_full_space(kernel, x))
    one, other = (full_space.Scaled(y[rows], b[rows], bandwidth) for rows in (first, second))
    return full_space.of_pairs(kernel, one, other)


@functools.partial(jax.jit, static_argnames=("num_draws", "pairing"))
def linear_ksd_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    kernel: Kernel = RBF(),
    pairing: Literal["halves", "neighbours"] = "halves",
) -> Outcome:
    r"""KSD test with disjoint pairs: linear in N, weak.

    $$
    T = \sqrt n \, \bar h, \qquad T \to N(0, \sigma^2), \quad \sigma^2 = \overline{h^2}, \quad n = N / 2,
    $$

    because the mean of h is zero under the null. The p-value is that of the normal limit;
    ``null_distribution`` holds draws from it.

    Parameters
    ----------
    x, s, kernel
        As in :func:`ksd_test`.
    pairing
        See :func:`linear_ksd_terms`.

    Notes
    -----
    Cost: O(N D + B).
    """
    terms = linear_ksd_terms(x, s, kernel, pairing)
    statistic = math.sqrt(terms.shape[0]) * jnp.mean(terms)
    deviation = jnp.sqrt(jnp.mean(terms**2))
    draws = deviation * jax.random.normal(key, (num_draws,), x.dtype)
    return Outcome(statistic, draws, jax.scipy.stats.norm.sf(statistic / deviation))
