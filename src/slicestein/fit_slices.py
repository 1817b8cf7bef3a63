r"""Choosing slices: where do samples and model differ most? (labels "eq: maxSKSD", "eq: maxSKSD rg")

maxSKSD-g keeps r at a basis and maximises over g, maxSKSD-rg maximises over both. Directions are points of the
sphere, the sum over slices separates, and every slice moves on its own: along the geodesic of its gradient on
one part of the samples, by an angle that is halved whenever the value on the *other* part did not rise. Slices
that start well are thus left alone, and noise is not fitted.

Starts in closed form: the coordinate axes; active slices; and moment slices, the optimum of the sliced
Stein discrepancy over linear test functions,

$$ E_q[a f(t) + c f'(t)] = r^\top (E_q[s] \alpha + (E_q[s x^\top] + I) g \beta), \quad f(t) = \alpha + \beta t, $$

that is, the mean score (a shift) and the leading singular vectors of :math:`E[s x^T] + I` (a wrong scale).
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import ScoreLike
from slicestein.active_slices import active_slices
from slicestein.discrepancy import sksd
from slicestein.kernels import RBF, Kernel
from slicestein.slices import Slices

Init = Literal["best", "active", "random", "basis", "moments"]

HELD_OUT = 0.3  # share of the samples that decides whether a step is taken
SMALLEST_ANGLE = 1e-3
CLOSED_FORM_SLICES = 4  # of each family among the starts of maxSKSD-rg


class SliceFit(NamedTuple):
    """Fitted slices and how they got there.

    ``history`` holds per step the sum over slices of the U-statistic on the samples that give the gradient
    (``"fit"``) and on those held out (``"held_out"``), each (steps + 1,).
    """

    slices: Slices
    history: dict[str, Float[Array, " k"]]


def fit_slices(
    x: Any,
    score: ScoreLike,
    *,
    key: Any,
    optimize: Literal["g", "rg"] = "g",
    num_slices: int | None = None,
    init: Init | Slices = "best",
    steps: int = 30,
    learning_rate: float = 0.3,
    batch_size: int | None = None,
    kernel: Kernel = RBF(),
    shuffle: bool = True,
) -> SliceFit:
    r"""Find slices that tell samples from a model.

    Parameters
    ----------
    x, score, kernel
        As in `sksd`. Test on other samples than these.
    key
        Int seed or JAX key.
    optimize
        ``"g"``: r stays a basis (maxSKSD-g). ``"rg"``: both are free (maxSKSD-rg).
    num_slices
        Number of slices M. By default D for ``"g"``; for ``"rg"`` as many as raise the signal-to-noise ratio of
        the sum.
    init
        Where to start: ``"basis"`` (g = r), ``"random"``, ``"active"``, ``"moments"``, given slices, or
        ``"best"``: all of these in competition.
    steps
        Number of steps of ascent; 0 returns the starts.
    learning_rate
        First angle of a step, in radians.
    batch_size
        Samples drawn for each gradient; all by default.
    shuffle
        Hold out random samples; False holds out the last ones, for samples that are dependent in time.

    Notes
    -----
    Cost: per step O(N D M), plus the starts.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein import fit_slices
    >>> x = np.random.default_rng(0).standard_normal((300, 20))
    >>> x[:, 3] *= 0.5
    >>> slices = fit_slices(x, -x, key=0, optimize="rg", num_slices=1).slices
    >>> int(abs(slices.r[0]).argmax()), int(abs(slices.g[0]).argmax())
    (3, 3)
    """
    _checks.one_of("optimize", optimize, ("g", "rg"))
    x, s = _checks.samples_and_score(x, score)
    count, dim = x.shape
    if num_slices is not None and num_slices < 1:
        raise ValueError(f"num_slices must be positive, got {num_slices}")
    split_key, start_key, batch_key = jax.random.split(_checks.as_key(key), 3)
    order = jax.random.permutation(split_key, count) if shuffle else jnp.arange(count)
    cut = max(2, count - round(HELD_OUT * count))
    fit, held_out = ((x[rows], s[rows]) for rows in (order[:cut], order[cut:]))
    if cut > count - 2:
        raise ValueError(f"x must hold at least 5 samples to fit slices, got {count}")

    if isinstance(init, Slices):
        _checks.slices_fit(init, score_dim=dim, input_dim=dim)
        start = jax.tree.map(lambda a: a.astype(x.dtype), init)
    else:
        _checks.one_of("init", init, ("best", "active", "random", "basis", "moments"))
        choose = _starts_g if optimize == "g" else _starts_rg
        start = choose(init, x, s, held_out, start_key, num_slices, kernel)
    if not steps:
        return SliceFit(start, {})
    fitted, history = _ascend(
        start,
        fit,
        held_out,
        batch_key,
        kernel,
        learning_rate,
        steps=steps,
        batch_size=batch_size,
        move_r=optimize == "rg",
    )
    return SliceFit(fitted, history)


def _starts_g(
    init: str, x: Array, s: Array, held_out: tuple[Array, Array], key: Array, num_slices: int | None, kernel: Kernel
) -> Slices:
    """For every coordinate r the best g on held-out samples among the starts asked for."""
    dim = x.shape[1]
    if num_slices not in (None, dim):
        raise ValueError(f'optimize="g" has one slice per coordinate: num_slices is D = {dim}, or use "rg"')
    basis = Slices.basis(dim)
    r = basis.r.astype(x.dtype)
    candidates = []
    if init in ("best", "basis"):
        candidates.append(r)
    if init in ("best", "active"):
        candidates.append(active_slices(x, s, dim, basis_r=True).g)
    if init in ("best", "moments"):
        candidates.append(_slope_matrix(x, s) + 1e-6 * r)  # the best linear test function of each coordinate
    if init == "random":
        candidates.append(jax.random.normal(key, (dim, dim), x.dtype))
    if len(candidates) == 1:
        return Slices(r, candidates[0])
    # Later candidates have seen the held-out samples: they must beat the axes by more than noise.
    values = jnp.stack([_u(Slices(r, g), *held_out, kernel) for g in candidates])
    best = jnp.argmax(values, axis=0)
    return Slices(r, jnp.stack(candidates)[best, jnp.arange(dim)])


def _starts_rg(
    init: str, x: Array, s: Array, held_out: tuple[Array, Array], key: Array, num_slices: int | None, kernel: Kernel
) -> Slices:
    """Slices of the families asked for; with ``best`` the closed forms first, then axes while they help."""
    dim = x.shape[1]
    few = min(dim, num_slices or CLOSED_FORM_SLICES)
    if init == "random":
        return Slices(*jax.random.normal(key, (2, num_slices or dim, dim), x.dtype))
    if init == "active":
        return active_slices(x, s, few)
    if init == "moments":
        return _moment_slices(x, s, few)
    axes = jax.tree.map(lambda a: a.astype(x.dtype), Slices.basis(dim))
    ratio, rank = _ratios(axes, x, s, kernel)
    order = jnp.argsort(-rank)
    if init == "basis":
        return jax.tree.map(lambda a: a[order[:few] if num_slices else slice(None)], axes)
    closed = [_moment_slices(x, s, few), active_slices(x, s, few)]
    pool = Slices(*(jnp.concatenate([getattr(z, name) for z in (*closed, axes)]) for name in "rg"))
    if num_slices is not None:
        values = _u(pool, x, s, kernel)
        return jax.tree.map(lambda a: a[jnp.argsort(-values)[:num_slices]], pool)
    keep = int(jnp.argmax(jnp.cumsum(ratio[order]) / jnp.sqrt(jnp.arange(1, dim + 1)))) + 1
    chosen = jax.tree.map(lambda a: a[order[:keep]], axes)
    return Slices(*(jnp.concatenate([getattr(z, name) for z in (*closed, chosen)]) for name in "rg"))


def _u(slices: Slices, x: Array, s: Array, kernel: Kernel) -> Float[Array, " m"]:
    return sksd(x, s, slices, kernel=kernel, per_slice=True)


def _ratios(slices: Slices, x: Array, s: Array, kernel: Kernel) -> tuple[Array, Array]:
    u = _u(slices, x, s, kernel)
    return u, u


def _slope_matrix(x: Array, s: Array) -> Float[Array, "d d"]:
    """E[s (x - mean)^T] + I: zero for the model itself (Stein's identity with linear test functions)."""
    return s.T @ (x - x.mean(0)) / x.shape[0] + jnp.eye(x.shape[1], dtype=x.dtype)


@functools.partial(jax.jit, static_argnames="num")
def _moment_slices(x: Array, s: Array, num: int) -> Slices:
    """The mean score, then the directions whose scale is most wrong.

    -E[s x^T] is I for the model. Its singular values scatter in proportion to themselves, so that 1/4 is as
    far from 1 as 4 is.
    """
    left, scale, right = jnp.linalg.svd(-s.T @ (x - x.mean(0)) / x.shape[0])
    tiny = jnp.finfo(x.dtype).tiny
    order = jnp.argsort(-jnp.abs(jnp.log(jnp.maximum(scale, tiny))))[: num - 1]
    shift = s.mean(0, keepdims=True) + tiny
    return Slices(jnp.concatenate([shift, left.T[order]]), jnp.concatenate([shift, right[order]]))


class _State(NamedTuple):
    slices: Slices
    momentum: Slices
    angle: Float[Array, " m"]
    value: Float[Array, " m"]  # on held-out samples


@functools.partial(jax.jit, static_argnames=("steps", "batch_size", "move_r"))
def _ascend(
    start: Slices,
    fit: tuple[Array, Array],
    held_out: tuple[Array, Array],
    key: Array,
    kernel: Kernel,
    first_angle: float,
    *,
    steps: int,
    batch_size: int | None,
    move_r: bool,
) -> tuple[Slices, dict[str, Array]]:
    def step(state: _State, key: Array) -> tuple[_State, tuple[Array, Array]]:
        x, s = fit
        if batch_size is not None and batch_size < x.shape[0]:
            rows = jax.random.choice(key, x.shape[0], (batch_size,), replace=False)
            x, s = x[rows], s[rows]

        def total(z: Slices) -> tuple[Array, Array]:
            values = sksd(x, s, z, kernel=kernel, statistic="v", per_slice=True)
            return values.sum(), values.sum()

        gradient, fit_value = jax.grad(total, has_aux=True)(state.slices)
        r = _geodesic(state.slices.r, gradient.r, state.angle) if move_r else state.slices.r
        proposal = Slices(r, _geodesic(state.slices.g, gradient.g, state.angle))
        value = _u(proposal, *held_out, kernel)
        better = value > state.value
        slices = jax.tree.map(lambda new, old: jnp.where(better[:, None], new, old), proposal, state.slices)
        angle = jnp.where(better, state.angle, state.angle / 2)
        return _State(slices, state.momentum, angle, jnp.maximum(value, state.value)), (fit_value, state.value.sum())

    first = _State(start, start, jnp.full(start.num, first_angle, start.r.dtype), _u(start, *held_out, kernel))
    last, (fit_values, held_values) = lax.scan(step, first, jax.random.split(key, steps))
    return last.slices, {"fit": fit_values, "held_out": jnp.append(held_values, last.value.sum())}


def _geodesic(
    rows: Float[Array, "m d"], gradient: Float[Array, "m d"], angle: Float[Array, " m"]
) -> Float[Array, "m d"]:
    """Turn unit rows by an angle towards their gradient on the sphere."""
    tangent = gradient - jnp.sum(gradient * rows, axis=1, keepdims=True) * rows
    norm = jnp.linalg.norm(tangent, axis=1, keepdims=True)
    direction = tangent / jnp.where(norm > 0, norm, 1)
    turn = jnp.where(norm > 0, angle[:, None], 0)
    return jnp.cos(turn) * rows + jnp.sin(turn) * direction
