r"""Stochastic-gradient Hamiltonian Monte Carlo with friction (Chen, Fox and Guestrin 2014).

Positions x and velocities v, step $\epsilon$, friction C, unit mass. Each step moves the position first,
then the velocity, at the new position:

$$
\begin{aligned}
x &\leftarrow x + \epsilon v, \\
v &\leftarrow v + \epsilon \nabla \log p(x) - \epsilon C v + \sqrt{2 \epsilon C - \epsilon^2 V} \, \eta,
\quad \eta \sim N(0, I),
\end{aligned}
$$

where V is the variance of the noise that a minibatch leaves in $\nabla \log p$. There is no
acceptance step, so a bias stays that grows with the step (and friction) and is what the experiment of Appendix
"Sampler Convergence" selects the step size by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError


class State(NamedTuple):
    """Positions and velocities of N chains."""

    position: Float[Array, "n d"]
    velocity: Float[Array, "n d"]


class SGHMC(eqx.Module):
    r"""SGHMC for any number of parallel chains.

    Parameters
    ----------
    score_fn
        $\nabla \log p$, or an unbiased estimate of it, of a batch: (N, D) -> (N, D).
    step_size
        $\epsilon > 0$.
    friction
        C > 0. The paper does not state its value; 1 is usual.
    gradient_variance
        V >= 0, at most $2 C / \epsilon$; 0 for exact scores.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from slicestein.samplers import SGHMC
    >>> sampler = SGHMC(lambda x: -x, step_size=0.1)
    >>> draws = sampler.sample(0, jnp.zeros((100, 2)), 20, burn_in=200, thin=5)
    >>> draws.shape
    (20, 100, 2)
    """

    score_fn: Callable[[Float[Array, "n d"]], Float[Array, "n d"]]
    # Arrays, so that a sweep over settings compiles once.
    step_size: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    friction: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=1.0)
    gradient_variance: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.0)

    def __check_init__(self) -> None:
        if not _checks.is_concrete(self.step_size, self.friction, self.gradient_variance):
            return
        for name, value in (("step_size", self.step_size), ("friction", self.friction)):
            if not value > 0:
                raise InputError(f"{name} must be positive, got {value}")
        bound = 2 * self.friction / self.step_size
        if not 0 <= self.gradient_variance <= bound:
            raise InputError(
                f"gradient_variance must lie between 0 and 2 friction / step_size = {bound:.6g}, got "
                f"{self.gradient_variance}: take a smaller step_size or more friction"
            )

    def init(self, key: Any, position: Any) -> State:
        """Chains at the given positions, (N, D), with standard normal velocities."""
        x = _checks.as_matrix("position", position)
        _checks.finite(position=x)
        return State(x, jax.random.normal(_checks.as_key(key), x.shape, x.dtype))

    def advance(self, state: State, noise: Float[Array, "n d"]) -> State:
        """One step with given standard normal noise: a deterministic map."""
        x, v = state
        step, friction, variance = (
            jnp.asarray(a, x.dtype) for a in (self.step_size, self.friction, self.gradient_variance)
        )
        x = x + step * v
        kick = jnp.sqrt(2 * step * friction - step**2 * variance) * noise
        return State(x, v + step * (self.score_fn(x) - friction * v) + kick)

    def step(self, key: Any, state: State) -> State:
        """One step of all chains: one call of ``score_fn``."""
        return _step(self, _checks.as_key(key), state)

    def sample(
        self, key: Any, position: Any, num_draws: int, *, burn_in: int = 0, thin: int = 1
    ) -> Float[Array, "k n d"]:
        """Run N chains and keep every ``thin``-th state after ``burn_in`` steps.

        Parameters
        ----------
        key
            Int seed or ``jax.random.key``.
        position
            First positions, (N, D), one row per chain.
        num_draws
            States to keep per chain, K.
        burn_in
            Steps before the first kept state's ``thin`` steps begin.
        thin
            Steps per kept state.

        Returns
        -------
        Array
            Positions, (K, N, D). Cost: burn_in + K thin calls of ``score_fn``; memory O(K N D).
        """
        for name, value, least in (("num_draws", num_draws, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
            if value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")
        init_key, chain_key = jax.random.split(_checks.as_key(key))
        return _run(self, chain_key, self.init(init_key, position), num_draws, jnp.asarray([burn_in, thin]))


@eqx.filter_jit
def _step(sampler: SGHMC, key: Array, state: State) -> State:
    x = state.position
    return sampler.advance(state, jax.random.normal(key, x.shape, x.dtype))


@eqx.filter_jit
def _run(sampler: SGHMC, key: Array, state: State, num_draws: int, lengths: Array) -> Float[Array, "k n d"]:
    burn_in, thin = lengths

    def move(state: State, key: Array, num_steps: Array) -> State:
        return lax.fori_loop(0, num_steps, lambda i, s: _step(sampler, jax.random.fold_in(key, i), s), state)

    def draw(state: State, key: Array) -> tuple[State, Array]:
        state = move(state, key, thin)
        return state, state.position

    keys = jax.random.split(key, num_draws + 1)
    _, draws = lax.scan(draw, move(state, keys[0], burn_in), keys[1:])
    return draws
