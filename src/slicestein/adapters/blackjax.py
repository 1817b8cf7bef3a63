"""BlackJAX states. Their position is already where the sampler works; nothing is transformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws, scores_of
from slicestein.rows.variables import flatten_variables
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
    lead = np.shape(states.logdensity)
    if len(lead) not in (1, 2):
        raise InputError(f"states must be stacked as (draws,) or with chains, got {lead}: keep the state of every step")
    if len(lead) == 2 and chain_axis not in (0, 1):
        raise InputError(
            f"states are stacked as {lead}: say which axis counts the chains, chain_axis=0 or chain_axis=1"
        )
    if len(lead) == 1 and chain_axis is not None:
        raise InputError(f"states are stacked as {lead}, one chain: leave chain_axis out")
    leaves = jax.tree_util.tree_leaves_with_path(states.position)
    named = [(jax.tree_util.keystr(path, simple=True, separator=".") or "x", leaf) for path, leaf in leaves]
    x, names = flatten_variables((name, _chains_first(name, leaf, lead, chain_axis)) for name, leaf in named)
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf[(0,) * len(lead)]), states.position))
    score_fn = score_from(lambda vector: logdensity_fn(unravel(vector)))
    return Draws(x, scores_of(jax.jit(score_fn), x), names)


def _chains_first(name: str, leaf: Any, lead: tuple[int, ...], chain_axis: int | None) -> np.ndarray:
    """A part of the positions as (chains, draws, ...)."""
    leaf = np.asarray(leaf)
    if leaf.shape[: len(lead)] != lead:
        raise InputError(f"position {name} has shape {leaf.shape}, but the states are stacked as {lead}")
    if leaf.dtype.kind != "f":
        raise InputError(f"position {name} holds {leaf.dtype}: it has no score")
    return leaf[None] if chain_axis is None else np.moveaxis(leaf, chain_axis, 0)
