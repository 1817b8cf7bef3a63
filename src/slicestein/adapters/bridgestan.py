"""BridgeStan: a Stan model, and draws of any sampler in its unconstrained space."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicestein._checks import InputError, from_torch
from slicestein.adapters.draws import Draws, stan_name


def from_bridgestan(model: Any, draws: Any) -> Draws:
    """Draws, and the gradients of a Stan model at them.

    Parameters
    ----------
    model
        The `bridgestan.StanModel`.
    draws
        Unconstrained draws (draws, D) or (chains, draws, D), in the order of ``model.param_unc_names()``. Constrained
        ones go through ``model.param_unconstrain`` first.

    Notes
    -----
    Cost: one call of the model per draw. For arrays of several dimensions Stan lists the names of unconstrained
    parameters in another order than the values: ``b[1,2]`` may be called ``b[2,1]``.
    """
    names = tuple(stan_name(name) for name in model.param_unc_names())
    x = np.asarray(from_torch(draws), float)
    x = x[None] if x.ndim == 2 else x
    if x.ndim != 3 or x.shape[2] != len(names):
        raise InputError(
            f"draws must have shape (draws, {len(names)}) or (chains, draws, {len(names)}), a column per unconstrained "
            f"parameter, got {np.shape(draws)}: take constrained ones through model.param_unconstrain"
        )
    score = np.empty(x.shape)
    for chain, draw in np.ndindex(x.shape[:2]):
        try:
            score[chain, draw] = model.log_density_gradient(np.ascontiguousarray(x[chain, draw]))[1]
        except RuntimeError as error:
            said = " ".join(str(error).split())
            raise InputError(f"the model has no gradient at draw {draw} of chain {chain}: {said}") from None
    return Draws(x, score, names)
