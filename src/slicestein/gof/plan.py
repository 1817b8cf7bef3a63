r"""The plan of a test: what it will look at, chosen on some of the rows before a tested row is seen.

Coordinates (origin, scale, `whitening`), slices with their bandwidths, and the features of the lines
(`_stein.features`). What a test looks at is a slice in the wide sense: a vector field v(x) and a scalar t(x), with
$a = s \cdot v + \nabla \cdot v$ and $c = v \cdot \nabla t$.

| entry | v, t | sees |
| --- | --- | --- |
| fitted slices | r, g found on the rows of the plan | what was learned |
| coordinates | r = g = the axes of the whitened space | what a rotation has not hidden |
| parameters | $g = e_d$, $r = C e_d / C_{dd}$, C the covariance of `whitening` | the marginal of every parameter |
| radius | $v = y / |y|$, $t = |y|$ for whitened y, if D > 2 | tails and mixtures that a rotation has hidden |
| shift, covariance | all pairs of axes with the test functions 1 and t, in closed form | errors that are everywhere |

A plan is small and holds plain arrays: it can be sent to other machines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from slicestein._directions.fitting import choose
from slicestein._directions.starts import Init, Pairs
from slicestein._directions.whitening import Whitening, find_whitening, scales
from slicestein._stein import features
from slicestein._stein.bandwidths import evenly_spread
from slicestein._stein.features import Line, Lines, Rule
from slicestein.kernels import Kernel
from slicestein.rows.arrays import Chains
from slicestein.slices import Slices

# The covariance entry has the square of this many features at most; in more dimensions it looks at a random subspace.
COVARIANCE_DIM = 100
# Coordinates that are parameters but for so much are not looked at twice.
SAME = 1e-3
# Values of the rows that a plan is made on when roles are exchanged: its cost stays that of the first plan.
EXCHANGE_VALUES = 2**18
MEDIAN_ROWS, FAR_MEAN = 1001, 1e3  # rows for the median, and how many gaps from it a mean is of no use
NORMAL_GAP = 0.954  # the median gap of a normal sample, in standard deviations


@dataclass(frozen=True)
class Plan:
    """What a test looks at. Rows enter as z = (x - origin) / scale, with the score s scale."""

    origin: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    lines: Lines  # of all slices, for z
    rule: Rule
    groups: Mapping[str, slice]  # entries that are made of slices
    whitening: Whitening | None  # of z; None: slices alone are looked at
    sketch: Float[np.ndarray, "k d"] | None = None  # subspace of the covariance entry
    radius: Line | None = None
    brought: bool = False  # made on rows that were brought for it, not on some of those to be tested

    def coordinates(self, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the plan sees them."""
        return (x - self.origin) / self.scale, s * self.scale

    def sketched(self, y: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Rows as the covariance entry sees them."""
        return y if self.sketch is None else y @ self.sketch.T

    @property
    def mixed(self) -> bool:
        """Whether the whitened axes are others than those of the parameters."""
        return "coordinates" in self.groups

    @property
    def slices(self) -> Slices:
        """The slices in the coordinates of the samples."""
        scale = self.scale.astype(float)
        return Slices(self.lines.r * scale, self.lines.g / scale)

    @property
    def moment_lines(self) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " e"]]:
        """Middle and standard deviation of every parameter in units of z, and of the radius."""
        assert self.whitening is not None
        assert self.radius is not None
        unit = self.radius.bandwidth / NORMAL_GAP
        middle = np.append(np.zeros(len(self.scale)), self.radius.centre * self.radius.bandwidth)
        return middle, np.append(np.sqrt(self.whitening.variances), unit)

    @property
    def spread(self) -> Float[np.ndarray, " d"]:
        """Standard deviation of every parameter under a Gaussian model, in units of x."""
        root = np.ones_like(self.scale) if self.whitening is None else np.sqrt(self.whitening.variances)
        return self.scale * root


def middle(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """The mean; the median where the mean is so far out, by a few samples, that differences to it would be rounded."""
    mean = x.mean(0, dtype=float)
    some = evenly_spread(x, MEDIAN_ROWS).astype(float)
    median = np.median(some, axis=0)
    gap = np.median(np.abs(some - median), axis=0)
    return np.where(np.abs(mean - median) > FAR_MEAN * gap, median, mean).astype(x.dtype)


def plan_given(slices: Slices, rows: Chains, kernel: Kernel) -> Plan:
    """A plan that looks at given slices, all alike; bandwidths are those of the rows."""
    x, s = rows.flat
    origin, scale = middle(x), scales(x, s)
    r, g = np.asarray(slices.r, float) / scale, np.asarray(slices.g, float) * scale
    z = (x - origin) / scale
    lines = features.lay_lines(r.astype(x.dtype), g.astype(x.dtype), z, kernel)
    return Plan(origin, scale, lines, features.rule_for(kernel, lines.bulk), {"slices": slice(0, slices.num)}, None)


def make_plan(
    rows: Chains,
    rng: np.random.Generator,
    *,
    optimize: Literal["g", "rg"],
    init: Init | Slices,
    num_slices: int | None,
    steps: int,
    standardize: bool,
    omnibus: bool,
    kernel: Kernel,
) -> Plan:
    """A plan from the rows that are set apart for it."""
    x, s = rows.flat
    origin, scale = middle(x), scales(x, s).astype(x.dtype)
    if not standardize:
        scale = np.full_like(scale, np.exp(np.log(scale).mean()))
    z, sz = (x - origin) / scale, s * scale
    whitening = _unchanged(rows.dim) if not standardize else find_whitening(z.astype(float), sz.astype(float))
    y, sy = whitening(z, sz)
    if isinstance(init, Slices):
        init = _whitened(init, scale, whitening)
    fitted = _fitted(
        Chains(_like(y, rows), _like(sy, rows), rows.ordered), rng, optimize, init, num_slices, steps, kernel
    )
    entries = {"fitted slices": Pairs(fitted.r @ whitening.inverse.T, fitted.g @ whitening.forward)}
    if omnibus:
        entries |= everywhere(whitening)
    lines, groups = _stack(entries, z, sz, kernel)
    radius = sketch = None
    bulk = lines.bulk
    if omnibus:
        radius = features.lay_out(np.linalg.norm(y, axis=1)[None].astype(x.dtype), kernel)
        bulk = np.append(bulk, radius.bulk)
        if rows.dim > COVARIANCE_DIM:
            sketch = np.linalg.qr(rng.standard_normal((rows.dim, COVARIANCE_DIM)))[0].T
    rule = features.rule_for(kernel, bulk)
    return Plan(origin, scale, lines, rule, groups, whitening if omnibus else None, sketch, radius)


def exchange(plan: Plan, rows: Chains) -> Plan:
    """The plan for the rows that the first plan was made on, made on the others: so that all rows are tested.

    Slices are looked at as before, those of parameters and coordinates with the middle and the covariance of these
    rows: around their own middle rows are a little narrow, and over all parameters that adds up. Fitted slices are not
    looked at: they were fitted to the rows that are now tested.
    """
    x, s = (evenly_spread(z, EXCHANGE_VALUES // rows.dim) for z in rows.flat)
    plan = dataclasses.replace(plan, origin=middle(x))
    assert plan.whitening is not None
    whitening = find_whitening(*(z.astype(float) for z in plan.coordinates(x, s)))
    entries = everywhere(whitening, mixed=plan.mixed)
    none = np.zeros_like(plan.lines.r[plan.groups["fitted slices"]])
    r, g = (np.concatenate([none, *(getattr(pairs, name) for pairs in entries.values())]) for name in "rg")
    lines = plan.lines.turned(r.astype(none.dtype), g.astype(none.dtype))
    return dataclasses.replace(plan, lines=lines, whitening=whitening)


def _fitted(
    rows: Chains,
    rng: np.random.Generator,
    optimize: Literal["g", "rg"],
    init: Init | Slices,
    num_slices: int | None,
    steps: int,
    kernel: Kernel,
) -> Pairs:
    if steps == 0:
        return choose(rows, rng, optimize, num_slices, init, kernel)[0]
    from slicestein._directions.fitting import fit_slices

    x, s = (rows.x, rows.s) if rows.ordered else rows.flat
    options = {"optimize": optimize, "num_slices": num_slices, "init": init, "steps": steps, "kernel": kernel}
    slices = fit_slices(x, s, key=int(rng.integers(2**31)), **options).slices  # type: ignore[arg-type]
    return Pairs(*(np.asarray(part, rows.x.dtype) for part in (slices.r, slices.g)))


def everywhere(whitening: Whitening, mixed: bool | None = None) -> dict[str, Pairs]:
    """The axes of the parameters, and those of the whitened space where they are others."""
    covariance = whitening.covariance
    axes = np.eye(len(covariance))
    entries = {"parameters": Pairs(covariance / np.diag(covariance)[:, None], axes)}
    if mixed is None:
        mixed = bool(np.abs(covariance - np.diag(np.diag(covariance))).max() > SAME * np.diag(covariance).min())
    if mixed:
        entries["coordinates"] = Pairs(whitening.inverse.T, whitening.forward)
    return entries


def _stack(
    entries: Mapping[str, Pairs], z: Float[np.ndarray, "n d"], sz: Float[np.ndarray, "n d"], kernel: Kernel
) -> tuple[Lines, dict[str, slice]]:
    """All slices as lines that count alike, and which of them belong to which entry."""
    r, g = (np.concatenate([getattr(pairs, name) for pairs in entries.values()]).astype(z.dtype) for name in "rg")
    lines = features.lay_lines(r, g, z, kernel)
    ends = np.cumsum([len(pairs.r) for pairs in entries.values()])
    groups = {name: slice(end - len(pairs.r), end) for (name, pairs), end in zip(entries.items(), ends, strict=True)}
    return lines.weighted(1 / features.noise(lines, sz, kernel)), groups


def _whitened(slices: Slices, scale: Float[np.ndarray, " d"], whitening: Whitening) -> Slices:
    """Slices given in the coordinates of the samples, in those of the fit."""
    r = np.asarray(slices.r, float) / scale @ whitening.forward.T
    g = np.asarray(slices.g, float) * scale @ whitening.inverse
    return Slices(r, g)


def _unchanged(dim: int) -> Whitening:
    return Whitening(np.eye(dim), np.eye(dim))


def _like(flat: Float[np.ndarray, "n d"], rows: Chains) -> Float[np.ndarray, "chains draws d"]:
    return flat.reshape(rows.x.shape)
