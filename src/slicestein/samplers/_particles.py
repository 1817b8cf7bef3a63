"""What all particle methods share: their state, what a step reports, and the loop.

A method is a pair of functions, as in BlackJAX and optax:

>>> import jax.numpy as jnp, optax
>>> import slicestein as ss
>>> method = ss.svgd(lambda x: -x, optax.adam(0.1))
>>> state = method.init(jnp.array([[3.0], [4.0]]))
>>> state, info = method.step(state)

`run` is the loop around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._loop import in_blocks, kept, scan

if TYPE_CHECKING:
    import optax

Schedule = float | Callable[[Int[Array, ""]], Any]


class State(NamedTuple):
    """Particles, a pytree with leading axis N, and what the method remembers."""

    particles: Any
    optimizer: Any
    step: Int[Array, ""]
    slices: Any  # or projectors; None for methods in the full space
    key: PRNGKeyArray


class Info(NamedTuple):
    """Diagnostics of one step, taken before the particles moved.

    ``discrepancy``: the V-statistic whose gradient flow this is; KL falls at this rate.
    ``repulsion``: sup-norm of the repulsive force, averaged over particles (PARF).
    ``displacement``: mean distance that particles moved.
    ``spread``: root mean square distance of the particles from their mean, per dimension.
    """

    discrepancy: Float[Array, ""]
    repulsion: Float[Array, ""]
    displacement: Float[Array, ""]
    spread: Float[Array, ""]


class Force(NamedTuple):
    """The direction of steepest descent at every particle, and its repulsive part."""

    total: Float[Array, "n d"]
    repulsive: Float[Array, "n d"]
    discrepancy: Float[Array, ""]


class Algorithm(NamedTuple):
    """``init(particles) -> state`` and ``step(state, *arguments) -> (state, info)``; arguments go to the score."""

    init: Callable[[Any], State]
    step: Callable[..., tuple[State, Info]]


class Run(NamedTuple):
    """Final state, and the info of every step with a leading axis."""

    state: State
    history: Info

    @property
    def particles(self) -> Any:
        """The final particles."""
        return self.state.particles


def algorithm(
    score_fn: Callable[..., Any],
    optimizer: optax.GradientTransformation,
    force: Callable[..., tuple[Force, Any]],
    init_slices: Callable[[Float[Array, "n d"]], Any],
    *,
    repulsion: Schedule,
    key: Any,
) -> Algorithm:
    """Build a method from its force.

    Parameters
    ----------
    force
        Function of particles (N, D), scores, slices, step and key to the force and the next slices.
    init_slices
        Function of the first particles to the first slices; raises where the method cannot start from them.
    """
    _checks.is_function("score_fn", score_fn)
    _checks.is_optimizer("optimizer", optimizer)
    first_key = _checks.as_key(key)

    def init(particles: Any) -> State:
        particles = _checks.numbers(particles, "particles")
        x = _flatten(particles)
        if x.shape[0] < 2:
            raise InputError(f"particles must have a leading axis of at least two, got {x.shape[0]}")
        _checks.finite(particles=x)
        return State(particles, optimizer.init(x), jnp.zeros((), jnp.int32), init_slices(x), first_key)

    @eqx.filter_jit
    def step(state: State, *arguments: Any) -> tuple[State, Info]:
        x = _flatten(state.particles)
        s = _flatten(_score(score_fn, state.particles, arguments)).astype(x.dtype)
        key, force_key = jax.random.split(state.key)
        found, slices = force(x, s, state.slices, state.step, force_key)
        strength = repulsion(state.step) if callable(repulsion) else repulsion
        push = found.total + (strength - 1) * found.repulsive
        updates, optimizer_state = optimizer.update(-push, state.optimizer, x)
        info = Info(
            found.discrepancy,
            jnp.abs(found.repulsive).max(1).mean(),
            jnp.linalg.norm(updates, axis=1).mean(),
            jnp.sqrt(x.var(0).mean()),
        )
        moved = _unflatten(x + updates, state.particles)
        return State(moved, optimizer_state, state.step + 1, slices, key), info

    return Algorithm(init, step)


def run(
    method: Algorithm,
    particles: Any,
    num_steps: int,
    *,
    arguments: Callable[[Int[Array, ""]], tuple[Any, ...]] | None = None,
    progress: bool = True,
    callback: Callable[[State, Info], bool | None] | None = None,
    every: int = 100,
    tolerance: float = 0.0,
) -> Run:
    """Move particles for a number of steps.

    Parameters
    ----------
    method
        `svgd`, `sliced_svgd`, or any other pair of ``init`` and ``step``.
    particles
        Array (N, D), or a pytree of arrays with leading axis N; networks of Equinox, as ``eqx.filter_vmap`` makes them.
    num_steps
        Number of steps, or the most if the run stops early.
    arguments
        Function of the step number to further arguments of the score, such as a minibatch; traced by JAX, once for
        all runs with this method.
    progress
        Show a progress bar when attached to a terminal (needs rich).
    callback
        Called with the state and the last info after every block of steps; returning True ends the run.
    every
        Length of a block.
    tolerance
        End the run when the discrepancy, averaged over a block, is at most this.

    Examples
    --------
    >>> import jax, optax
    >>> import slicestein as ss
    >>> start = 2 + jax.random.normal(jax.random.key(0), (50, 10))
    >>> result = ss.run(ss.sliced_svgd(lambda x: -x, optax.adam(0.05)), start, 500, progress=False)
    >>> bool(abs(result.particles.mean()) < 0.1)
    True
    """

    def ends(state: State, info: Info, steps: range) -> bool:
        if not np.isfinite(info.displacement).all():
            raise FloatingPointError(
                f"particles diverged within steps {steps.start} to {steps.stop}: use a smaller learning rate, "
                "or check that the score is finite where they start"
            )
        stop = callback is not None and callback(state, jax.tree.map(lambda a: a[-1], info))
        return bool(stop or info.discrepancy.mean() <= tolerance)

    state, block = method.init(particles), _block(method.step, arguments)
    return Run(*in_blocks(block, state, num_steps, every=every, name="particles", progress=progress, ends=ends))


@kept
def _block(step: Callable[..., tuple[State, Info]], arguments: Callable[..., tuple[Any, ...]] | None) -> Any:
    def one(state: State, i: Int[Array, ""]) -> tuple[State, Info]:
        return step(state, *(() if arguments is None else arguments(i)))

    return eqx.filter_jit(lambda state, steps: scan(one, state, steps))


def _score(score_fn: Callable[..., Any], particles: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        scores = score_fn(particles, *arguments)
    except jax.errors.TracerArrayConversionError:
        raise InputError(
            "score_fn calls NumPy, which JAX cannot trace: write it with jax.numpy, or wrap it in jax.pure_callback"
        ) from None
    scores = eqx.filter(scores, eqx.is_array_like)
    expected, found = (jax.tree.map(jnp.shape, tree) for tree in (eqx.filter(particles, eqx.is_array), scores))
    if found != expected:
        raise InputError(f"score_fn(particles) must return arrays shaped as the particles, {expected}, got {found}")
    return scores


def _flatten(tree: Any) -> Float[Array, "n d"]:
    if isinstance(tree, jax.Array) and tree.ndim == 2:
        return tree
    return jax.vmap(lambda one: ravel_pytree(one)[0])(eqx.filter(tree, eqx.is_array_like))


def _unflatten(x: Float[Array, "n d"], like: Any) -> Any:
    if isinstance(like, jax.Array) and like.ndim == 2:
        return x
    arrays, rest = eqx.partition(like, eqx.is_array)
    _, unravel = ravel_pytree(jax.tree.map(lambda a: a[0], arrays))
    return eqx.combine(jax.vmap(unravel)(x), rest)
