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

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._stein import bandwidths, chunked, full_space, sliced
from slicestein._stein.engine import Engine
from slicestein._stein.sliced import FeatureMap, Problem, Statistic
from slicestein.kernels import RBF, Kernel
from slicestein.rows.opening import as_source
from slicestein.rows.source import Source
from slicestein.slices import Slices


def sksd(
    x: Any,
    score: ScoreLike | None,
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
        Samples, (N, D), any float dtype; the result has the same. Or rows that need not fit into memory, from
        `slicestein.rows.open`.
    score
        $\nabla \log p$ at the samples, (N, D), or a function that maps x to it; None for rows that have it inside.
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
    Works under ``jit``, ``vmap``, ``jvp`` and ``grad`` (once). Static: ``statistic``, ``engine``,
    ``per_slice``, ``feature_map`` and all shapes; x, score, slices and the bandwidth may be traced. Second
    derivatives need ``engine="exact"``.

    Cost: O(N D M) for the projections, then O(N J M) with J about 20, or O(N^2 M). Memory beyond the inputs: the
    projections of as many slices as fit in about 640 MB.

    Rows of a source are read in chunks, for kernels with a spectrum, outside of ``jit``; chains are laid one after the
    other. The value is that of arrays to about 1e-5 of the mean of h(x, x), with which the spectrum is cut. Rows are
    read once, and once more where some lie farther than ten bandwidths from the middle of a slice; beyond 500, as with
    Cauchy tails, they are refused.

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
    check_engine(engine, kernel)
    if isinstance(x, Source) or score is None:
        values = _in_chunks(as_source(x, score), slices, kernel, statistic, engine, feature_map)
        return values if per_slice else values.sum()
    problem = _checked_problem(x, score, slices, kernel, feature_map)
    values = sliced.statistics(problem, kernel, statistic=statistic, engine=engine)
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
    x, s = _checks.samples_and_score(x, score, origin=_checks.origin_of(x))
    _checks.positive(num_directions=num_directions)
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
    problem = _checked_problem(x, score, slices, kernel, feature_map)
    check_engine(engine, kernel)
    points = np.asarray(t) if _checks.is_concrete(t) else t
    if points.ndim not in (1, 2) or (points.ndim == 2 and points.shape[1] != slices.num):
        raise InputError(f"t must have shape (T,) or (T, {slices.num}), got {points.shape}")
    points = points.reshape(len(points), -1)
    origin = _checks.origin_of(x) if feature_map is None else 0.0
    if np.ndim(origin):
        g = np.asarray(slices.g, float) if _checks.is_concrete(slices.g) else slices.g
        points = points - (origin @ g.T)[None]
    points = jnp.broadcast_to(jnp.asarray(points, problem.s.dtype), (len(points), slices.num))
    return sliced.witness(problem, points, kernel, engine=engine)


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
    x, s = _checks.samples_and_score(x, score, origin=_checks.origin_of(x))
    _checks.kernel(kernel, 1)
    _checks.bandwidth_exists(kernel, bandwidths.evenly_spread(x))
    data = full_space.scale(x, s, bandwidths.in_full_space(kernel, x))
    return full_space.statistic(data, kernel, statistic=statistic)


def _in_chunks(
    rows: Source, slices: Slices, kernel: Kernel, statistic: Statistic, engine: Engine, feature_map: FeatureMap | None
) -> Float[Array, " m"]:
    if engine == "exact" or feature_map is not None or kernel.spectrum is None:
        raise InputError(
            "rows in chunks are summed by Fourier features: use a kernel with a spectrum, such as RBF, and leave "
            "engine and feature_map out"
        )
    _check_slices(slices, kernel, rows.dim, rows.dim)
    r, g = (np.asarray(part, float) for part in (slices.r, slices.g))
    return jnp.asarray(chunked.statistics(rows, r, g, kernel, unbiased=statistic == "u"))


def _check_slices(slices: Slices, kernel: Kernel, score_dim: int, input_dim: int) -> None:
    if not isinstance(slices, Slices):
        raise InputError(f"slices must be a Slices(r, g), got {type(slices).__name__}")
    _checks.kernel(kernel, slices.num)
    _checks.slices_fit(slices, score_dim=score_dim, input_dim=input_dim)


def check_engine(engine: Engine, kernel: Kernel) -> None:
    """Require an engine that can take the kernel."""
    _checks.one_of("engine", engine, ("auto", "exact", "fourier"))
    if engine == "fourier" and kernel.spectrum is None:
        raise InputError(
            f'engine="fourier" needs a kernel with a spectrum, such as RBF; for {type(kernel).__name__} use "auto" '
            'or "exact"'
        )


def _checked_problem(
    x: Any, score: ScoreLike, slices: Slices, kernel: Kernel, feature_map: FeatureMap | None
) -> Problem:
    """The door of the sliced functions: every check of their input, in the order in which it can be looked at."""
    origin = _checks.origin_of(x) if feature_map is None else 0.0
    x, s = _checks.samples_and_score(x, score, origin=origin)
    _check_slices(slices, kernel, x.shape[1], _num_features(x, feature_map))
    problem = sliced.problem(x, s, slices.r, slices.g, kernel, feature_map)
    if problem.jacobian is not None:
        _checks.finite(feature_map=problem.inputs, jacobian=problem.jacobian)
    _checks.spread(problem.bandwidths)
    return problem


def _num_features(x: Float[Array, "n d"], feature_map: FeatureMap | None) -> int:
    if feature_map is None:
        return x.shape[1]
    found = jax.eval_shape(feature_map, x[0])
    if not isinstance(found, jax.ShapeDtypeStruct) or found.ndim != 1 or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InputError(f"feature_map must take one sample (D,) to a vector (E,) of real numbers, got {found}")
    return found.shape[0]
