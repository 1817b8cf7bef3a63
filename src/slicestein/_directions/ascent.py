r"""Ascent of the discrepancy over slices (labels "eq: maxSKSD", "eq: maxSKSD rg").

Directions are points of the sphere, the sum over slices separates, and every slice moves on its own: along the
geodesic of its gradient on one part of the samples, by an angle that is halved whenever the value on the *other* part
did not rise. Slices that start well are thus left alone, and noise is not fitted. The value is the discrepancy in
units of its noise, the mean of h(x, x): else ascent would look for directions where scores are large.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein._stein import sliced
from slicestein._stein.operator import diagonal_mean
from slicestein._stein.sliced import Statistic
from slicestein.kernels import Kernel
from slicestein.slices import Slices

SMALLEST_ANGLE = 1e-3  # a slice whose steps have become this small has arrived

Samples = tuple[Float[Array, "_ d"], Float[Array, "_ d"]]


class _State(NamedTuple):
    step: Int[Array, ""]
    slices: Slices
    angle: Float[Array, " m"]
    value: Float[Array, " m"]  # on held-out samples
    history: dict[str, Float[Array, " k"]]


def _signal(slices: Slices, samples: Samples, kernel: Kernel, statistic: Statistic) -> Float[Array, " m"]:
    """U or V of every slice in units of its noise."""
    problem = sliced.problem(*samples, slices.r, slices.g, kernel)
    return sliced.statistics(problem, kernel, statistic=statistic) / diagonal_mean(kernel, problem.projected)


@functools.partial(jax.jit, static_argnames=("steps", "batch_size", "move_r", "gated"))
def ascend(
    start: Slices,
    fit: Samples,
    judge: Samples,
    key: Array,
    kernel: Kernel,
    first_angle: float | Float[Array, ""],
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
            return jnp.sum(_signal(z, (x, s), kernel, "v"))

        total, gradient = jax.value_and_grad(signal)(state.slices)
        r = _geodesic(state.slices.r, gradient.r, state.angle) if move_r else state.slices.r
        proposal = Slices(r, _geodesic(state.slices.g, gradient.g, state.angle))
        value = _signal(proposal, judge, kernel, "u")
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
    first = _State(jnp.asarray(0), start, angle, _signal(start, judge, kernel, "u"), {"fit": empty, "held_out": empty})
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
