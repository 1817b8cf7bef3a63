"""Nutpie: draws and gradients that the sampler has stored, of any model and without running it again."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws, group


def from_nutpie(trace: Any) -> Draws:
    """Unconstrained draws and stored gradients.

    Parameters
    ----------
    trace
        What ``nutpie.sample(..., store_unconstrained=True, store_gradient=True)`` returned; from PyMC,
        ``pm.sample(nuts_sampler="nutpie", nuts_sampler_kwargs={...})`` with the same two options.
    """
    stats = group(trace, "sample_stats")
    missing = [name for name in ("unconstrained_draw", "gradient") if name not in stats.data_vars]
    if missing:
        raise InputError(
            f"the trace has not stored {' and '.join(missing)}: sample by nutpie with store_unconstrained=True, "
            "store_gradient=True; other traces go with their model, check(model, trace)"
        )
    x, score = (stats[name].transpose("chain", "draw", ...) for name in ("unconstrained_draw", "gradient"))
    names, others = _labels(x), _labels(score)
    if x.ndim != 3 or sorted(names) != sorted(others):
        raise InputError(
            f"the trace holds draws of {len(names)} parameters and gradients of {len(others)}, of other names: "
            "pass it as nutpie has returned it"
        )
    order = [others.index(name) for name in names]
    return Draws(np.asarray(x), np.asarray(score)[..., order], tuple(names))


def _labels(array: Any) -> list[str]:
    """Names of the last dimension."""
    label = array.dims[-1]
    if label not in array.coords:
        return [f"x[{i}]" for i in range(array.shape[-1])]
    return [str(name) for name in array.coords[label].values]
