r"""Choosing slices: where do samples and model differ most (labels "eq: maxSKSD", "eq: maxSKSD rg").

maxSKSD-g keeps r at a basis and maximises over g, maxSKSD-rg maximises over both. Directions are points of the
sphere, the sum over slices separates, and every slice moves on its own: along the geodesic of its gradient on
one part of the samples, by an angle that is halved whenever the value on the *other* part did not rise. Slices
that start well are thus left alone, and noise is not fitted.

Starts in closed form: the coordinate axes; active slices; and moment slices, the optimum of the sliced
Stein discrepancy over linear test functions,

$$ E_q[a f(t) + c f'(t)] = r^\top (E_q[s] \alpha + (E_q[s x^\top] + I) g \beta), \quad f(t) = \alpha + \beta t, $$

that is, the mean score (a shift) and the leading singular vectors of $E[s x^T] + I$ (a wrong scale).
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein import _checks
from slicestein._checks import ScoreLike
from slicestein.active_slices import active_slices
from slicestein.discrepancy import sksd
from slicestein.kernels import RBF, Kernel
from slicestein.slices import Slices

Init = Literal["best", "active", "random", "basis", "moments"]
INITS = ("best", "active", "random", "basis", "moments")

SMALLEST_ANGLE = 1e-3  # a slice whose steps have become this small has arrived
CLOSED_FORM_SLICES = 4  # of each family among the starts of maxSKSD-rg


class SliceFit(NamedTuple):
    """Fitted slices and how they got there.

    ``history`` holds, for every step taken, the V-statistic on the samples that give the gradient (``"fit"``) and
    the U-statistic on those held out (``"held_out"``), summed over slices.
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
    hold_out: float = 0.3,
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
    hold_out
        Share of the samples that decides whether a step is taken and which start is best. With 0 every step is
        taken, the angle shrinks with time, and noise is fitted too, as in the paper.
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
    if num_slices is not None and (num_slices < 1 or (optimize == "g" and num_slices != dim)):
        raise ValueError(f'num_slices must be positive, and D = {dim} for optimize="g", got {num_slices}')
    if not 0 <= hold_out < 1:
        raise ValueError(f"hold_out must be at least 0 and less than 1, got {hold_out}")
    split_key, start_key, batch_key = jax.random.split(_checks.as_key(key), 3)
    rows = jax.random.permutation(split_key, count) if shuffle else jnp.arange(count)
    cut = count - round(hold_out * count)
    if cut < 2 or 0 < count - cut < 2:
        raise ValueError(f"x holds too few samples to hold some out: {count} with hold_out = {hold_out}")
    fit = x[rows[:cut]], s[rows[:cut]]
    judge = (x[rows[cut:]], s[rows[cut:]]) if cut < count else fit

    if isinstance(init, Slices):
        _checks.slices_fit(init, score_dim=dim, input_dim=dim)
        start = jax.tree.map(lambda a: a.astype(x.dtype), init)
    elif optimize == "g":
        _checks.one_of("init", init, INITS)
        start = _starts_g(init, fit, judge, start_key, kernel)
    else:
        _checks.one_of("init", init, INITS)
        start = _starts_rg(init, (x, s), start_key, num_slices, kernel)
    if steps < 1:
        return SliceFit(start, {})
    fitted, taken, history = _ascend(
        start,
        fit,
        judge,
        batch_key,
        kernel,
        learning_rate,
        steps=steps,
        batch_size=batch_size,
        move_r=optimize == "rg",
        gated=cut < count,
    )
    return SliceFit(fitted, {name: values[:taken] for name, values in history.items()})


Samples = tuple[Float[Array, "n d"], Float[Array, "n d"]]


def _starts_g(init: str, fit: Samples, judge: Samples, key: Array, kernel: Kernel) -> Slices:
    """For every coordinate r the g that held-out samples prefer among the starts asked for."""
    x, s = fit
    dim = x.shape[1]
    r = jnp.eye(dim, dtype=x.dtype)
    if init == "random":
        return Slices(r, jax.random.normal(key, (dim, dim), x.dtype))
    candidates = []
    if init in ("best", "basis"):
        candidates.append(r)
    if init in ("best", "active"):
        candidates.append(active_slices(x, s, dim, basis_r=True, estimator="stein").g)
    if init in ("best", "moments"):
        candidates.append(_slope_matrix(x, s))  # row r is the best linear test function for r
    values = jnp.stack([sksd(*judge, Slices(r, g), kernel=kernel, per_slice=True) for g in candidates])
    return Slices(r, jnp.stack(candidates)[jnp.argmax(values, axis=0), jnp.arange(dim)])


def _starts_rg(init: str, data: Samples, key: Array, num_slices: int | None, kernel: Kernel) -> Slices:
    """Slices of the families asked for, strongest first."""
    dim = data[0].shape[1]
    few = min(dim, num_slices or CLOSED_FORM_SLICES)
    if init == "random":
        return Slices(*jax.random.normal(key, (2, num_slices or dim, dim), data[0].dtype))
    if init == "active":
        return active_slices(*data, few, estimator="stein")
    if init == "moments":
        return _moment_slices(*data, few)
    axes = jax.tree.map(lambda a: a.astype(data[0].dtype), Slices.basis(dim))
    axes = _strongest(axes, data, num_slices, kernel)
    if init == "basis":
        return axes
    families = (_moment_slices(*data, few), active_slices(*data, few, estimator="stein"), axes)
    pool = Slices(*(jnp.concatenate([getattr(family, name) for family in families]) for name in "rg"))
    return pool if num_slices is None else _strongest(pool, data, num_slices, kernel)


def _strongest(slices: Slices, data: Samples, num: int | None, kernel: Kernel) -> Slices:
    """The slices of largest discrepancy: `num`, or as many as raise the signal-to-noise ratio of their sum.

    U is measured in units of the mean of h(x, x) = N V - (N - 1) U, to which its noise is proportional.
    """
    count = data[0].shape[0]
    u, v = (sksd(*data, slices, kernel=kernel, statistic=form, per_slice=True) for form in ("u", "v"))
    signal = u / (count * v - (count - 1) * u)
    order = jnp.argsort(-signal)
    if num is None:  # among powers of two: few sizes, few compilations
        ratio = np.cumsum(signal[order]) / np.sqrt(np.arange(1, slices.num + 1))
        num = max((*(2**k for k in range(slices.num.bit_length())), slices.num), key=lambda size: ratio[size - 1])
    return jax.tree.map(lambda a: a[order[:num]], slices)


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
    step: Int[Array, ""]
    slices: Slices
    angle: Float[Array, " m"]
    value: Float[Array, " m"]  # on held-out samples
    history: dict[str, Float[Array, " k"]]


@functools.partial(jax.jit, static_argnames=("steps", "batch_size", "move_r", "gated"))
def _ascend(
    start: Slices,
    fit: Samples,
    judge: Samples,
    key: Array,
    kernel: Kernel,
    first_angle: float,
    *,
    steps: int,
    batch_size: int | None,
    move_r: bool,
    gated: bool,
) -> tuple[Slices, Int[Array, ""], dict[str, Array]]:
    """Slices, the number of steps taken, and the history."""

    def judged(slices: Slices) -> Float[Array, " m"]:
        return sksd(*judge, slices, kernel=kernel, per_slice=True)

    def step(state: _State) -> _State:
        x, s = fit
        if batch_size is not None and batch_size < x.shape[0]:
            rows = jax.random.choice(jax.random.fold_in(key, state.step), x.shape[0], (batch_size,), replace=False)
            x, s = x[rows], s[rows]
        total, gradient = jax.value_and_grad(lambda z: sksd(x, s, z, kernel=kernel, statistic="v"))(state.slices)
        r = _geodesic(state.slices.r, gradient.r, state.angle) if move_r else state.slices.r
        proposal = Slices(r, _geodesic(state.slices.g, gradient.g, state.angle))
        value = judged(proposal)
        better = value > state.value if gated else jnp.ones_like(value, bool)
        slices = jax.tree.map(lambda new, old: jnp.where(better[:, None], new, old), proposal, state.slices)
        value = jnp.where(better, value, state.value)
        slower = jnp.where(better, state.angle, state.angle / 2) if gated else first_angle * (1 - state.step / steps)
        history = {
            "fit": state.history["fit"].at[state.step].set(total),
            "held_out": state.history["held_out"].at[state.step].set(value.sum()),
        }
        return _State(state.step + 1, slices, jnp.broadcast_to(slower, value.shape), value, history)

    def unfinished(state: _State) -> Array:
        return (state.step < steps) & (state.angle > SMALLEST_ANGLE).any()

    empty = jnp.zeros(steps, start.r.dtype)
    angle = jnp.full(start.num, first_angle, start.r.dtype)
    first = _State(jnp.asarray(0), start, angle, judged(start), {"fit": empty, "held_out": empty})
    last = lax.while_loop(unfinished, step, first)
    return last.slices, last.step, last.history


def _geodesic(
    rows: Float[Array, "m d"], gradient: Float[Array, "m d"], angle: Float[Array, " m"]
) -> Float[Array, "m d"]:
    """Turn unit rows by an angle towards their gradient on the sphere."""
    tangent = gradient - jnp.sum(gradient * rows, axis=1, keepdims=True) * rows
    norm = jnp.linalg.norm(tangent, axis=1, keepdims=True)
    rounding = 8 * jnp.finfo(rows.dtype).eps * jnp.linalg.norm(gradient, axis=1, keepdims=True)
    moves = norm > rounding
    direction = tangent / jnp.where(moves, norm, 1)
    turn = jnp.where(moves, angle[:, None], 0)
    return jnp.cos(turn) * rows + jnp.sin(turn) * direction
