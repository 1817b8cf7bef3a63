"""PyStan 3: a model and its draws, taken to the unconstrained space, where Stan samples, with the Jacobian."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws, stan_name


def from_pystan(model: Any, draws: Any) -> Draws:
    """Draws and scores in the unconstrained space of a Stan model.

    Parameters
    ----------
    model
        What `stan.build` returned.
    draws
        What `model.sample` returned, without its warm-up; or draws of any other sampler as a dict by parameter,
        constrained, (draws, ...) or (chains, draws, ...).

    Notes
    -----
    Cost: two calls of the compiled model per draw. They are what ``model.unconstrain_pars`` and ``model.grad_log_prob``
    call, without the web server that these start every time: 25 µs instead of 4 ms for a small model.
    """
    from httpstan.models import import_services_extension_module

    compiled = import_services_extension_module(model.model_name)
    values = _by_chain(model, _of_fit(draws) if hasattr(draws, "stan_outputs") else draws)
    lead = next(iter(values.values())).shape[:2]
    x = np.array([_unconstrained(compiled, model, values, index) for index in np.ndindex(lead)])
    score = np.array([compiled.log_prob_grad(model.data, row, True) for row in x.tolist()])
    names = _names(compiled, model, x.shape[1])
    return Draws(x.reshape(*lead, -1), score.reshape(*lead, -1), names)


def sample_stats(fit: Any) -> dict[str, np.ndarray]:
    """Which transitions diverged, (chains, draws), if the sampler tells; Stan keeps no word of trees cut off."""
    if "divergent__" not in fit.sample_and_sampler_param_names:
        return {}
    return {"diverging": _chains_first(fit, fit["divergent__"][0]) > 0}


def _of_fit(fit: Any) -> dict[str, np.ndarray]:
    """Draws after warm-up by parameter, (chains, draws, ...)."""
    return {
        name: _chains_first(fit, fit[name] if shape else fit[name][0])
        for name, shape in zip(fit.param_names, fit.dims, strict=True)
    }


def _chains_first(fit: Any, values: np.ndarray) -> np.ndarray:
    """(..., draws x chains), chains the faster of the two, as (chains, draws after warm-up, ...)."""
    rows = np.moveaxis(values, -1, 0)
    warmup = math.ceil(fit.num_warmup / fit.num_thin) if fit.save_warmup else 0
    return rows.reshape(-1, fit.num_chains, *rows.shape[1:]).swapaxes(0, 1)[:, warmup:]


def _by_chain(model: Any, draws: Any) -> dict[str, np.ndarray]:
    """Draws of the variables of a model, each (chains, draws, *its shape); all have as many."""
    if not isinstance(draws, Mapping):
        kind = type(draws).__name__
        raise InputError(f"draws must be what model.sample returned, or a dict of draws by parameter, got {kind}")
    values = {}
    for name, dims in zip(model.param_names, model.dims, strict=True):
        if name not in draws:
            continue  # a generated quantity, perhaps; of a parameter the model will say so
        value, shape = np.asarray(draws[name], float), tuple(dims)
        lead = value.shape[: value.ndim - len(shape)]
        if len(lead) not in (1, 2) or value.shape[len(lead) :] != shape or 0 in lead:
            raise InputError(
                f"draws of {name} have shape {value.shape}, and the parameter {shape}: pass (draws, ...) or "
                "(chains, draws, ...)"
            )
        values[name] = value[None] if len(lead) == 1 else value
    if not values:
        raise InputError(f"the draws have none of {', '.join(model.param_names)}: pass those of this model")
    leads = {name: value.shape[:2] for name, value in values.items()}
    if len(set(leads.values())) > 1:
        found = ", ".join(f"{name}: {lead}" for name, lead in leads.items())
        raise InputError(f"parameters differ in chains or draws ({found}): pass the same draws of each")
    return values


def _unconstrained(compiled: Any, model: Any, values: dict[str, np.ndarray], index: tuple[int, ...]) -> list[float]:
    """One draw in the unconstrained space."""
    try:
        return compiled.transform_inits(model.data, {name: value[index].tolist() for name, value in values.items()})
    except (RuntimeError, ValueError) as error:
        said = str(error).removeprefix("Exception: ").split(" (in '")[0]
        if missing := re.search(r"does not exist.*variable name=(\w+)", said):
            raise InputError(f"the draws have no {missing[1]}, a parameter: found {', '.join(values)}") from None
        raise InputError(f"draw {index[1]} of chain {index[0]} is outside the support of the model: {said}") from None


def _names(compiled: Any, model: Any, dim: int) -> tuple[str, ...]:
    """Each unconstrained coordinate is called after the first entry of the parameters that it moves.

    Stan's own list of unconstrained names has the entries of arrays in another order than the values.
    """
    base = np.array(compiled.write_array(model.data, [0.0] * dim, False, False))
    moved = [compiled.write_array(model.data, row, False, False) != base for row in np.eye(dim).tolist()]
    names = [stan_name(model.constrained_param_names[int(np.argmax(entries))]) for entries in moved]
    if len(set(names)) == dim:
        return tuple(names)
    variables = [name.partition("[")[0] for name in names]  # of a simplex, say, each coordinate may move all entries
    return tuple(f"{name}[{variables[:i].count(name) + 1}]" for i, name in enumerate(variables))
