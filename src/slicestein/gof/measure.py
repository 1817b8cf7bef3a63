"""What a test measures: sums of features over blocks of consecutive rows. Additive, so rows may come in parts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from slicestein._stein import features
from slicestein.gof.plan import Plan

# Blocks are enough for the null whatever the number of rows; up to here every row is one.
MOST_BLOCKS = 1024
# Damping of the moments' test functions, by degree. With this much they lose little on wrong spreads, modes and tails
# of a normal model, and the terms of the fourth moment have a kurtosis of 5 instead of 260, without which their sum is
# far from normal for any number of samples that people have.
DAMPING = (0.1, 0.3, 0.3)


class Sums(NamedTuple):
    """Sums over B blocks. Those beyond ``slices`` are None where the plan does not ask for them."""

    counts: Int[np.ndarray, " b"]
    slices: Float[np.ndarray, "b m f"]
    radius: Float[np.ndarray, "b f"] | None = None
    positions: Float[np.ndarray, "b d"] | None = None  # of z
    scores: Float[np.ndarray, "b d"] | None = None  # at z
    white_positions: Float[np.ndarray, "b d"] | None = None
    white_scores: Float[np.ndarray, "b d"] | None = None
    moments: Float[np.ndarray, "b 4 e"] | None = None  # of every parameter, and of the radius: e = d + 1
    slopes: Float[np.ndarray, "b d"] | None = None  # a_d t_d + 1 of every parameter
    # Of s y^T + I; None also where every block is a row, whose position and score say it all.
    covariance: Float[np.ndarray, "b k2"] | None = None
    white_covariance: Float[np.ndarray, "b k2"] | None = None

    def __add__(self, other):  # type: ignore[no-untyped-def]
        """Sums over the rows of both, block by block."""
        return Sums(*(None if a is None else a + b for a, b in zip(self, other, strict=True)))  # type: ignore[arg-type]


class Span(NamedTuple):
    """Sums over the blocks from ``first`` on, of some of their rows."""

    first: int
    sums: Sums

    def __add__(self, other):  # type: ignore[no-untyped-def]
        """Sums over the rows of both, which may be in the same blocks or in others."""
        low = min(self.first, other.first)
        high = max(span.first + len(span.sums.counts) for span in (self, other))
        return Span(low, self.within(low, high) + other.within(low, high))

    def within(self, low: int, high: int) -> Sums:
        """Sums over blocks ``low:high``, zero where there is none."""
        before, after = self.first - low, high - self.first - len(self.sums.counts)
        if before == after == 0:
            return self.sums

        def widened(part: np.ndarray | None) -> np.ndarray | None:
            if part is None:
                return None
            out = np.zeros((high - low, *part.shape[1:]), part.dtype)
            out[before : len(out) - after] = part
            return out

        return Sums(*map(widened, self.sums))  # type: ignore[arg-type]


def joined(parts: Sequence[Sums]) -> Sums:
    """Blocks of several sums, one after the other."""
    return Sums(*(None if a[0] is None else np.concatenate(a) for a in zip(*parts, strict=True)))  # type: ignore[arg-type]


def paired(sums: Sums) -> Sums:
    """Sums over pairs of neighbouring blocks; the last one may be alone."""
    starts = np.arange(0, len(sums.counts), 2)
    return Sums(*(None if part is None else np.add.reduceat(part, starts, axis=0) for part in sums))  # type: ignore[arg-type]


def block_ends(chains: int, draws: int, most: int = MOST_BLOCKS) -> Int[np.ndarray, " b"]:
    """Ends of blocks, as many of every chain, within chains that are laid out one after the other."""
    per_chain = max(1, min(draws, most // chains))
    ends = np.round(np.linspace(0, draws, per_chain + 1)[1:]).astype(np.int64)
    return (ends + draws * np.arange(chains)[:, None]).ravel()


def in_time(first: Sums, then: Sums, chains: int) -> Sums:
    """Sums over the first parts of all chains, and over the rest of them, in one: chain by chain."""

    def joined(one: np.ndarray | None, two: np.ndarray | None) -> np.ndarray | None:
        if one is None or two is None:
            return None
        by_chain = [part.reshape(chains, -1, *part.shape[1:]) for part in (one, two)]
        return np.concatenate(by_chain, axis=1).reshape(-1, *one.shape[1:])

    return Sums(*(joined(*pair) for pair in zip(first, then, strict=True)))  # type: ignore[arg-type]


def measure(
    plan: Plan,
    x: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
    ends: Int[np.ndarray, " b"],
    *,
    apart: bool = False,
) -> Sums:
    """Sums of all that the plan looks at over the blocks of rows that end at ``ends``.

    ``apart`` if here and in all sums that these will be added to every block is one row.
    """
    z, sz = plan.coordinates(x, s)
    starts = np.concatenate([[0], ends[:-1]])
    slices = features.sums(plan.lines, plan.rule, z, sz, ends)
    if plan.whitening is None:
        return Sums(ends - starts, slices)
    y, sy = plan.whitening(z, sz)
    rho, pull = _radius(y, sy)
    along = sy @ plan.whitening.inverse.T / plan.whitening.variances  # C s / C_dd
    reduce = functools.partial(np.add.reduceat, indices=starts, axis=0)
    return Sums(
        ends - starts,
        slices,
        _radius_sums(plan, rho, pull, ends),
        reduce(z),
        reduce(sz),
        reduce(y),
        reduce(sy),
        _moments(np.column_stack([z, rho]), np.column_stack([along, pull]), plan, starts),
        reduce(along * z + 1),
        None if apart or not plan.mixed else _covariance(plan, z, sz, starts),
        None if apart else _covariance(plan, y, sy, starts),
    )


def _radius(y: np.ndarray, sy: np.ndarray) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Distance from the origin, and the score along it with the divergence of y / |y|."""
    rho = np.maximum(np.linalg.norm(y, axis=1), np.finfo(y.dtype).tiny ** 0.25)
    return rho, (np.sum(sy * y, axis=1) + y.shape[1] - 1) / rho


def _radius_sums(plan: Plan, rho: np.ndarray, pull: np.ndarray, ends: np.ndarray) -> Float[np.ndarray, "b f"]:
    assert plan.radius is not None
    bandwidth, centre, bulk = plan.radius
    dtype = plan.lines.g.dtype
    t, a, c = (np.asarray(row, dtype)[None] for row in (rho / bandwidth, pull, 1 / bandwidth))
    return plan.rule.sums(t, a, c, ends, centre, bulk)[:, 0]


def _moments(t: np.ndarray, a: np.ndarray, plan: Plan, starts: np.ndarray) -> Float[np.ndarray, "b 4 e"]:
    r"""Stein's identity with 1 and damped Hermite polynomials, $f = e^{-\lambda_k u^2 / 2} He_k(u)$, k = 1, 2, 3."""
    middle, unit = (part.astype(t.dtype) for part in plan.moment_lines)
    u, a = (t - middle) / unit, a * unit
    square = u * u
    polynomials = ((u, 1.0), (square - 1, 2 * u), (u * (square - 3), 3 * (square - 1)))  # with their derivatives
    damped = (
        np.exp(-rate / 2 * square) * (a * f + slope - rate * u * f)
        for rate, (f, slope) in zip(DAMPING, polynomials, strict=True)
    )
    identities = (a, *damped)
    return np.stack([np.add.reduceat(identity, starts, axis=0) for identity in identities], axis=1)


def _covariance(plan: Plan, y: np.ndarray, sy: np.ndarray, starts: np.ndarray) -> Float[np.ndarray, "b k2"]:
    """Sums of s y^T + I."""
    y, sy = (plan.sketched(part).astype(np.float32) for part in (y, sy))
    dim = y.shape[1]
    stops = np.append(starts[1:], len(y))
    out = np.empty((len(starts), dim, dim), np.float32)
    for b, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        np.matmul(sy[start:stop].T, y[start:stop], out=out[b])
    out += ((stops - starts)[:, None, None] * np.eye(dim)).astype(np.float32)
    return out.reshape(len(starts), -1)
