r"""Training an unnormalised model: data from q, a score $s_\theta$, and a discrepancy to be made small.

$$ \min_\theta \max_\phi \; L(\phi; x, s_\theta(x)), \qquad x \sim q, $$

where $\phi$ is the critic: the slices of maxSKSD, the network of LSD, nothing for KSD. A `Trainer` is a pair of
functions as in `samplers`; one step climbs in $\phi$ and then descends in $\theta$, on the same batch. The
normalising constant of the model never enters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein import _checks
from slicestein._checks import ArrayLike, InputError
from slicestein._loop import in_blocks, kept, scan

if TYPE_CHECKING:
    import optax

ScoreFn = Callable[[Any, Float[Array, "n d"]], Float[Array, "n d"]]
# Of the critic, samples, scores and a key.
Objective = Callable[[Any, Float[Array, "n d"], Float[Array, "n d"], Array], Float[Array, ""]]


class State(NamedTuple):
    """Parameters of the model, the critic, and what their optimisers remember."""

    params: Any
    optimizer: Any
    critic: Any
    critic_optimizer: Any
    step: Int[Array, ""]


class Info(NamedTuple):
    """``loss``: the discrepancy of the batch that the step descended, after the critic had climbed."""

    loss: Float[Array, ""]


class Trainer(NamedTuple):
    """``init(params, x) -> state``, where only shape and type of x count; ``step(state, x, key) -> (state, info)``."""

    init: Callable[[Any, Float[ArrayLike, "n d"]], State]
    step: Callable[[State, Float[Array, "n d"], Array], tuple[State, Info]]


class Fit(NamedTuple):
    """Final state, and the info of every step with a leading axis."""

    state: State
    history: Info

    @property
    def params(self) -> Any:
        """The trained parameters."""
        return self.state.params


def trainer(
    score_fn: ScoreFn,
    optimizer: optax.GradientTransformation,
    loss: Objective,
    *,
    init_critic: Callable[[Float[Array, "n d"]], Any] = lambda x: (),
    critic_optimizer: optax.GradientTransformation | None = None,
    critic_steps: int = 1,
    gain: Objective | None = None,
    retract: Callable[[Any], Any] = lambda critic: critic,
) -> Trainer:
    """Build a trainer from its objective.

    Parameters
    ----------
    loss
        What the model makes small.
    gain
        What the critic makes large; by default the loss.
    init_critic
        Function of a batch, of which only shape and type count, to the first critic.
    retract
        Takes a critic that has moved back to where critics live.
    """
    _checks.is_function("score_fn", score_fn)
    _checks.is_optimizer("optimizer", optimizer)
    if critic_optimizer is not None:
        _checks.is_optimizer("critic_optimizer", critic_optimizer)

    def init(params: Any, x: Float[ArrayLike, "n d"]) -> State:
        params, critic = _checks.numbers(params, "params"), init_critic(jnp.asarray(x))
        memory = () if critic_optimizer is None else critic_optimizer.init(eqx.filter(critic, eqx.is_array))
        first = optimizer.init(eqx.filter(params, eqx.is_array))
        return State(params, first, critic, memory, jnp.zeros((), jnp.int32))

    def climb(state: State, x: Array, s: Array, key: Array) -> State:
        if critic_optimizer is None:
            return state
        arrays, rest = eqx.partition(state.critic, eqx.is_array)
        up = _ascent(
            lambda arrays, i: (gain or loss)(eqx.combine(arrays, rest), x, s, jax.random.fold_in(key, i)),
            critic_optimizer,
            retract,
        )
        arrays, memory = lax.fori_loop(0, critic_steps, up, (arrays, state.critic_optimizer))
        return state._replace(critic=eqx.combine(arrays, rest), critic_optimizer=memory)

    @eqx.filter_jit
    def step(state: State, x: Float[Array, "n d"], key: Array) -> tuple[State, Info]:
        climb_key, loss_key = jax.random.split(key)
        x = _checks.floating(x)
        # The score is computed once.
        s, pull_back = eqx.filter_vjp(lambda params: jnp.asarray(score_fn(params, x), x.dtype), state.params)
        if s.shape != x.shape:
            raise InputError(f"score_fn(params, x) must return shape {x.shape}, the shape of x, got {s.shape}")
        state = climb(state, x, s, climb_key)
        value, slope = jax.value_and_grad(loss, argnums=2)(state.critic, x, s, loss_key)
        (gradient,) = pull_back(slope)
        updates, memory = optimizer.update(gradient, state.optimizer, eqx.filter(state.params, eqx.is_array))
        params = eqx.apply_updates(state.params, updates)
        return state._replace(params=params, optimizer=memory, step=state.step + 1), Info(value)

    return Trainer(init, step)


def _ascent(
    gain: Callable[[Any, Int[Array, ""]], Array],
    optimizer: optax.GradientTransformation,
    retract: Callable[[Any], Any],
) -> Callable[[Int[Array, ""], tuple[Any, Any]], tuple[Any, Any]]:
    """One step up of a critic and the memory of its optimiser."""

    def up(i: Int[Array, ""], carry: tuple[Any, Any]) -> tuple[Any, Any]:
        critic, memory = carry
        slope = jax.grad(gain)(critic, i)
        updates, memory = optimizer.update(jax.tree.map(jnp.negative, slope), memory, critic)
        return retract(jax.tree.map(jnp.add, critic, updates)), memory

    return up


def fit(
    method: Trainer,
    params: Any,
    data: Any,
    num_steps: int,
    *,
    key: Any,
    batch_size: int = 100,
    progress: bool = True,
    callback: Callable[[State, Info], bool | None] | None = None,
    every: int = 100,
) -> Fit:
    """Train a model on random batches of the data.

    Parameters
    ----------
    method
        `maxsksd`, `ksd`, `lsd`, or any other pair of ``init`` and ``step``.
    params
        First parameters of the model, any pytree: numbers are trained, functions (of a network of Equinox) stay.
    data
        Samples, (N, D).
    num_steps
        Number of steps, or the most if the callback ends the run.
    key
        Int seed or ``jax.random.key``.
    batch_size
        Samples per step, drawn with replacement.
    progress
        Show a progress bar when attached to a terminal (needs rich).
    callback
        Called with the state and the last info after every block of steps; returning True ends the run.
    every
        Length of a block.

    Examples
    --------
    The precision of a Gaussian, from its score alone:

    >>> import jax, optax
    >>> import slicestein as ss
    >>> x = 0.5 * jax.random.normal(jax.random.key(0), (2000, 3))
    >>> method = ss.learning.maxsksd(lambda precision, x: -precision * x, optax.adam(0.05))
    >>> result = ss.learning.fit(method, 1.0, x, 500, key=1, progress=False)
    >>> bool(abs(result.params - 4) < 0.4)
    True
    """
    x = _checks.as_matrix("data", data)
    _checks.finite(data=x)
    if batch_size < 2:
        raise InputError(f"batch_size must be at least 2, got {batch_size}: a discrepancy compares samples")

    def ends(state: State, info: Info, steps: range) -> bool:
        if not np.isfinite(info.loss).all():
            _checks.columns_vary(x, "data", "the median rule finds no bandwidth there; drop the column")
            raise FloatingPointError(
                f"the loss is not finite within steps {steps.start} to {steps.stop}: use a smaller learning rate, "
                "or check that the score is finite at the data"
            )
        return bool(callback is not None and callback(state, jax.tree.map(lambda a: a[-1], info)))

    block = functools.partial(_block(method.step, batch_size), x=x, key=_checks.as_key(key))
    state = method.init(params, x)
    return Fit(*in_blocks(block, state, num_steps, every=every, name="training", progress=progress, ends=ends))


@kept
def _block(step: Callable[..., tuple[State, Info]], batch_size: int) -> Any:
    @eqx.filter_jit
    def block(state: State, steps: Int[Array, " k"], x: Float[Array, "n d"], key: Array) -> tuple[State, Info]:
        def one(state: State, i: Int[Array, ""]) -> tuple[State, Info]:
            rows_key, step_key = jax.random.split(jax.random.fold_in(key, i))
            return step(state, x[jax.random.randint(rows_key, (batch_size,), 0, x.shape[0])], step_key)

        return scan(one, state, steps)

    return block


def score_from(log_density: Callable[[Any, Float[Array, " d"]], Float[Array, ""]]) -> ScoreFn:
    """Turn a log-density of parameters and one sample into a score function of parameters and a batch.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from slicestein import learning
    >>> score_fn = learning.score_from(lambda mean, x: -0.5 * jnp.sum((x - mean) ** 2))
    >>> score_fn(jnp.ones(2), jnp.zeros((1, 2))).tolist()
    [[1.0, 1.0]]
    """
    return jax.vmap(jax.grad(log_density, argnums=1), in_axes=(None, 0))
