r"""Choosing slices: where do samples and model differ most (labels "eq: maxSKSD", "eq: maxSKSD rg").

maxSKSD-g keeps r at a basis and maximises over g, maxSKSD-rg maximises over both. Directions are points of the
sphere, the sum over slices separates, and every slice moves on its own: along the geodesic of its gradient on
one part of the samples, by an angle that is halved whenever the value on the *other* part did not rise. Slices
that start well are thus left alone, and noise is not fitted. The value is the discrepancy in units of its noise,
the mean of h(x, x): else ascent would look for directions where scores are large.

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
from slicestein._checks import InputError, ScoreLike
from slicestein._directions.active import active_slices
from slicestein._stein.operator import diagonal_mean
from slicestein._stein.sliced import Problem, problem
from slicestein.discrepancy import check_kernel, sksd
from slicestein.kernels import RBF, Kernel
from slicestein.slices import Slices

Init = Literal["best", "active", "random", "basis", "moments"]
INITS = ("best", "active", "random", "basis", "moments")

SMALLEST_ANGLE = 1e-3  # a slice whose steps have become this small has arrived
CLOSED_FORM_SLICES = 4  # of each family among the starts of maxSKSD-rg


class SliceFit(NamedTuple):
    """Fitted slices and how they got there.

    ``history`` holds, for every step taken, the V-statistic on the samples that give the gradient (``"fit"``) and
    the U-statistic on those held out (``"held_out"``), in units of their noise and summed over slices.
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
        raise InputError(f'num_slices must be positive, and D = {dim} for optimize="g", got {num_slices}')
    if not 0 <= hold_out < 1:
        raise InputError(f"hold_out must be at least 0 and less than 1, got {hold_out}")
    cut = count - round(hold_out * count)
    if cut < 2 or 0 < count - cut < 2:
        raise InputError(f"x holds too few samples to hold some out: {count} with hold_out = {hold_out}")
    check_kernel(kernel, num_slices or dim)
    _checks.columns_vary(x)
    fit, judge, start_key, batch_key = _hold_out(_checks.as_key(key), x, s, cut, shuffle)

    if isinstance(init, Slices):
        _checks.slices_fit(init, score_dim=dim, input_dim=dim)
        start = jax.tree.map(lambda a: a.astype(x.dtype), init)
    elif optimize == "g":
        _checks.one_of("init", init, INITS)
        start = _starts_g(init, fit, judge, start_key, kernel)
    else:
        _checks.one_of("init", init, INITS)
        start = _starts_rg(init, (x, s), fit, judge, start_key, num_slices, kernel)
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


@functools.partial(jax.jit, static_argnames=("cut", "shuffle"))
def _hold_out(key: Array, x: Array, s: Array, cut: int, shuffle: bool) -> tuple[Samples, Samples, Array, Array]:
    """Samples to fit on, samples held out (the same if none are), and two keys."""
    split_key, start_key, batch_key = jax.random.split(key, 3)
    count = x.shape[0]
    rows = jax.random.permutation(split_key, count) if shuffle else jnp.arange(count)
    fit = x[rows[:cut]], s[rows[:cut]]
    return fit, (x[rows[cut:]], s[rows[cut:]]) if cut < count else fit, start_key, batch_key


@functools.partial(jax.jit, static_argnames="init")
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


def _starts_rg(
    init: str, data: Samples, fit: Samples, judge: Samples, key: Array, num_slices: int | None, kernel: Kernel
) -> Slices:
    """Slices of the families asked for: held-out samples tell which to keep, then all samples find them anew.

    Where fewer than ten samples per dimension are held out they cannot tell: then the moment slices are kept in any
    case, because a signal that is too weak to be seen here may be a strong one on the samples to be tested.
    """
    dim = data[0].shape[1]
    if init == "random":
        return Slices(*jax.random.normal(key, (2, num_slices or dim, dim), data[0].dtype))
    few = min(dim, num_slices or CLOSED_FORM_SLICES)
    signal = _signal(_pool(init, *fit, few), judge, kernel)
    unsure = num_slices is None and init in ("best", "moments") and judge[0].shape[0] < 10 * dim
    kept = _strongest(np.asarray(signal), num_slices, always=few if unsure else 0)
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a)[kept]), _pool(init, *data, few))


@functools.partial(jax.jit, static_argnames=("init", "num"))
def _pool(init: str, x: Array, s: Array, num: int) -> Slices:
    families = []
    if init in ("best", "moments"):
        families.append(_moment_slices(x, s, num))
    if init in ("best", "active"):
        families.append(active_slices(x, s, num, estimator="stein"))
    if init in ("best", "basis"):
        families.append(Slices(*(jnp.eye(x.shape[1], dtype=x.dtype) for _ in "rg")))
    return Slices(*(jnp.concatenate([getattr(family, name) for family in families]) for name in "rg"))


def _strongest(signal: np.ndarray, num: int | None, always: int) -> np.ndarray:
    """Indices of the first `always` slices and of the strongest others.

    `num` in all, or as many as raise the signal-to-noise ratio of the sum, by powers of two: few sizes, few
    compilations.
    """
    order = np.concatenate([np.arange(always), always + np.argsort(-signal[always:])])
    if num is None:
        ratio = np.cumsum(signal[order]) / np.sqrt(np.arange(1, len(order) + 1))
        rest = len(order) - always
        sizes = {always, *(always + 2**k for k in range(rest.bit_length())), len(order)} - {0}
        num = max(sizes, key=lambda size: ratio[size - 1])
    return order[:num]


@jax.jit
def _signal(slices: Slices, samples: Samples, kernel: Kernel) -> Float[Array, " m"]:
    """U of every slice in units of its noise."""
    return sksd(*samples, slices, kernel=kernel, per_slice=True) * slice_weights(slices, *samples, kernel)


@jax.jit
def slice_weights(slices: Slices, x: Float[Array, "n d"], s: Float[Array, "n d"], kernel: Kernel) -> Float[Array, " m"]:
    """One over the mean of h(x, x): the noise of U is proportional to it, so weighted slices count alike."""
    return inverse_noise(problem(x, s, slices.r, slices.g, kernel), kernel)


def inverse_noise(problem: Problem, kernel: Kernel) -> Float[Array, " m"]:
    """`slice_weights` of inputs that have been prepared."""
    return 1 / diagonal_mean(kernel, problem.projected)


def _slope_matrix(x: Array, s: Array) -> Float[Array, "d d"]:
    """E[s (x - mean)^T] + I: zero for the model itself (Stein's identity with linear test functions)."""
    return s.T @ (x - x.mean(0)) / x.shape[0] + jnp.eye(x.shape[1], dtype=x.dtype)


@functools.partial(jax.jit, static_argnames="num")
def _moment_slices(x: Array, s: Array, num: int) -> Slices:
    """The mean score, then the pairs (r, g) of largest slope in units of its noise.

    The noise of r^T (E[s x^T] + I) g grows with the spread of s along r and of x along g, which makes these the
    leading canonical directions of the slope matrix.
    """
    score_root, input_root = (_inverse_root(z) for z in (s, x - x.mean(0)))
    left, _, right = jnp.linalg.svd(score_root @ _slope_matrix(x, s) @ input_root)
    shift = score_root @ (score_root @ s.mean(0)) + jnp.finfo(x.dtype).tiny
    r = jnp.concatenate([shift[None], left.T[: num - 1] @ score_root])
    g = jnp.concatenate([shift[None], right[: num - 1] @ input_root])
    return Slices(r, g)


def _inverse_root(z: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """Inverse symmetric root of the second moment, kept away from singular where samples are few."""
    count, dim = z.shape
    values, vectors = jnp.linalg.eigh(z.T @ z / count)
    ridge = jnp.mean(values) * min(0.5, dim / count)
    return (vectors / jnp.sqrt(jnp.maximum(values, 0) + ridge)) @ vectors.T


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

    def step(state: _State) -> _State:
        x, s = fit
        if batch_size is not None and batch_size < x.shape[0]:
            rows = jax.random.choice(jax.random.fold_in(key, state.step), x.shape[0], (batch_size,), replace=False)
            x, s = x[rows], s[rows]

        def signal(z: Slices) -> Array:
            return jnp.sum(sksd(x, s, z, kernel=kernel, statistic="v", per_slice=True) * slice_weights(z, x, s, kernel))

        total, gradient = jax.value_and_grad(signal)(state.slices)
        r = _geodesic(state.slices.r, gradient.r, state.angle) if move_r else state.slices.r
        proposal = Slices(r, _geodesic(state.slices.g, gradient.g, state.angle))
        value = _signal(proposal, judge, kernel)
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
    first = _State(jnp.asarray(0), start, angle, _signal(start, judge, kernel), {"fit": empty, "held_out": empty})
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
