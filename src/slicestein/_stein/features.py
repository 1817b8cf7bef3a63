r"""Features of the sliced Stein kernel whose sums over rows are all that a test needs. NumPy, additive over rows.

On a line of bounded length (`native`: $u = T(t - \text{centre})$, the identity in the bulk of the samples) every kernel
has finitely many features, $k(u, u') = \sum_j \varphi_j(u) \varphi_j(u')$, and the Stein kernel with them:

$$ \psi_j(n) = a_n \varphi_j(u_n) + c_n T'(t_n) \varphi_j'(u_n), \qquad h_{ij} = \psi(i)^\top \psi(j) . $$

For a kernel with a fast spectrum these are sines and cosines (label "eq: SKSD inner"; `fourier` has the same rule for
other ends). For another one they are the kernel at K nodes of the line: the test functions are then those of the
kernel that these nodes span. T is a feature map of the slice: Stein's identity holds whatever it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from slicestein._stein import native
from slicestein._stein.numpy_bandwidths import slice_bandwidths
from slicestein.kernels import Kernel

# In units of the bandwidth. The bulk holds all rows that were seen when the line was laid out, and at least four
# bandwidths (of a normal sample, 3.8 standard deviations) on both sides; beyond ten the line is bent anyway.
SHORTEST_BULK, LONGEST_BULK, TAIL = 4.0, 10.0, 1.5
# Kernel and spectrum are cut off here: far below the noise of any test.
TOLERANCE = 1e-5
NODE_SPACING = 0.4
# Values of the arrays (slices, rows) and (rows, features) alive at once: 64 MB in double precision.
CHUNK_VALUES = 2**23


class Lines(NamedTuple):
    """M slices as they are measured: rows of r and g, in units of the bandwidth, and where each line is bent."""

    r: Float[np.ndarray, "m d"]  # times the root of the slice's weight
    g: Float[np.ndarray, "m d"]  # over the bandwidth
    c: Float[np.ndarray, " m"]
    centre: Float[np.ndarray, " m"]
    bulk: Float[np.ndarray, " m"]
    bandwidth: Float[np.ndarray, " m"]
    root: Float[np.ndarray, " m"]

    def weighted(self, weights: Float[np.ndarray, " m"]) -> Lines:
        """Lines whose kernels are multiplied by weights."""
        root = np.sqrt(weights).astype(self.r.dtype)
        return self._replace(r=self.r * root[:, None], c=self.c * root, root=self.root * root)

    def turned(self, r: Float[np.ndarray, "m d"], g: Float[np.ndarray, "m d"]) -> Lines:
        """Other slices, seen with the bandwidths and weights of these."""
        r, g = r * self.root[:, None], g / self.bandwidth[:, None]
        return self._replace(r=r, g=g, c=np.sum(r * g, axis=1))

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Some of the slices; a tuple's own meaning of an index, one field, is of no use here."""
        return Lines(*(getattr(self, name)[index] for name in self._fields))


class Line(NamedTuple):
    """Where one or more lines are bent, and the unit on them."""

    bandwidth: Float[np.ndarray, " m"]
    centre: Float[np.ndarray, " m"]
    bulk: Float[np.ndarray, " m"]


def lay_out(t: Float[np.ndarray, "m n"], kernel: Kernel) -> Line:
    """Bandwidth, middle and bulk of lines on which samples lie at t."""
    bandwidth = np.asarray(slice_bandwidths(kernel, t), t.dtype)
    bandwidth = np.where(bandwidth == 0, t.dtype.type(1), bandwidth)  # all at one place, as a chain that is stuck
    middle = np.median(t, axis=1)
    far = np.abs(t - middle[:, None]).max(axis=1) / bandwidth
    return Line(bandwidth, middle / bandwidth, np.clip(far, SHORTEST_BULK, LONGEST_BULK).astype(t.dtype))


def lay_lines(
    r: Float[np.ndarray, "m d"], g: Float[np.ndarray, "m d"], x: Float[np.ndarray, "n d"], kernel: Kernel
) -> Lines:
    """Slices ready to be measured; bandwidths and bulk are those of the rows x."""
    bandwidth, centre, bulk = lay_out(g @ x.T, kernel)
    scaled = g / bandwidth[:, None]
    return Lines(r, scaled, np.sum(r * scaled, axis=1), centre, bulk, bandwidth, np.ones_like(bandwidth))


def noise(lines: Lines, s: Float[np.ndarray, "n d"], kernel: Kernel) -> Float[np.ndarray, " m"]:
    """Mean of h(x, x) per slice, to which the noise of its U-statistic is proportional."""
    k, _, k2 = (float(value) for value in kernel.derivatives(np.zeros((), s.dtype)))
    return k * np.mean((s @ lines.r.T) ** 2, axis=0) - k2 * lines.c**2


# --- rules -------------------------------------------------------------------------------------


class FourierRule(NamedTuple):
    """Sines and cosines at multiples of a frequency; weights by the trapezoid rule on the spectral density."""

    spacing: float
    roots: Float[np.ndarray, " j"]

    @property
    def num(self) -> int:
        """Features of a slice."""
        return 2 * len(self.roots)

    @property
    def values_per_row(self) -> int:
        """Values alive at once for a row, beyond one per slice."""
        return 1

    def sums(self, t, a, c, ends, centre, bulk):  # type: ignore[no-untyped-def]
        """Sums over blocks: see `native.block_sums`."""
        return native.block_sums(
            t, a, c, ends, spacing=self.spacing, roots=self.roots, centre=centre, bulk=bulk, tail=TAIL
        )


class NodeRule(NamedTuple):
    """The kernel at nodes of the line, decorrelated: the features of any kernel."""

    nodes: Float[np.ndarray, " k"]
    mixing: Float[np.ndarray, "k k"]
    kernel: Kernel

    @property
    def num(self) -> int:
        """Features of a slice."""
        return len(self.nodes)

    @property
    def values_per_row(self) -> int:
        """Values alive at once for a row: the features of one slice."""
        return len(self.nodes)

    def sums(self, t, a, c, ends, centre, bulk):  # type: ignore[no-untyped-def]
        """Sums over blocks, one slice at a time."""
        starts = np.concatenate([[0], ends[:-1]])
        filled = ends > starts  # reduceat knows no empty blocks
        c = np.broadcast_to(c, t.shape)
        out = np.zeros((len(ends), len(t), self.num), t.dtype)
        for m in range(len(t)):
            u, slope = native.bounded(t[m] - centre[m], bulk[m], TAIL)
            tau = u[:, None] - self.nodes.astype(t.dtype)
            k, k1, _ = (np.asarray(part) for part in self.kernel.derivatives(tau**2))
            raw = a[m][:, None] * k + (c[m] * slope)[:, None] * k1 * tau
            out[filled, m] = np.add.reduceat(raw, starts[filled], axis=0, dtype=np.float64) @ self.mixing
        return out


Rule = FourierRule | NodeRule


def rule_for(kernel: Kernel, bulk: Float[np.ndarray, " m"]) -> Rule:
    """Features that hold on lines of this length."""
    half = float(np.max(bulk, initial=SHORTEST_BULK)) + TAIL
    if kernel.spectrum is not None:
        reach, cutoff = kernel.spectrum.reach(TOLERANCE), kernel.spectrum.cutoff(TOLERANCE)
        spacing = 2 * math.pi / (2 * half + reach)
        w = spacing * np.arange(math.ceil(cutoff / spacing) + 1)
        weights = 2 * spacing * kernel.spectrum.density(w)
        weights[0] /= 2
        return FourierRule(spacing, np.sqrt(weights))
    nodes = np.linspace(-half, half, 2 * math.ceil(half / NODE_SPACING) + 1)
    gram = np.asarray(kernel.derivatives((nodes[:, None] - nodes) ** 2)[0], float)
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 1e-10 * values[-1]))
    return NodeRule(nodes, (vectors / root) @ vectors.T, kernel.unit)


# --- sums --------------------------------------------------------------------------------------


def sums(
    lines: Lines,
    rule: Rule,
    x: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
    ends: Int[np.ndarray, " b"],
) -> Float[np.ndarray, "b m f"]:
    """Sums of the features of every slice over blocks of consecutive rows that end at ``ends``.

    Cost: O(N M (D + J)) time, the result and some 64 MB.
    """
    num = len(lines.c)
    out = np.empty((len(ends), num, rule.num), x.dtype)
    block = max(1, CHUNK_VALUES // max(num, rule.values_per_row))
    for blocks, rows in _chunks(ends, block):
        t, a = lines.g @ x[rows].T, lines.r @ s[rows].T
        local = ends[blocks] - rows.start
        out[blocks] = rule.sums(t, a, lines.c[:, None].astype(t.dtype), local, lines.centre, lines.bulk)
    return out


def _chunks(ends: Int[np.ndarray, " b"], most: int) -> Iterator[tuple[slice, slice]]:
    """Runs of whole blocks of at most so many rows (or one block), with their rows."""
    first, start = 0, 0
    while first < len(ends):
        last = max(first + 1, int(np.searchsorted(ends, start + most, side="right")))
        yield slice(first, last), slice(start, int(ends[last - 1]))
        first, start = last, int(ends[last - 1])


def u_statistic(sums_of_rows: Float[np.ndarray, "m f"], diagonal: Float[np.ndarray, " m"], count: int) -> np.ndarray:
    """U per slice from the sum of the features of all rows and the mean of h(x, x)."""
    v = np.sum(sums_of_rows.astype(float) ** 2, axis=-1) / count**2
    return (count * v - diagonal) / (count - 1)
