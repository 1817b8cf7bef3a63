r"""Discrepancies between samples and a model: KSD and sliced KSD, as U- and V-statistics.

$$
V = \frac1{N^2} \sum_{i,j} h_{ij}, \qquad
U = \frac1{N(N-1)} \sum_{i \ne j} h_{ij} = \frac{N V - \frac1N \sum_i h_{ii}}{N - 1}
$$

(labels "eq: KSD", "eq: SKSD", "eq: maxSKSD", "eq: U maxSKSD"). V is a squared norm, so never negative; U is
unbiased. Two engines give the same numbers: ``exact`` sums over all pairs in tiles, O(N^2 M); ``fourier`` is
linear in N (`fourier`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._stein import exact, fourier
from slicestein._stein.operator import Projected, diagonal_mean, jacobian_term
from slicestein._stein.tiles import map_in_blocks, sum_over_rows
from slicestein.kernels import RBF, Kernel, thin
from slicestein.slices import Slices

Statistic = Literal["u", "v"]
Engine = Literal["auto", "exact", "fourier"]
FeatureMap = Callable[[Float[Array, " d"]], Float[Array, " e"]]

# With fewer samples all pairs cost less than the Fourier sums (two cores, M = 100).
FOURIER_FROM = 16


def sksd(
    x: Any,
    score: ScoreLike,
    slices: Slices,
    *,
    kernel: Kernel = RBF(),
    statistic: Statistic = "u",
    engine: Engine = "auto",
    per_slice: bool = False,
    feature_map: FeatureMap | None = None,
) -> Float[Array, ""] | Float[Array, " m"]:
    r"""Sliced kernelized Stein discrepancy of samples to a model, summed over slices.

    With r a basis and g optimal for each r this is maxSKSD-g, with both optimal maxSKSD-rg (label
    "eq: maxSKSD"). The squared discrepancy is returned, as in the paper.

    Parameters
    ----------
    x
        Samples, (N, D), any float dtype; the result has the same.
    score
        $\nabla \log p$ at the samples, (N, D), or a function that maps x to it.
    slices
        Directions (r, g).
    kernel
        ``RBF``, ``IMQ`` or ``Matern``, with a bandwidth rule.
    statistic
        ``"u"``, unbiased, or ``"v"``, non-negative.
    engine
        ``"fourier"`` (linear in N; RBF), ``"exact"`` (all pairs, any kernel), or ``"auto"``: the cheaper one
        that the kernel allows.
    per_slice
        Return one value per slice, (M,), instead of the sum.
    feature_map
        Injective function of one sample, (D,) -> (E,), for the deep-kernel form (label
        "eq: Deep kernel SKSD inner"); g then has dimension E.

    Notes
    -----
    Works under ``jit``, ``vmap`` and ``grad`` (reverse mode, once). Static: ``statistic``, ``engine``,
    ``per_slice``, ``feature_map`` and all shapes; x, score, slices and the bandwidth may be traced. Second
    derivatives and forward mode need ``engine="exact"``.

    Cost: O(N D M) for the projections, then O(N J M) with J about 20, or O(N^2 M). Memory beyond the inputs: the
    projections of as many slices as fit in about 640 MB.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein import Slices, sksd
    >>> x = np.random.default_rng(0).standard_normal((2000, 10))
    >>> good, wrong = sksd(x, -x, Slices.basis(10)), sksd(x, -x / 0.8, Slices.basis(10))
    >>> bool(wrong > 10 * abs(good))
    True
    """
    _checks.one_of("statistic", statistic, ("u", "v"))
    data = prepare(x, score, slices, kernel, feature_map)
    values = _per_slice(data, kernel, statistic=statistic, engine=_choose(engine, kernel, data.num_samples))
    return values if per_slice else values.sum()


def integrated_sksd(
    x: Any,
    score: ScoreLike,
    *,
    key: Any,
    num_directions: int = 10,
    kernel: Kernel = RBF(),
    statistic: Statistic = "u",
    engine: Engine = "auto",
) -> Float[Array, ""]:
    r"""SKSD with test directions g uniform on the sphere (label "eq: SKSD").

    $$ \sum_{d=1}^D \mathbb E_g [ D^2_{e_d, g} ], $$

    by ``num_directions`` independent draws of g for every coordinate. Unbiased in the draws with fixed
    bandwidths; the discrepancy fades with D, which is why maxSKSD chooses g.
    """
    x, s = _checks.samples_and_score(x, score)
    dim = x.shape[1]
    g = jax.random.normal(_checks.as_key(key), (num_directions * dim, dim), x.dtype)
    slices = Slices(jnp.tile(jnp.eye(dim, dtype=x.dtype), (num_directions, 1)), g)
    return sksd(x, s, slices, kernel=kernel, statistic=statistic, engine=engine) / num_directions


def witness(
    x: Any,
    score: ScoreLike,
    slices: Slices,
    t: Any,
    *,
    kernel: Kernel = RBF(),
    engine: Engine = "auto",
    feature_map: FeatureMap | None = None,
) -> Float[Array, "t m"]:
    r"""The optimal test function of each slice, unnormalised, at points of the line.

    $$ \phi(t) = \frac1N \sum_i \xi(x_i, t), $$

    in units of t (label "eq: SKSD test function"): a kernel-smoothed difference of the projected scores,
    positive where samples should move along r. It is also the force of sliced SVGD
    (label "eq:S_SVGD update direction").

    Parameters
    ----------
    x, score, slices, kernel, engine, feature_map
        As in `sksd`.
    t
        Points on the projected axis: (T,) for all slices, or (T, M).

    Returns
    -------
    Array
        Values, (T, M).
    """
    data = prepare(x, score, slices, kernel, feature_map)
    points = jnp.asarray(t, data.s.dtype)
    if points.ndim not in (1, 2) or (points.ndim == 2 and points.shape[1] != slices.num):
        raise InputError(f"t must have shape (T,) or (T, {slices.num}), got {points.shape}")
    points = jnp.broadcast_to(points.reshape(len(points), -1), (len(points), slices.num))
    return _witness(data, points, kernel, engine=_choose(engine, kernel, data.num_samples))


def ksd(
    x: Any,
    score: ScoreLike,
    *,
    kernel: Kernel = RBF(),
    statistic: Statistic = "u",
) -> Float[Array, ""]:
    r"""Kernelized Stein discrepancy in the full space (label "eq: KSD"), squared.

    $$
    h(x, y) = \kappa \, s(x)^\top s(y) - \frac{\kappa'}{d} (s(x) - s(y))^\top (x - y)
    - \kappa'' - (D - 1) \frac{\kappa'}{d}, \quad d = |x - y| .
    $$

    Parameters
    ----------
    x, score, kernel, statistic
        As in `sksd`; the median bandwidth is the median distance between samples.

    Notes
    -----
    Cost: O(N^2 D) time in tiles of 8 MB.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein import RBF, Slices, ksd, sksd
    >>> x = np.random.default_rng(0).standard_normal((50, 1))
    >>> kernel = RBF(1.0)
    >>> bool(np.isclose(ksd(x, -x, kernel=kernel), sksd(x, -x, Slices.basis(1), kernel=kernel), rtol=1e-4))
    True
    """
    _checks.one_of("statistic", statistic, ("u", "v"))
    x, s = _checks.samples_and_score(x, score)
    check_kernel(kernel, 1)
    width = kernel.full_width(x)
    _checks.spread(width[None])
    return _ksd(x, s, width, kernel, statistic)


def check_kernel(kernel: Kernel, num_slices: int) -> None:
    """Require a kernel with positive bandwidths."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be RBF(), IMQ() or Matern(), got {kernel!r}")
    _checks.bandwidth(kernel.bandwidth, num_slices)
    _checks.bandwidth(kernel.scale, num_slices)


class Problem(NamedTuple):
    """Checked inputs of a sliced discrepancy, with the bandwidth of every slice."""

    inputs: Float[Array, "n e"]  # the samples, or their features
    s: Float[Array, "n d"]
    r: Float[Array, "m d"]
    g: Float[Array, "m e"]
    widths: Float[Array, " m"]
    jacobian: Float[Array, "m n"] | None  # with a feature map only

    @property
    def num_samples(self) -> int:
        return self.inputs.shape[0]

    def per_slice(self, *more: Array) -> tuple[Any, ...]:
        """What belongs to one slice, as rows: the arguments of `project`, then `more`."""
        return (self.r, self.g, self.widths, self.jacobian, *more)

    def project(self, r: Array, g: Array, widths: Array, jacobian: Array | None) -> Projected:
        """Projections of all samples on some of the slices."""
        scaled = g / widths[:, None]
        c = jnp.sum(r * scaled, axis=1, keepdims=True) if jacobian is None else jacobian / widths[:, None]
        return Projected(scaled @ self.inputs.T, r @ self.s.T, c)


def prepare(x: Any, score: ScoreLike, slices: Slices, kernel: Kernel, feature_map: FeatureMap | None) -> Problem:
    """Check the input of a sliced discrepancy and find the bandwidths."""
    x, s = _checks.samples_and_score(x, score)
    if not isinstance(slices, Slices):
        raise InputError(f"slices must be a Slices(r, g), got {type(slices).__name__}")
    check_kernel(kernel, slices.num)
    inputs = x if feature_map is None else jax.vmap(feature_map)(x)
    _checks.slices_fit(slices, score_dim=x.shape[1], input_dim=inputs.shape[1])
    jacobian = None
    if feature_map is not None:
        jacobian = jacobian_term(x, slices, feature_map)
        _checks.finite(feature_map=inputs, jacobian=jacobian)
    r, g = slices.r.astype(x.dtype), slices.g.astype(x.dtype)
    widths = _widths(kernel, inputs, g)
    _checks.spread(widths)
    return Problem(inputs, s, r, g, widths, jacobian)


def _choose(engine: Engine, kernel: Kernel, num_samples: int) -> str:
    _checks.one_of("engine", engine, ("auto", "exact", "fourier"))
    if engine == "auto":
        return "fourier" if kernel.spectrum is not None and num_samples >= FOURIER_FROM else "exact"
    if engine == "fourier" and kernel.spectrum is None:
        raise InputError(f'engine="fourier" needs RBF; for {type(kernel).__name__} use "auto" or "exact"')
    return engine


@jax.jit
def _widths(kernel: Kernel, inputs: Array, g: Array) -> Float[Array, " m"]:
    return kernel.widths(g @ thin(inputs).T)


@functools.partial(jax.jit, static_argnames=("statistic", "engine"))
def _per_slice(problem: Problem, kernel: Kernel, *, statistic: str, engine: str) -> Float[Array, " m"]:
    count = problem.num_samples

    def block(rows: tuple[Any, ...]) -> Array:
        data = problem.project(*rows)
        v = fourier.v_statistic(*data, kernel.unit) if engine == "fourier" else exact.v_statistic(data, kernel)
        return v if statistic == "v" else (count * v - diagonal_mean(kernel, data)) / (count - 1)

    bytes_per_row = 2 * count * problem.s.dtype.itemsize
    return map_in_blocks(block, problem.per_slice(), bytes_per_row)


@functools.partial(jax.jit, static_argnames="engine")
def _witness(problem: Problem, points: Float[Array, "t m"], kernel: Kernel, *, engine: str) -> Float[Array, "t m"]:
    count, total = problem.num_samples, problem.num_samples + points.shape[0]

    def block(rows: tuple[Any, ...]) -> Array:
        *of_slice, at = rows
        data = problem.project(*of_slice)
        if engine == "exact":
            return exact.witness(data, kernel, at)
        # Points that carry no score and no Jacobian add nothing to V; dV/da there is the witness.
        silent = jnp.zeros_like(at)
        c = jnp.broadcast_to(data.c, data.u.shape)
        u, a, c = (jnp.concatenate(p, axis=1) for p in ((data.u, at), (data.a, silent), (c, silent)))
        _, _, da, _ = fourier.value_and_gradient(u, a, c, kernel.unit)
        return da[:, count:] * (total**2 / (2 * count))

    rows = problem.per_slice((points / problem.widths).T)
    return map_in_blocks(block, rows, bytes_per_row=6 * total * problem.s.dtype.itemsize).T


@functools.partial(jax.jit, static_argnames="statistic")
def _ksd(x: Array, s: Array, width: Array, kernel: Kernel, statistic: str) -> Array:
    count, dim = x.shape
    y = (x - lax.stop_gradient(x.mean(0))) / width
    b = s * width  # scores in the scaled space
    square, score_dot = jnp.sum(y**2, axis=1), jnp.sum(b * y, axis=1)

    def row_sum(row: tuple[Array, Array, Array]) -> Array:
        i, yi, bi = row
        q = jnp.maximum(square + yi @ yi - 2 * y @ yi, 0)
        q = jnp.where(jnp.arange(count) == i, 0, q)  # not rounding, whose root Matern would see
        k, k1, k2 = kernel.derivatives(q)
        difference = bi @ yi + score_dot - y @ bi - b @ yi
        return jnp.sum(k * (b @ bi) - k1 * difference - k2 - (dim - 1) * k1)

    v = sum_over_rows(row_sum, (jnp.arange(count), y, b), num_columns=count) / float(count) ** 2 / width**2
    if statistic == "v":
        return v
    k, k1, k2 = kernel.derivatives(jnp.zeros((), x.dtype))
    diagonal = k * jnp.mean(jnp.sum(s**2, axis=1)) - (k2 + (dim - 1) * k1) / width**2
    return (count * v - diagonal) / (count - 1)
