"""Sliced statistics of rows that are read in chunks: one pass of sums of features (`features`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._stein import features
from slicestein._stein.bandwidths import MEDIAN_ROWS
from slicestein._stein.features import Lines, Rule
from slicestein.kernels import Kernel
from slicestein.rows.source import Source, evenly


class _Totals(NamedTuple):
    features: Float[np.ndarray, "m f"]
    diagonal: Float[np.ndarray, " m"]  # of h

    def __add__(self, other):  # type: ignore[no-untyped-def]
        return _Totals(*(one + two for one, two in zip(self, other, strict=True)))


@dataclass(frozen=True)
class _Visit:
    origin: Float[np.ndarray, " d"]
    lines: Lines
    rule: Rule
    kernel: Kernel

    def __call__(self, start: int, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> _Totals:
        sums = features.sums(self.lines, self.rule, x - self.origin, s, np.array([len(x)]))[0]
        return _Totals(sums.astype(float), len(x) * features.noise(self.lines, s, self.kernel).astype(float))


def statistics(
    rows: Source, r: Float[np.ndarray, "m d"], g: Float[np.ndarray, "m d"], kernel: Kernel, *, unbiased: bool
) -> Float[np.ndarray, " m"]:
    """U or V of every slice; bandwidths by the median rule are those that arrays in memory get."""
    x = rows.samples(evenly(rows.num_samples, MEDIAN_ROWS))
    origin = x.mean(0, dtype=float).astype(x.dtype)
    lines = features.lay_lines(r.astype(x.dtype), g.astype(x.dtype), x - origin, kernel)
    lines = lines._replace(bulk=np.full_like(lines.bulk, features.LONGEST_BULK))
    rule = features.rule_for(kernel, lines.bulk)
    found = rows.fold(_Visit(origin, lines, rule, kernel))
    count = rows.num_samples
    if unbiased:
        return features.u_statistic(found.features, found.diagonal / count, count)
    return np.sum(found.features**2, axis=-1) / count**2
