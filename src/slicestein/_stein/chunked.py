"""Sliced statistics of rows that are read in chunks: sums of features (`features`), in one pass or two.

The line of a slice is straight for ten bandwidths on both sides of its middle, and bent beyond: one pass sums the
features, and sees how far out rows are. Where some are farther, a second pass has a longer line, with more features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._stein import features
from slicestein._stein.bandwidths import MEDIAN_ROWS
from slicestein._stein.features import Lines, Rule
from slicestein._stein.numpy_bandwidths import slice_bandwidths
from slicestein.kernels import Kernel
from slicestein.rows.source import Source, evenly

# In bandwidths; features are about as many. Such a line takes three times as long as that of a normal sample, and
# single precision still tells positions on it apart.
LONGEST_LINE = 500.0


class _Totals(NamedTuple):
    features: Float[np.ndarray, "m f"]
    diagonal: Float[np.ndarray, " m"]  # of h
    far: Float[np.ndarray, " m"]  # the largest distance from the middle, in bandwidths

    def __add__(self, other):  # type: ignore[no-untyped-def]
        far = np.maximum(self.far, other.far)
        return _Totals(self.features + other.features, self.diagonal + other.diagonal, far)


@dataclass(frozen=True)
class _Visit:
    origin: Float[np.ndarray, " d"]
    lines: Lines
    rule: Rule
    kernel: Kernel

    def __call__(self, start: int, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> _Totals:
        _, g, c, centre, bulk, *_ = self.lines
        t, a = g @ (x - self.origin).T, self.lines.r @ s.T
        sums = self.rule.sums(t, a, c[:, None].astype(t.dtype), np.array([len(x)]), centre, bulk)[0]
        diagonal = len(x) * features.noise(self.lines, s, self.kernel).astype(float)
        return _Totals(sums.astype(float), diagonal, np.abs(t - centre[:, None]).max(axis=1))


def statistics(
    rows: Source, r: Float[np.ndarray, "m d"], g: Float[np.ndarray, "m d"], kernel: Kernel, *, unbiased: bool
) -> Float[np.ndarray, " m"]:
    """U or V of every slice; bandwidths by the median rule are those that arrays in memory get."""
    x = rows.samples(evenly(rows.num_samples, MEDIAN_ROWS))
    origin = x.mean(0, dtype=float).astype(x.dtype)
    _checks.spread(slice_bandwidths(kernel, g.astype(x.dtype) @ (x - origin).T))
    lines = features.lay_lines(r.astype(x.dtype), g.astype(x.dtype), x - origin, kernel)

    def folded(bulk: float) -> _Totals:
        straight = lines._replace(bulk=np.full_like(lines.bulk, bulk))
        return rows.fold(_Visit(origin, straight, features.rule_for(kernel, straight.bulk), kernel))

    found = folded(features.LONGEST_BULK)
    farthest = float(found.far.max())
    if farthest > LONGEST_LINE:
        raise InputError(
            f"rows reach {farthest:.0f} bandwidths from the middle of slice {int(found.far.argmax())}: sums in chunks "
            f"hold up to {LONGEST_LINE:.0f}. Pass rows with such tails as arrays, or a kernel with a longer bandwidth"
        )
    if farthest > features.LONGEST_BULK:
        found = folded(farthest)
    count = rows.num_samples
    if unbiased:
        return features.u_statistic(found.features, found.diagonal / count, count)
    return np.sum(found.features**2, axis=-1) / count**2
