"""PyMC: a model and its draws, taken to the space of its value variables, where samplers work."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws, bound_of, group
from slicestein.rows.variables import flatten_variables


def from_pymc(model: Any, idata: Any) -> Draws:
    """Draws and scores in the unconstrained space of a PyMC model.

    Parameters
    ----------
    model
        The `pymc.Model`.
    idata
        What `pymc.sample` returned for it.

    Notes
    -----
    Cost: two compiled functions, called once per draw. Draws of nutpie that have their gradients stored need neither:
    `from_nutpie`.
    """
    if model.discrete_value_vars:
        name = model.discrete_value_vars[0].name
        raise InputError(f"variable {name} is discrete: it has no score. Marginalise it out of the model")
    posterior = group(idata, "posterior")
    draws = {}
    for variable in model.free_RVs:
        if variable.name not in posterior.data_vars:
            found = ", ".join(str(name) for name in posterior.data_vars)
            raise InputError(f"the draws have no variable {variable.name}: found {found}; pass those of this model")
        draws[variable.name] = np.asarray(posterior[variable.name].transpose("chain", "draw", ...))
    transforms = [model.rvs_to_transforms[variable] for variable in model.free_RVs]
    for (name, values), transform in zip(draws.items(), transforms, strict=True):
        if transform is None and (bound := bound_of(values)):
            raise InputError(
                f"every draw of {name} is {bound}, but the model has no transform for it: declare the variable with one"
            )
    chains, count = next(iter(draws.values())).shape[:2]
    points = [tuple(values[c, i] for values in draws.values()) for c in range(chains) for i in range(count)]
    if any(transform is not None for transform in transforms):
        forward = _forward(model, transforms)
        points = [tuple(forward(*point)) for point in points]
    names = [variable.name for variable in model.value_vars]
    gradient = model.compile_dlogp()
    score = np.array([gradient(dict(zip(names, point, strict=True))) for point in points])
    stacked = [np.stack(column) for column in zip(*points, strict=True)]
    x, flat = flatten_variables(
        (n, v.reshape(chains, count, *v.shape[1:])) for n, v in zip(names, stacked, strict=True)
    )
    return Draws(x, score.reshape(x.shape), flat)


def _forward(model: Any, transforms: list[Any]) -> Any:
    """Compiled function from the values of the free variables to those of the value variables, in the same order."""
    import pytensor

    outputs = [
        variable if transform is None else transform.forward(variable, *variable.owner.inputs)
        for variable, transform in zip(model.free_RVs, transforms, strict=True)
    ]
    return pytensor.function(model.free_RVs, outputs, on_unused_input="ignore")
