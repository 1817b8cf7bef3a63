r"""Kernelized Stein discrepancy tests in the full space: all pairs, and disjoint pairs.

$$
h(x, y) = \kappa \, s(x)^\top s(y) - \frac{\kappa'}{d} (s(x) - s(y))^\top (x - y)
- \kappa'' - (D - 1) \frac{\kappa'}{d}, \quad d = |x - y|
$$

in units of the bandwidth (label "eq: KSD"; Liu, Lee and Jordan 2016; Chwialkowski, Strathmann and Gretton 2016).
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._stein import full_space
from slicestein._stein.numpy_bandwidths import full_bandwidth
from slicestein.gof import dependence, null
from slicestein.gof.method import Bootstrap, Method, Problem, choose_bootstrap, in_memory, independent, pairs_fit
from slicestein.gof.result import GofResult
from slicestein.kernels import RBF, Kernel


def ksd_matrix(
    x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"], kernel: Kernel = RBF()
) -> Float[np.ndarray, "n n"]:
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
    return full_space.matrix(full_space.scale(x, s, full_bandwidth(kernel, x)), kernel)


def linear_ksd_terms(
    x: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
    kernel: Kernel = RBF(),
    pairing: Literal["halves", "neighbours"] = "halves",
) -> Float[np.ndarray, " k"]:
    """h of N // 2 disjoint pairs of samples: i with i + N // 2 (``"halves"``), or 2 i with 2 i + 1.

    Halves keep the pairs of a Markov chain nearly independent. Cost: O(N D).
    """
    half = len(x) // 2
    first, second = (slice(half), slice(half, 2 * half))
    if pairing == "neighbours":
        first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    y, b, bandwidth = full_space.scale(x, s, full_bandwidth(kernel, x))
    one, other = (full_space.Scaled(y[rows], b[rows], bandwidth) for rows in (first, second))
    return full_space.of_pairs(kernel, one, other)


@dataclasses.dataclass(frozen=True)
class KSD(Method):
    """KSD test with all pairs of samples.

    Parameters
    ----------
    kernel
        Kernel on the full space.
    bootstrap
        As in `MaxSKSD`. The statistic is U, and V for ``"dependent"``.

    Notes
    -----
    Cost: O(N^2 (D + B)) time, O(N^2 + B N) memory.

    Differs from the paper: signs by default, not multinomial counts; the same from N = 100 on, and closer to the
    level below.
    """

    kernel: Kernel = RBF()
    bootstrap: Bootstrap = "auto"
    label: ClassVar[str] = "ksd"

    def __post_init__(self) -> None:
        _checks.kernel(self.kernel, 1)

    def test(self, problem: Problem) -> GofResult:
        """Test all rows."""
        kind, problem = choose_bootstrap(self.bootstrap, problem)
        pairs_fit(problem.rows, self.name)
        rows = in_memory(problem, self.name)
        x, s = rows.flat
        _checks.bandwidth_exists(self.kernel, x)
        chains, draws, _ = rows.x.shape
        found = null.matrix_test(
            ksd_matrix(x, s, self.kernel),
            problem.rng,
            problem.num_bootstrap,
            kind=kind,
            lengths=(draws,) * chains,
            flip_probability=dependence.flip_probability(rows.x) if kind == "dependent" else 0.5,
        )
        return self.result(problem, found, null=kind, num_train=0, num_test=len(x))


@dataclasses.dataclass(frozen=True)
class LinearKSD(Method):
    r"""KSD test with disjoint pairs: linear in N, weak.

    $$
    T = \sqrt n \, \bar h, \qquad T \to N(0, \sigma^2), \quad \sigma^2 = \overline{h^2}, \quad n = N / 2,
    $$

    because the mean of h is zero under the null. The p-value is that of the normal limit;
    ``null_distribution`` holds draws from it.

    Parameters
    ----------
    kernel
        Kernel on the full space.
    pairing
        See :func:`linear_ksd_terms`.

    Notes
    -----
    Cost: O(N D + B).
    """

    kernel: Kernel = RBF()
    pairing: Literal["halves", "neighbours"] = "halves"
    label: ClassVar[str] = "linear-ksd"

    def __post_init__(self) -> None:
        _checks.kernel(self.kernel, 1)
        _checks.one_of("pairing", self.pairing, ("halves", "neighbours"))

    def test(self, problem: Problem) -> GofResult:
        """Test all rows."""
        x, s = independent(problem, self.name).flat
        _checks.bandwidth_exists(self.kernel, x)
        terms = linear_ksd_terms(x, s, self.kernel, self.pairing)
        statistic = math.sqrt(len(terms)) * float(np.mean(terms))
        deviation = math.sqrt(np.mean(terms**2))
        draws = deviation * problem.rng.standard_normal(problem.num_bootstrap)
        null.require_finite(statistic, draws)
        z = statistic / deviation if deviation > 0 else 0.0  # no pair is within reach of the kernel
        found = null.Outcome(statistic, draws, 0.5 * math.erfc(z / math.sqrt(2)))
        return self.result(problem, found, null="normal limit", num_train=0, num_test=len(x))
