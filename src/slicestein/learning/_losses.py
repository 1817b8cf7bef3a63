r"""Discrepancies as training objectives: maxSKSD, KSD, and the learned Stein discrepancy.

Each function takes a score $s_\theta(x)$ as ``score_fn(params, x)`` for a batch (for a log-density see
`score_from`) and an optax optimiser, and returns a `Trainer`; `fit` is the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._stein import bandwidths, full_space, sliced
from slicestein._stein.sliced import Statistic
from slicestein.kernels import RBF, Kernel
from slicestein.learning._training import ScoreFn, Trainer, trainer
from slicestein.slices import unit_rows

if TYPE_CHECKING:
    import optax


def maxsksd(
    score_fn: ScoreFn,
    optimizer: optax.GradientTransformation,
    *,
    optimize: Literal["g", "rg"] = "g",
    basis: ArrayLike | None = None,
    kernel: Kernel = RBF(scale=1.5),
    statistic: Statistic = "v",
    slice_optimizer: optax.GradientTransformation | None = None,
    slice_steps: int = 1,
) -> Trainer:
    r"""Train by maxSKSD (label "eq: maxSKSD"); the slices climb inside the training step.

    $$ \min_\theta \max_{g_1, \dots, g_D} \sum_d D^2_{r_d, g_d}(q, p_\theta) $$

    Parameters
    ----------
    score_fn
        Function of parameters and samples (N, D) to scores (N, D).
    optimizer
        Any optax optimiser, for the parameters.
    optimize
        ``"g"``: r stays at the basis; ``"rg"``: both directions climb.
    basis
        The directions r, rows of an orthogonal matrix (D, D), where g starts too; by default the coordinate axes. The
        critic has its directions in coordinates along the basis. On strongly correlated data take the principal axes,
        ``np.linalg.eigh(np.cov(x.T))[1].T``: along coordinate axes all scores are dominated by the few directions of
        least variance, and all g turn there.
    kernel
        Kernel on the slices; the paper's bandwidth is 1.5 times the median.
    statistic
        ``"v"``, which is never negative, or ``"u"``.
    slice_optimizer
        Any optax optimiser, for the directions; by default Adam with step $0.003 / \sqrt{1 + k / 1000}$ after k of its
        steps: late in training a constant step follows the noise of the batch.
    slice_steps
        Steps of ascent before each step of the model; 0 keeps the basis.

    Returns
    -------
    Trainer. Cost of a step: O(N D^2) and the score; memory O(N D + D^2).
    """
    _checks.one_of("optimize", optimize, ("g", "rg"))
    _checks.one_of("statistic", statistic, ("u", "v"))
    _checks.not_negative(slice_steps=slice_steps)

    def init_critic(x: Array) -> dict[str, Array]:
        _checks.kernel(kernel, x.shape[1])
        if basis is not None:
            _checks.orthogonal("basis", basis, x.shape[1])
        return {name: jnp.eye(x.shape[1], dtype=_checks.float_type(x.dtype)) for name in optimize}

    def loss(critic: dict[str, Array], x: Array, s: Array, _: Array) -> Float[Array, ""]:
        if basis is not None:  # directions are kept, and climb, in coordinates along the basis
            turn = jnp.asarray(basis, x.dtype).T
            x, s = x @ turn, s @ turn
        slices = jax.tree.map(unit_rows, critic)  # no r: the coordinate axes
        problem = sliced.problem(x, s, slices.get("r"), slices["g"], kernel)
        return sliced.statistics(problem, kernel, statistic=statistic).sum()

    return trainer(
        score_fn,
        optimizer,
        loss,
        init_critic=init_critic,
        critic_optimizer=slice_optimizer or _adam(lambda step: 3e-3 / jnp.sqrt(1 + step / 1000)),
        critic_steps=slice_steps,
        retract=lambda critic: jax.tree.map(unit_rows, critic),
    )


def ksd(
    score_fn: ScoreFn,
    optimizer: optax.GradientTransformation,
    *,
    kernel: Kernel = RBF(),
    statistic: Statistic = "u",
) -> Trainer:
    """Train by the kernel Stein discrepancy (label "eq: KSD"), which has no critic. Cost of a step: O(N^2 D)."""
    _checks.one_of("statistic", statistic, ("u", "v"))
    _checks.kernel(kernel, 1)

    def loss(_: Any, x: Array, s: Array, __: Array) -> Float[Array, ""]:
        data = full_space.scale(x, s, bandwidths.in_full_space(kernel, x))
        return full_space.statistic(data, kernel, statistic=statistic)

    return trainer(score_fn, optimizer, loss)


def lsd(
    score_fn: ScoreFn,
    optimizer: optax.GradientTransformation,
    critic: Callable[[Any, Float[Array, "n d"]], Float[Array, "n d"]],
    critic_params: Any,
    *,
    critic_optimizer: optax.GradientTransformation | None = None,
    critic_steps: int = 1,
    penalty: float = 1.0,
    divergence: Callable[[Any, Float[Array, "n d"]], Float[Array, " n"]] | None = None,
) -> Trainer:
    r"""Train by the learned Stein discrepancy (Grathwohl et al. 2020): the test function is a network f.

    $$ \min_\theta \max_\phi \; E_q [ s_\theta \cdot f_\phi + \nabla \cdot f_\phi ] - \lambda E_q \|f_\phi\|^2, $$

    where the penalty is seen by the critic alone; without it the maximum is infinite.

    Parameters
    ----------
    score_fn, optimizer
        As in `maxsksd`.
    critic
        Function of its parameters and samples (N, D) to vectors (N, D).
    critic_params
        First parameters of the critic, any pytree, such as a network of Equinox.
    critic_optimizer
        Any optax optimiser, for the critic; by default Adam with step 0.001.
    critic_steps
        Steps of the critic before each step of the model.
    penalty
        $\lambda > 0$.
    divergence
        Function of critic parameters and samples to the divergence of the critic, (N,), where it is known in closed
        form; by default one Rademacher probe per sample (Hutchinson).
    """
    _checks.positive(penalty=penalty)
    _checks.not_negative(critic_steps=critic_steps)
    _checks.is_function("critic", critic)

    def stein(params: Any, x: Array, s: Array, key: Array) -> tuple[Float[Array, ""], Float[Array, "n d"]]:
        if divergence is not None:
            f, div = critic(params, x), divergence(params, x)
        else:
            probe = jax.random.rademacher(key, x.shape, x.dtype)
            f, along = jax.jvp(lambda x: critic(params, x), (x,), (probe,))
            div = jnp.sum(probe * along, axis=1)
        if f.shape != x.shape:
            raise InputError(f"critic(params, x) must return shape {x.shape}, the shape of x, got {f.shape}")
        return jnp.mean(jnp.sum(s * f, axis=1) + div), f

    def gain(params: Any, x: Array, s: Array, key: Array) -> Float[Array, ""]:
        value, f = stein(params, x, s, key)
        return value - penalty * jnp.mean(jnp.sum(f**2, axis=1))

    return trainer(
        score_fn,
        optimizer,
        lambda params, x, s, key: stein(params, x, s, key)[0],
        gain=gain,
        init_critic=lambda x: _checks.numbers(critic_params, "critic_params"),
        critic_optimizer=critic_optimizer or _adam(1e-3),
        critic_steps=critic_steps,
    )


def _adam(learning_rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    import optax  # when it is needed, not when the package is imported

    return optax.adam(learning_rate, b1=0.5, b2=0.9)
