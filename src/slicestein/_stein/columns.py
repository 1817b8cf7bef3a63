r"""The Stein kernel between one draw and all others: the sum of those of all slices, of the full space, or of both.

$$ h_{ni} = \sum_m h^{(m)}_{ni} + h^{\text{full}}_{ni} , $$

the first of slice m (`operator`, label "eq: SKSD inner"), the second of `full_space` (label "eq: KSD"). What chooses or
weighs draws needs some columns of this matrix, never the matrix. NumPy, in the precision of the draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._stein import full_space, operator
from slicestein._stein.full_space import Scaled
from slicestein._stein.operator import Projected
from slicestein.kernels import Kernel

# Values of the arrays (slices, draws) that are made on the way: all of them fit into the cache of a core.
GROUP_VALUES = 2**16


class Columns(NamedTuple):
    """Draws as the kernel sees them, in units of its bandwidths; None for a part that is left out."""

    kernel: Kernel
    sliced: Projected | None  # (M, N)
    full: Scaled | None

    def diagonal(self) -> Float[np.ndarray, " n"]:
        """h between every draw and itself. Cost: O(N (M + D))."""
        k, k1, k2 = (float(part) for part in self.kernel.derivatives(np.zeros(())))
        parts = []
        if self.sliced is not None:
            _, a, c = self.sliced
            parts.append(np.sum(k * a**2 - k2 * c**2, axis=0, dtype=float))
        if self.full is not None:
            _, b, bandwidth = self.full
            laplacian = k2 + (b.shape[1] - 1) * k1
            parts.append((k * np.sum(b**2, axis=1, dtype=float) - laplacian) / bandwidth**2)
        return np.sum(parts, axis=0)

    def column(self, index: int) -> Float[np.ndarray, " n"]:
        """h between all draws and one of them. Cost: O(N (M + D))."""
        parts = []
        if self.sliced is not None:
            parts.append(_along_slices(self.kernel, self.sliced, index))
        if self.full is not None:
            y, b, bandwidth = self.full
            parts.append(full_space.of_pairs(self.kernel, self.full, Scaled(y[index], b[index], bandwidth)))
        return np.sum(parts, axis=0, dtype=float)


def _along_slices(kernel: Kernel, draws: Projected, index: int) -> Float[np.ndarray, " n"]:
    count = draws.num_samples
    group = max(1, GROUP_VALUES // count)
    total = np.zeros(count)
    for start in range(0, len(draws.u), group):
        some = Projected(*(part[start : start + group] for part in draws))
        one = Projected(some.u[:, index, None], some.a[:, index, None], some.c)
        total += operator.pair_kernel(kernel, some, one).sum(0)
    return total
