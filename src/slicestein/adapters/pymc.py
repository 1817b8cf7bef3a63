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
    if not model.free_RVs:
        raise InputError("the model has no free variables: there is nothing to test")
    posterior = group(idata, "posterior")
    shapes = model.eval_rv_shapes()
    draws = {
        rv.name: _in_order(posterior, rv.name, tuple(int(n) for n in shapes[rv.name]), model) for rv in model.free_RVs
    }
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


def _in_order(posterior: Any, name: str, shape: tuple[int, ...], model: Any) -> np.ndarray:
    """Draws (chains, draws, ...) of a variable with its axes and their labels in the order of the model."""
    if name not in posterior.data_vars:
        found = ", ".join(str(name) for name in posterior.data_vars)
        raise InputError(f"the draws have no variable {name}: found {found}; pass those of this model")
    array = posterior[name].transpose("chain", "draw", ..., missing_dims="ignore")
    named = model.named_vars_to_dims.get(name) or (None,) * len(shape)
    dims = tuple(dim or f"{name}_dim_{i}" for i, dim in enumerate(named))  # as ArviZ calls dimensions without names
    if set(array.dims) == {"chain", "draw", *dims}:
        array = array.transpose(..., *dims)
        for dim in dims:
            array = _by_label(array, dim, model.coords.get(dim))
    if array.dims[:2] != ("chain", "draw") or array.shape[2:] != shape:
        raise InputError(
            f"the draws of {name} have dimensions {array.dims} and shape {array.shape}: the model needs chain, draw "
            f"and {shape}"
        )
    return np.asarray(array)


def _by_label(array: Any, dim: str, wanted: Any) -> Any:
    """Entries along a dimension in the order of the labels that the model has given it."""
    if wanted is None or dim not in array.indexes or not array.indexes[dim].is_unique:
        return array
    try:
        found = array.sel({dim: list(wanted)})
    except KeyError:
        found = None
    if found is None or found.shape != array.shape:
        raise InputError(f"the draws of {array.name} have other labels along {dim} than the model: pass those of it")
    return found


def _forward(model: Any, transforms: list[Any]) -> Any:
    """Compiled function from the values of the free variables to those of the value variables, in the same order."""
    import pytensor

    outputs = [
        variable if transform is None else transform.forward(variable, *variable.owner.inputs)
        for variable, transform in zip(model.free_RVs, transforms, strict=True)
    ]
    return pytensor.function(model.free_RVs, outputs, on_unused_input="ignore")
