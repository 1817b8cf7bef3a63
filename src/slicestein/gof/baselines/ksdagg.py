r"""KSDAgg: KSD tests at several bandwidths in one, without a split of the samples (Schrab, Guedj and Gretton 2022).

With K inverse multiquadric kernels $(1 + |x - y|^2 / l_i^2)^{-1/2}$, weights $w_i$ that sum to one, and 2B rows of
signs that all kernels share, let $p_i$ be the p-value of kernel i from the first B rows. Some kernel rejects at the
level $u w_i$ as soon as

$$
u \ge u_* = \min_i p_i / w_i .
$$

The same minimum for the other B rows of signs, each in the place of the statistic, is its null. The published
algorithm searches the largest u at which at most a share $\alpha$ of those rows is rejected, and rejects if the
statistic is rejected at that u: if and only if at most a share $\alpha$ of the rows has a minimum of $u_*$ or less.
That share is therefore the p-value, and no search is needed. It is counted as in every test of the package, the
statistic with the draws.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from slicestein import _checks
from slicestein._stein.full_space import squared_distances
from slicestein.gof import null
from slicestein.gof.baselines.ksd import ksd_matrix
from slicestein.gof.method import Method, Problem, independent, pairs_fit
from slicestein.gof.result import GofResult
from slicestein.kernels import IMQ

Weights = Literal["uniform", "decreasing", "increasing", "centred"]
RANGE_ROWS = 500  # the largest distance is that between the first of the samples


def aggregated_bandwidths(x: Float[np.ndarray, "n d"], num: int) -> Float[np.ndarray, " k"]:
    r"""$l_i = L^{i / (K - 1)} / D$ with L the largest distance between samples, at least 2.

    As published: from 1 / D on, whatever the units of x are.
    """
    some = x[:RANGE_ROWS].astype(float)
    some = some - some.mean(0)
    largest = max(2.0, float(np.sqrt(squared_distances(some, some).max())))
    return largest ** np.linspace(0, 1, num) / x.shape[1]


def inverse_weights(weights: Weights, num: int) -> Int[np.ndarray, " k"]:
    """1 / w of every kernel up to a factor: integers, so that ranks times these are compared without rounding."""
    first = np.arange(1, num + 1)
    return {
        "uniform": np.ones_like(first),
        "decreasing": first,
        "increasing": first[::-1],
        "centred": abs(num + 1 - 2 * first) // 2 + 1,
    }[weights]


def aggregated_forms(
    x: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
    bandwidths: Float[np.ndarray, " k"],
    weights: Float[np.ndarray, "b n"],
) -> Float[np.ndarray, "k b"]:
    """Quadratic forms of the Stein kernel at every bandwidth, without the diagonal.

    Cost: O(K N^2 (D + B)) time, O(N^2 + B N) memory: one matrix at a time.
    """
    pairs, weights = len(x) * (len(x) - 1), weights.astype(x.dtype)
    matrices = (ksd_matrix(x, s, IMQ(float(bandwidth))) for bandwidth in bandwidths)
    return np.stack([null.quadratic_forms(matrix, weights, diagonal=False) for matrix in matrices]) / pairs


def aggregate(forms: Float[np.ndarray, "k b"], inverse: Int[np.ndarray, " k"]) -> null.Outcome:
    """The outcome of all kernels: statistic and draws are -u, by the ranks of the forms among the first 1 + B.

    Parameters
    ----------
    forms
        Of every kernel: the statistic, B draws that rank, B draws that are ranked.
    inverse
        1 / w up to a factor.
    """
    null.require_finite(0.0, forms)
    count = forms.shape[1] // 2 + 1
    tie = null.TIE.get(forms.dtype.name, 1e-10) * np.abs(forms[:, :1])
    ranked = np.concatenate([forms[:, :1] - tie, forms[:, count:]], axis=1)
    # How many of the first are as large; the statistic counts itself.
    above = [count - np.searchsorted(np.sort(row), of) for row, of in zip(forms[:, :count], ranked, strict=True)]
    u = np.min(inverse[:, None] * above, axis=0) * np.sum(1 / inverse) / count
    return null.outcome(-u[0], -u[1:])


@dataclasses.dataclass(frozen=True)
class KSDAgg(Method):
    r"""KSD test at several bandwidths in one.

    The statistic is $-\min_i p_i / w_i$: minus the p-value that the best kernel would have by Bonferroni's rule, of
    which the p-value of the test is what is left after a look at how much the kernels have in common. Both the
    p-values of the kernels and their minimum are compared with B = ``num_bootstrap`` draws (2000 in the authors' code).

    Parameters
    ----------
    num_bandwidths
        K.
    weights
        Of the kernels, from the smallest bandwidth to the largest: ``"uniform"``, ``"decreasing"``, ``"increasing"``
        or ``"centred"``.

    Notes
    -----
    Bandwidths start at 1 / D, as published, which is near in many dimensions: samples that are far apart in units of
    the bandwidth see an IMQ kernel as 1 / distance, and the first kernels are all alike.

    Cost: O(K N^2 (D + B)) time, O(N^2 + B N) memory.
    """

    num_bandwidths: int = 10
    weights: Weights = "uniform"
    label: ClassVar[str] = "ksdagg"

    def __post_init__(self) -> None:
        _checks.one_of("weights", self.weights, get_args(Weights))
        _checks.positive(num_bandwidths=self.num_bandwidths)

    def test(self, problem: Problem) -> GofResult:
        """Test all rows."""
        pairs_fit(problem.rows, self.name)
        x, s = independent(problem, self.name).flat
        _checks.rows_differ(x)
        signs = null.draw_weights("wild", problem.rng, 1 + 2 * problem.num_bootstrap, (len(x),))
        signs[0] = 1
        forms = aggregated_forms(x, s, aggregated_bandwidths(x, self.num_bandwidths), signs)
        found = aggregate(forms, inverse_weights(self.weights, self.num_bandwidths))
        return self.result(problem, found, null="wild", num_train=0, num_test=len(x))
