"""BlackJAX states. Their position is already where the sampler works; nothing is transformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws
from slicestein.rows.variables import flat_names
from slicestein.score import score_from


def from_blackjax(states: Any, logdensity_fn: Callable[[Any], Any], *, chain_axis: int | None = None) -> Draws:
    """Draws and scores from the states of a run.

    Parameters
    ----------
    states
        States of one chain, or of several, stacked as `jax.lax.scan` and `jax.vmap` do. Positions may be any pytree.
    logdensity_fn
        The function that was sampled: one position to its log-density.
    chain_axis
        For several chains: 0 if states are (chains, draws), 1 if they are (draws, chains).
    """
    if not hasattr(states, "position") or not hasattr(states, "logdensity"):
        raise InputError(
            f"states must have position and logdensity, got {type(states).__name__}: pass the states alone"
        )
    lead = jnp.shape(states.logdensity)
    if len(lead) not in (1, 2):
        raise InputError(f"states must be stacked as (draws,) or with chains, got {lead}: keep the state of every step")
    if len(lead) == 2 and chain_axis not in (0, 1):
        raise InputError(
            f"states are stacked as {lead}: say which axis counts the chains, chain_axis=0 or chain_axis=1"
        )

    def chains_first(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        return leaf[None] if len(lead) == 1 else np.moveaxis(leaf, chain_axis or 0, 0)

    position = jax.tree.map(chains_first, states.position)
    leaves = jax.tree_util.tree_leaves_with_path(position)
    names = [
        name
        for path, leaf in leaves
        for name in flat_names(jax.tree_util.keystr(path, simple=True, separator=".") or "x", leaf.shape[2:])
    ]
    x = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for _, leaf in leaves], axis=2)
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), position))
    score_fn = score_from(lambda vector: logdensity_fn(unravel(vector)))
    return Draws(x, np.asarray(jax.jit(score_fn)(x.reshape(-1, x.shape[2]))).reshape(x.shape), tuple(names))
