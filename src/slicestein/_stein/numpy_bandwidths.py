"""Bandwidths of NumPy arrays: the median rule, as in `bandwidths`."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from slicestein._stein.bandwidths import evenly_spread
from slicestein._stein.full_space import squared_distances
from slicestein._stein.native import median_gap
from slicestein.kernels import Kernel


def slice_bandwidths(kernel: Kernel, t: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " m"]:
    """Bandwidth of each row of projected samples."""
    if kernel.bandwidth is None:
        return median_gap(np.ascontiguousarray(evenly_spread(t.T).T)) * kernel.scale
    return np.broadcast_to(np.asarray(kernel.bandwidth, t.dtype) * kernel.scale, t.shape[:1])


def full_bandwidth(kernel: Kernel, x: Float[np.ndarray, "n d"]) -> float:
    """Bandwidth in the full space, where the median rule looks at distances between rows of x."""
    base = median_distance(x) if kernel.bandwidth is None else np.asarray(kernel.bandwidth).item()
    return float(kernel.scale * base)


def median_distance(x: Float[np.ndarray, "n d"]) -> float:
    """Median Euclidean distance between (some of the) samples; their mean where that is 0."""
    x = evenly_spread(x)
    x = x - x.mean(0)
    distances = np.sqrt(squared_distances(x, x)[np.triu_indices(len(x), 1)])
    median = np.median(distances)
    return float(median if median > 0 else distances.mean())
