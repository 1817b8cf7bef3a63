"""Bandwidths of NumPy arrays: the median rule, as in `bandwidths`."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from slicestein._stein.native import median_gap
from slicestein.kernels import Kernel

MEDIAN_ROWS = 250


def thin(x: Float[np.ndarray, "n *d"], most: int = MEDIAN_ROWS) -> Float[np.ndarray, "k *d"]:
    """At most so many rows, evenly spread, so that a drift along a chain is seen too."""
    if len(x) <= most:
        return x
    return x[np.linspace(0, len(x) - 1, most).round().astype(int)]


def slice_bandwidths(kernel: Kernel, t: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " m"]:
    """Bandwidth of each row of projected samples."""
    if kernel.bandwidth is None:
        return median_gap(np.ascontiguousarray(thin(t.T).T)) * kernel.scale
    return np.broadcast_to(np.asarray(kernel.bandwidth, t.dtype) * kernel.scale, t.shape[:1])


def full_bandwidth(kernel: Kernel, x: Float[np.ndarray, "n d"]) -> float:
    """Bandwidth in the full space, where the median rule looks at distances between rows of x."""
    base = median_distance(x) if kernel.bandwidth is None else np.asarray(kernel.bandwidth).item()
    return float(kernel.scale * base)


def median_distance(x: Float[np.ndarray, "n d"]) -> float:
    """Median Euclidean distance between (thinned) samples; their mean where that is 0."""
    x = thin(x)
    x = x - x.mean(0)
    square = np.sum(x**2, axis=1)
    q = np.maximum(square[:, None] + square - 2 * x @ x.T, 0)
    distances = np.sqrt(q[np.triu_indices(len(x), 1)])
    median = np.median(distances)
    return float(median if median > 0 else distances.mean())
