r"""Sums of Fourier features and median gaps for NumPy arrays: no JAX, so neither compilation nor a switch for float64.

The line of a slice is bent to a bounded length, which is a feature map of the slice: the identity on the bulk, slow in
the tails. With $y = t - \text{centre}$, $z = (|y| - \text{bulk}) / \text{tail}$ and $\rho = (1 + z^2)^{-1/2}$,

$$
T(y) = y, \; T'(y) = 1 \quad (|y| \le \text{bulk}), \qquad
T(y) = \operatorname{sign}(y) \, (\text{bulk} + \text{tail} \, z \rho), \; T'(y) = \rho^3 \quad \text{beyond}.
$$

With $u = T(y)$, frequencies $w_j = j \Delta$ and weights $A_j$ of a quadrature rule, feature j of a row is

$$ \sqrt{A_j} \, (a + i w_j c \, T'(y)) \, e^{i w_j u}. $$

The work is done by the C++ extension, by plain NumPy where there is none or where ``SLICESTEIN_PORTABLE=1`` is set in
the environment of the process. Both give the same numbers up to rounding.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import numpy as np
from jaxtyping import Float, Int


def _load_extension() -> ModuleType | None:
    if os.environ.get("SLICESTEIN_PORTABLE", "0") not in ("", "0"):
        return None
    try:
        return importlib.import_module("slicestein._stein._trig")
    except ImportError:
        return None


EXTENSION = _load_extension()
NUM_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# Beyond it T is at its limit and T' zero in the precision at hand; the square of z is still a number.
_FARTHEST = {"float32": 1e18, "float64": 1e150}


def block_sums(
    t: Float[np.ndarray, "m n"],
    a: Float[np.ndarray, "m n"],
    c: Float[np.ndarray, "m _"],
    ends: Int[np.ndarray, " blocks"],
    *,
    spacing: float,
    roots: Float[np.ndarray, " j"],
    centre: Float[np.ndarray, " m"],
    bulk: Float[np.ndarray, " m"],
    tail: float,
) -> Float[np.ndarray, "blocks m two_j"]:
    r"""Sums of the Fourier features of slices over blocks of consecutive rows.

    Parameters
    ----------
    t
        Positions in units of the bandwidth (M, n), float32 or float64; rows that are contiguous are not copied.
    a, c
        Projected scores (M, n), and the Jacobian term, (M, n) or (M, 1).
    ends
        Non-decreasing ends of the blocks, the last one n: block b is rows ``ends[b-1]:ends[b]``.
    spacing
        $\Delta$. Angles $\Delta u$ must stay within $[-\pi, \pi]$, so (bulk + tail) spacing is at most $\pi$.
    roots
        $\sqrt{A_j}$, (J,).
    centre, bulk, tail
        Of the bounded line, in units of the bandwidth; ``tail`` is positive.

    Returns
    -------
    sums
        (blocks, M, 2J), of the type of t: the J real parts, then the J imaginary parts. A block with a t, a or c that
        is not finite is NaN in that slice; a block without rows is 0. Sums of long blocks are accumulated in float64.

    Cost: O(n M J), and the memory of the result.
    """
    dtype = t.dtype
    t, a, c, centre, bulk = (np.ascontiguousarray(z, dtype) for z in (t, a, c, centre, bulk))
    ends, roots = np.ascontiguousarray(ends, np.int64), np.ascontiguousarray(roots, np.float64)
    out = np.empty((len(ends), len(t), 2 * len(roots)), dtype)
    if EXTENSION is None:
        _portable_block_sums(t, a, c, ends, roots, centre, bulk, out, spacing, tail)
    else:
        EXTENSION.block_sums(t, a, c, ends, roots, centre, bulk, out, spacing, tail, NUM_THREADS)
    return out


def median_gap(t: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " m"]:
    r"""Median of $|t_i - t_j|$ over i < j for every row; where that is 0 (ties), their mean.

    The two middle values are averaged, as in NumPy. A row with a value that is not finite, or with fewer than two
    values, gives NaN. Cost: O(n log n) per row.
    """
    t = np.sort(t, axis=1)
    median = np.empty(len(t), t.dtype)
    if EXTENSION is None:
        median[:] = [_portable_median_gap(row) for row in t]
    else:
        EXTENSION.median_gap(t, median, NUM_THREADS)
    tied = np.flatnonzero(median == 0)
    median[tied] = [_mean_gap(row) for row in t[tied]]
    return median


def bounded(
    y: Float[np.ndarray, "..."], bulk: float | Float[np.ndarray, "..."], tail: float
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """T(y) and T'(y) of the bounded line; NaN where y is not finite."""
    size = np.abs(y)
    z = np.clip((size - bulk) / y.dtype.type(tail), 0, _FARTHEST[y.dtype.name])
    root = 1 / np.sqrt(1 + z * z)
    finite = np.where(np.isfinite(y), y.dtype.type(1), y.dtype.type(np.nan))
    return finite * np.copysign(np.minimum(size, bulk) + y.dtype.type(tail) * z * root, y), finite * root**3


def _portable_block_sums(
    t: np.ndarray,
    a: np.ndarray,
    c: np.ndarray,
    ends: np.ndarray,
    roots: np.ndarray,
    centre: np.ndarray,
    bulk: np.ndarray,
    out: np.ndarray,
    spacing: float,
    tail: float,
) -> None:
    starts = np.concatenate([[0], ends[:-1]])
    filled = ends > starts  # reduceat knows no empty blocks
    out[...] = 0
    if not filled.any():
        return
    sums = np.empty((2, len(roots), filled.sum()))
    with np.errstate(invalid="ignore", over="ignore"):
        for m in range(len(t)):
            u, slope = bounded(t[m] - centre[m], bulk[m], tail)
            jacobian = np.where(np.isfinite(a[m]) & np.isfinite(c[m]), c[m] * slope, t.dtype.type(np.nan))
            for j, root in enumerate(roots):
                w = t.dtype.type(j * spacing)
                cos, sin = np.cos(w * u), np.sin(w * u)
                real, imag = a[m] * cos - w * jacobian * sin, a[m] * sin + w * jacobian * cos
                sums[0, j] = root * np.add.reduceat(real, starts[filled], dtype=np.float64)
                sums[1, j] = root * np.add.reduceat(imag, starts[filled], dtype=np.float64)
            out[filled, m] = sums.reshape(-1, filled.sum()).T


def _portable_median_gap(t: Float[np.ndarray, " n"]) -> float:
    pairs = len(t) * (len(t) - 1) // 2
    with np.errstate(invalid="ignore", over="ignore"):
        if pairs == 0 or not np.isfinite(t[-1] - t[0]):
            return np.nan
    wide = t.astype(np.float64)
    lower, upper = (float(t.dtype.type(_select_gap(wide, rank))) for rank in ((pairs + 1) // 2, pairs // 2 + 1))
    return lower + (upper - lower) / 2


def _select_gap(t: Float[np.ndarray, " n"], rank: int) -> float:
    """The rank-th smallest gap of a sorted row: halve a bracket until the gaps within can be listed."""
    n = len(t)
    own = np.arange(n)

    def last(bound: float) -> np.ndarray:  # the farthest partner of every value within a bound
        return np.maximum(np.searchsorted(t, t + bound, side="right") - 1, own)

    low, high = 0.0, t[-1] - t[0]
    inner, outer = last(low), np.full(n, n - 1)
    if (inner - own).sum() >= rank:
        return 0.0
    while (outer - inner).sum() > 4 * n:
        middle = low + (high - low) / 2
        if not low < middle < high:  # ties: all gaps that are left are the same
            return high
        partner = last(middle)
        if (partner - own).sum() >= rank:
            high, outer = middle, partner
        else:
            low, inner = middle, partner
    counts = outer - inner
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    gaps = t[np.repeat(inner, counts) + 1 + offset] - np.repeat(t, counts)
    return float(np.partition(gaps, rank - (inner - own).sum() - 1)[rank - (inner - own).sum() - 1])


def _mean_gap(t: Float[np.ndarray, " n"]) -> float:
    n = len(t)
    weights = np.arange(1 - n, n, 2, dtype=np.float64)  # how often a sorted value is added less subtracted
    return float((t - t.mean(dtype=np.float64)) @ weights * 2 / (n * (n - 1)))
