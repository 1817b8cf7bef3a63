r"""Is the score the gradient of the log-density? Finite differences tell a wrong gradient from a wrong sampler.

Along a direction v, with f the log-density and D(h) its central difference,

$$ D(h) = \frac{f(x + h v) - f(x - h v)}{2h}, \qquad s(x) \cdot v \approx \frac{4 D(h) - D(2h)}{3}, $$

where |D(h) - D(2h)| bounds what the differences leave out, and what rounding adds is measured: fourth differences of f
at points so close that nothing but rounding is left in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from slicestein import _checks, _torch
from slicestein._checks import InputError, ScoreLike
from slicestein.rows.arrays import as_chains

ROWS = 100  # looked at along one random direction
FULL_ROWS = 10  # and of these, along every coordinate
# Relative differences below are rounding of the score: computed or stored in single precision, or with six digits.
SCORE_ROUNDING = 1e-4
SIGMAS = 10.0  # of rounding that are taken for rounding: hardly one comparison in any number of them is further off
PARTS = 16  # of a step: distance of the points that measure rounding
MOST = 4_000_000  # numbers in the points of one call
COARSE = 0.1  # an error of the score that should not stay hidden
SHOWN = 10  # parameters that are told of


class ScoreError(NamedTuple):
    """A parameter whose derivative is wrong: where, what the score says and what the log-density has."""

    name: str
    coordinate: int
    rows: tuple[int, ...]  # of x, the worst first
    score: float  # at the worst row
    derivative: float
    finding: str


@dataclass(frozen=True)
class ScoreCheck:
    """What `check_score` found; prints in words."""

    ok: bool
    errors: tuple[ScoreError, ...]  # worst first
    num_rows: int
    num_full_rows: int
    resolution: float  # the smallest error that would have been seen, relative to the size of the score

    def __str__(self) -> str:
        looked = f"{self.num_rows} rows along a random direction, {self.num_full_rows} of them along every coordinate"
        if self.ok and self.resolution > COARSE:
            return (
                f"no error of the score was found, but rounding hides any below {self.resolution:.0%} of its size "
                f"({looked}): compute the log-density in double precision, without large constants"
            )
        if self.ok:
            return (
                f"the score is the gradient of the log-density ({looked}; an error of {self.resolution:.0e} of its "
                "size would have been seen)"
            )
        lines = [f"the score is NOT the gradient of the log-density ({looked})"]
        for one in self.errors[:SHOWN]:
            where = f"{len(one.rows)} of {self.num_full_rows} rows"
            at = f"row {one.rows[0]}: the score is {one.score:.6g}, the derivative {one.derivative:.6g}"
            lines.append(f"  {one.name}: {one.finding} ({where}; {at})")
        if len(self.errors) > SHOWN:
            lines.append(f"  and {len(self.errors) - SHOWN} more")
        return "\n".join(lines)


def check_score(
    log_density: Callable[[Any], Any],
    score: ScoreLike,
    x: Any,
    *,
    key: Any = 0,
    names: Sequence[str] | None = None,
) -> ScoreCheck:
    """Compare a score with finite differences of the log-density.

    Parameters
    ----------
    log_density
        Function of NumPy, JAX or PyTorch from one sample (D,) to its log-density, up to a constant.
    score
        What is to be checked: an array of the shape of x, or a function (N, D) -> (N, D).
    x
        Samples (N, D), or chains (chains, draws, D). Up to 100 of them are looked at; steps are small against their
        standard deviation in each coordinate.
    key
        Int seed or JAX key: which samples, and which directions.
    names
        Names of the D coordinates.

    Returns
    -------
    ScoreCheck
        ``.ok``, ``.errors`` with the parameters whose derivatives are wrong, and words when printed.

    Notes
    -----
    What counts as wrong follows from the arithmetic: the noise of the log-density is measured, so that one in single
    precision, or with large sums that cancel, is not accused. ``resolution`` says what would have been seen.

    Cost: 12 values of the log-density for each of 100 rows, and 4 D for each of 10.

    Examples
    --------
    >>> import numpy as np
    >>> import slicestein as ss
    >>> x = np.random.default_rng(0).standard_normal((200, 3))
    >>> print(ss.check_score(lambda x: -0.5 * np.sum(x**2), -x * [1, 1, -1], x))
    the score is NOT the gradient of the log-density (...)
      x[2]: its sign is wrong (10 of 10 rows; ...)
    """
    _checks.is_function("log_density", log_density)
    rows, s = as_chains(x, score).flat
    names = [f"x[{i}]" for i in range(rows.shape[1])] if names is None else list(names)
    if len(names) != rows.shape[1]:
        raise InputError(f"names must hold {rows.shape[1]} names, one per column of x, got {len(names)}")
    rng = _checks.as_generator(key)
    picked = np.sort(rng.choice(len(rows), min(ROWS, len(rows)), replace=False))
    spread = rows.astype(float).std(0)
    scale = np.where(spread > 0, spread, np.maximum(np.abs(rows[0]), 1.0))
    points, s = rows[picked].astype(float), s[picked]
    density = _Density(log_density, points, picked)

    # Of lengths that differ: the rounding of equal steps repeats itself, and could not be measured.
    signs = rng.choice([-1.0, 1.0], points.shape) * rng.uniform(0.5, 1.5, points.shape) / np.sqrt(points.shape[1])
    noise = density.noise(points, scale * signs)
    floor = SCORE_ROUNDING * np.abs(s * scale).max(1)
    found, doubt = density.derivatives(points, scale * signs, noise)
    away = np.abs((s * scale * signs).sum(1) - found) / (doubt + floor)
    full = np.argsort(-np.nan_to_num(away, nan=-1.0), kind="stable")[:FULL_ROWS]  # the most suspect first

    along = [_along_coordinates(density, points[row], scale, noise[row], floor[row]) for row in full]
    derivatives, allowed = (np.array(part) for part in zip(*along, strict=True))
    if not np.isfinite(derivatives).any():
        raise InputError("log_density is not finite beside any row of x: pass samples inside the support of the model")
    wrong = np.abs(s[full] - derivatives) > allowed  # where a difference is NaN nothing is known
    errors = _errors(names, wrong, s[full].astype(float), derivatives, allowed, picked[full])
    derivatives, allowed = derivatives * scale, allowed * scale
    size = np.abs(derivatives[np.isfinite(derivatives)]).mean()
    resolution = float(np.nanmedian(allowed) / size) if size > 0 else float("inf")
    return ScoreCheck(not errors, errors, len(picked), len(full), resolution)


class _Density:
    """A log-density of one sample, of whichever package, at many."""

    def __init__(self, log_density: Callable[[Any], Any], points: Float[np.ndarray, "n d"], picked: Any) -> None:
        try:
            first = log_density(points[0])
        except Exception:
            if not _torch.is_torch(log_density, points):
                raise
            first = _torch.values(log_density, points[:1])[0]
            self.values = lambda x: _torch.values(log_density, x).astype(float)
        else:
            batched = jax.jit(jax.vmap(log_density)) if isinstance(first, jax.Array) else None
            self.values = lambda x: np.array([log_density(row) for row in x] if batched is None else batched(x), float)
        if np.shape(first) != ():
            raise InputError(f"log_density must return one number for one sample, got shape {np.shape(first)}")
        dtype = getattr(first, "dtype", np.dtype(float))
        self.eps = float(np.finfo(dtype if dtype == np.float32 else float).eps)
        self.step = self.eps**0.2  # where rounding and what the differences leave out are alike
        self.at_rows = self.values(points)
        if not np.isfinite(self.at_rows).all():
            row = int(picked[np.argmin(np.isfinite(self.at_rows))])
            raise InputError(f"log_density is not finite at row {row} of x: drop that sample or mend the model")

    def derivatives(
        self, x: Float[np.ndarray, "n d"], v: Float[np.ndarray, "n d"], noise: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Derivatives along v, and how far off they may be; NaN where a value is not finite."""
        h = self.step
        with np.errstate(invalid="ignore"):
            up, down, up2, down2 = (self.values(x + k * h * v) for k in (1, -1, 2, -2))
            near, far = (up - down) / (2 * h), (up2 - down2) / (4 * h)
            return (4 * near - far) / 3, np.abs(near - far) + SIGMAS * noise / h

    def noise(self, x: Float[np.ndarray, "n d"], v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Standard deviation of each value by rounding, of it and of x + h v: from fourth differences over all rows."""
        with np.errstate(invalid="ignore"):
            fourth = np.diff([self.values(x + k * self.step / PARTS * v) for k in range(-3, 4)], 4, axis=0)
        squares = fourth[np.isfinite(fourth)] ** 2 / 70  # 70 = 1 + 16 + 36 + 16 + 1, of the binomial coefficients
        measured = np.sqrt(squares.mean()) if squares.size else 0.0
        return np.maximum(measured, self.eps * np.abs(self.at_rows))


def _along_coordinates(
    density: _Density, point: Float[np.ndarray, " d"], scale: Float[np.ndarray, " d"], noise: float, floor: float
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Derivatives of a row along every coordinate, and how far off they may be; made in parts that fit into memory."""
    dim = len(point)
    block = max(1, MOST // dim)
    derivatives, allowed = np.empty(dim), np.empty(dim)
    for start in range(0, dim, block):
        some = slice(start, min(start + block, dim))
        axes = np.eye(some.stop - start, dim, start) * scale
        found, doubt = density.derivatives(np.tile(point, (len(axes), 1)), axes, np.full(len(axes), noise))
        derivatives[some], allowed[some] = found / scale[some], (doubt + floor) / scale[some]
    return derivatives, allowed


def _errors(
    names: Sequence[str],
    wrong: Bool[np.ndarray, "n d"],
    score: Float[np.ndarray, "n d"],
    derivative: Float[np.ndarray, "n d"],
    allowed: Float[np.ndarray, "n d"],
    picked: Int[np.ndarray, " n"],
) -> tuple[ScoreError, ...]:
    """Parameters with a wrong derivative in some row, the most rows and then the furthest off first."""
    away = np.where(wrong, np.abs(score - derivative) / allowed, 0.0)
    order = sorted(np.flatnonzero(wrong.any(0)), key=lambda i: (-wrong[:, i].sum(), -away[:, i].max()))
    errors = []
    for i in map(int, order):
        rows = np.argsort(-away[:, i], kind="stable")[: wrong[:, i].sum()]
        finding = _finding(score[rows, i], derivative[rows, i])
        worst = float(score[rows[0], i]), float(derivative[rows[0], i])
        errors.append(ScoreError(names[i], i, tuple(picked[rows].tolist()), *worst, finding))
    return tuple(errors)


def _finding(score: Float[np.ndarray, " n"], derivative: Float[np.ndarray, " n"]) -> str:
    """What the rows have in common: a sign, a factor, a constant."""
    if not score.any():
        return "it is zero"
    difference = score - derivative
    factor = float(score @ derivative / (derivative @ derivative)) if derivative.any() else 0.0
    if len(score) > 1 and np.allclose(score, factor * derivative, rtol=0.01, atol=0):
        return "its sign is wrong" if abs(factor + 1) < 0.01 else f"it is {factor:.3g} times what it should be"
    if len(score) > 1 and np.allclose(difference, difference.mean(), rtol=0.01, atol=0):
        return f"it is off by {difference.mean():.3g} everywhere"
    return "it is wrong"
