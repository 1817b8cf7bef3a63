r"""Maximum mean discrepancy between the samples and draws from the model (Gretton et al. 2012).

$$
H_{ij} = k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(y_i, x_j), \qquad MMD^2 = U(H)
$$

with as many draws y from the model as samples x. It needs no score, but a sampler of the model.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._stein.full_space import squared_distances
from slicestein._stein.numpy_bandwidths import full_bandwidth
from slicestein.gof import null
from slicestein.gof.method import Method, Problem, independent, pairs_fit
from slicestein.gof.result import GofResult
from slicestein.kernels import RBF, Kernel
from slicestein.rows.arrays import as_rows


def mmd_matrix(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n d"], kernel: Kernel = RBF()
) -> Float[np.ndarray, "n n"]:
    """H of the pairs (x_i, y_i), (N, N). The median bandwidth is over the pooled samples. Cost: O(N^2 D)."""
    count = len(x)
    pooled = np.concatenate([x, y])
    scaled = (pooled - pooled.mean(0)) / full_bandwidth(kernel, pooled)
    k, _, _ = kernel.derivatives(squared_distances(scaled, scaled))
    cross = k[:count, count:]
    return k[:count, :count] + k[count:, count:] - cross - cross.T


@dataclasses.dataclass(frozen=True, eq=False)
class MMD(Method):
    """MMD test of the samples against draws from the model.

    A sign on row i of H swaps x_i and y_i, which changes nothing in distribution under the null: with signs
    (``"wild"``) the test is a permutation test, exact at any N. Observed and drawn statistics are both the
    U-statistic of H.

    Parameters
    ----------
    model_samples
        Independent draws from the model, (N, D): as many as samples; more are left out.
    kernel
        Kernel on the full space.
    bootstrap
        ``"wild"`` or ``"multinomial"``.

    Notes
    -----
    Cost: O(N^2 (D + B)) time, O(N^2 + B N) memory.
    """

    model_samples: Any
    kernel: Kernel = RBF()
    bootstrap: Literal["wild", "multinomial"] = "wild"
    label: ClassVar[str] = "mmd"
    needs_score: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _checks.kernel(self.kernel, 1)
        _checks.one_of("bootstrap", self.bootstrap, ("wild", "multinomial"))

    def test(self, problem: Problem) -> GofResult:
        """Test all rows."""
        pairs_fit(problem.rows, self.name)
        x, _ = independent(problem, self.name, scored=False).flat
        y, _ = as_rows(self.model_samples, np.zeros_like, "model_samples")
        if len(y) < len(x) or y.shape[1] != x.shape[1]:
            raise InputError(
                f"model_samples must have the shape of x, {x.shape}, or more rows, got {y.shape}: samples are paired"
            )
        y = y[: len(x)].astype(x.dtype)
        _checks.bandwidth_exists(self.kernel, np.concatenate([x, y]))
        matrix = mmd_matrix(x, y, self.kernel)
        found = null.matrix_test(matrix, problem.rng, problem.num_bootstrap, kind=self.bootstrap)
        return self.result(problem, found, null=self.bootstrap, num_train=0, num_test=len(x))
