r"""Slices in closed form: where fitting starts, and all that a test needs.

The coordinate axes; active slices; and moment slices, the optimum of the sliced Stein discrepancy over linear test
functions,

$$ E_q[a f(t) + c f'(t)] = r^\top (E_q[s] \alpha + (E_q[s x^\top] + I) g \beta), \quad f(t) = \alpha + \beta t, $$

that is, the mean score (a shift) and the leading singular vectors of $E[s x^T] + I$ (a wrong scale). Samples that the
slices were not found on tell which are worth keeping.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from slicestein._directions.active import find_active
from slicestein._stein import features
from slicestein.kernels import Kernel
from slicestein.slices import unit_rows

Init = Literal["best", "active", "random", "basis", "moments"]
INITS = ("best", "active", "random", "basis", "moments")

CLOSED_FORM_SLICES = 4  # of each family among the starts of maxSKSD-rg
FEWEST_CLIMBING = 8  # slices that are weak before an ascent may be strong after it
NO_SPREAD = 1e-3  # along a slice, next to what is usual


class Samples(NamedTuple):
    """Samples and scores, (N, D)."""

    x: Float[np.ndarray, "n d"]
    s: Float[np.ndarray, "n d"]


class Pairs(NamedTuple):
    """Slices as plain arrays, rows of length one."""

    r: Float[np.ndarray, "m d"]
    g: Float[np.ndarray, "m d"]


def starts_g(init: Init, fit: Samples, judge: Samples, rng: np.random.Generator, kernel: Kernel) -> Pairs:
    """For every coordinate r the g that held-out samples prefer among the starts asked for."""
    dim = fit.x.shape[1]
    r = np.eye(dim, dtype=fit.x.dtype)
    if init == "random":
        return Pairs(r, unit_rows(rng.standard_normal((dim, dim)).astype(r.dtype)))
    candidates = []
    if init in ("best", "basis"):
        candidates.append(r)
    if init in ("best", "active"):
        candidates.append(find_active(*fit, dim, basis_r=True, estimator="stein")[1])
    if init in ("best", "moments"):
        candidates.append(unit_rows(slope_matrix(*fit)))  # row r is the best linear test function for r
    values = np.stack([signal(Pairs(r, g), judge, kernel, weighted=False) for g in candidates])
    return Pairs(r, np.stack(candidates)[np.argmax(values, axis=0), np.arange(dim)])


def starts_rg(
    init: Init,
    fit: Samples,
    judge: Samples,
    rng: np.random.Generator,
    num_slices: int | None,
    kernel: Kernel,
    *,
    climbing: bool = False,
) -> Pairs:
    """Slices of the families asked for: held-out samples tell which to keep, then all samples find them anew.

    Where fewer than ten samples per dimension are held out they cannot tell: then the moment slices are kept in any
    case, because a signal that is too weak to be seen here may be a strong one on the samples to be tested.
    """
    dim = fit.x.shape[1]
    if init == "random":
        shape = (2, num_slices or dim, dim)
        return Pairs(*(unit_rows(rows) for rows in rng.standard_normal(shape).astype(fit.x.dtype)))
    fewest = min(dim, FEWEST_CLIMBING) if climbing else 1
    few = min(dim, num_slices or max(CLOSED_FORM_SLICES, fewest))
    strength = signal(_pool(init, fit, few), judge, kernel)
    unsure = num_slices is None and init in ("best", "moments") and len(judge.x) < 10 * dim
    kept = strongest(strength, num_slices, always=few if unsure else 0, fewest=fewest)
    everything = fit if judge is fit else Samples(*(np.concatenate(pair) for pair in zip(fit, judge, strict=True)))
    return _reach_samples(Pairs(*(rows[kept] for rows in _pool(init, everything, few))), everything)


def _pool(init: Init, samples: Samples, num: int) -> Pairs:
    families = []
    if init in ("best", "moments"):
        families.append(moment_slices(samples, num))
    if init in ("best", "active"):
        families.append(Pairs(*find_active(*samples, num, estimator="stein")))
    if init in ("best", "basis"):
        families.append(Pairs(*(np.eye(samples.x.shape[1], dtype=samples.x.dtype) for _ in "rg")))
    return Pairs(*(np.concatenate(rows) for rows in zip(*families, strict=True)))


def _reach_samples(pairs: Pairs, samples: Samples) -> Pairs:
    """Slices along which the samples differ: with fewer samples than dimensions there are others."""
    spread = (samples.x @ pairs.g.T).std(0)
    kept = spread > NO_SPREAD * np.median(spread)
    return Pairs(*(rows[kept] for rows in pairs))


def strongest(
    strength: Float[np.ndarray, " m"], num: int | None, always: int, fewest: int = 1
) -> Int[np.ndarray, " k"]:
    """Indices of the first `always` slices and of the strongest others.

    `num` in all, or as many as raise the signal-to-noise ratio of the sum, by powers of two and at least `fewest`.
    """
    order = np.concatenate([np.arange(always), always + np.argsort(-strength[always:])])
    if num is None:
        ratio = np.cumsum(strength[order]) / np.sqrt(np.arange(1, len(order) + 1))
        rest = len(order) - always
        sizes = {always, *(always + 2**k for k in range(rest.bit_length())), len(order)} - {0}
        num = max((size for size in sizes if size >= min(fewest, len(order))), key=lambda size: ratio[size - 1])
    return order[:num]


def signal(pairs: Pairs, samples: Samples, kernel: Kernel, *, weighted: bool = True) -> Float[np.ndarray, " m"]:
    """U of every slice on these samples, in units of its noise if ``weighted``."""
    lines = features.lay_lines(*pairs, samples.x, kernel)
    total = features.sums(lines, features.rule_for(kernel, lines.bulk), *samples, np.array([len(samples.x)]))[0]
    diagonal = features.noise(lines, samples.s, kernel)
    values = features.u_statistic(total, diagonal, len(samples.x))
    return values / diagonal if weighted else values


def slope_matrix(x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    """E[s (x - mean)^T] + I: zero for the model itself (Stein's identity with linear test functions)."""
    return s.T @ (x - x.mean(0)) / len(x) + np.eye(x.shape[1], dtype=x.dtype)


def moment_slices(samples: Samples, num: int) -> Pairs:
    """The mean score, then the pairs (r, g) of largest slope in units of its noise.

    The noise of r^T (E[s x^T] + I) g grows with the spread of s along r and of x along g, which makes these the
    leading canonical directions of the slope matrix. Directions that no sample reaches are left out: there the slope is
    I and the noise zero, for want of samples. Cost: O(N D k + k^3), k the smaller one of N and D.
    """
    x, s = samples[0] - samples[0].mean(0), samples[1]
    (left, of_s, r_axes, r_scale), (right, of_x, g_axes, g_scale) = _principal(s), _principal(x)
    slope = of_s[:, None] * (left.T @ right) * of_x / len(x) + r_axes @ g_axes.T
    u, _, v = np.linalg.svd(r_scale[:, None] * slope * g_scale)
    shift = (r_axes @ s.mean(0) * r_scale**2) @ r_axes + np.finfo(x.dtype).tiny
    r = np.concatenate([shift[None], (u.T[: num - 1] * r_scale) @ r_axes])
    g = np.concatenate([shift[None], (v[: num - 1] * g_scale) @ g_axes])
    return Pairs(unit_rows(r), unit_rows(g))


def _principal(
    z: Float[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, " k"], Float[np.ndarray, "k d"], Float[np.ndarray, " k"]]:
    """z = left diag(values) axes, and the inverse root of the second moment along the axes.

    The moment is kept away from singular where samples are few.
    """
    count, dim = z.shape
    left, values, axes = np.linalg.svd(z, full_matrices=False)
    moments = values**2 / count
    return left, values, axes, 1 / np.sqrt(moments + moments.sum() / dim * min(0.5, dim / count))
