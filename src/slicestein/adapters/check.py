"""One call from a model and a fit to a verdict: `slicestein.check`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slicestein._checks import InputError
from slicestein.adapters import pystan
from slicestein.adapters.blackjax import from_blackjax
from slicestein.adapters.bridgestan import from_bridgestan
from slicestein.adapters.cmdstan import Run, read_run
from slicestein.adapters.draws import Draws, group
from slicestein.adapters.numpyro import from_numpyro
from slicestein.adapters.nutpie import from_nutpie
from slicestein.adapters.pymc import from_pymc
from slicestein.gof.door import gof_test
from slicestein.gof.result import GofResult

# Models that are objects: the attribute that each is known by, its package and its adapter.
MODELS: dict[str, tuple[str, Callable[[Any, Any], Draws]]] = {
    "free_RVs": ("PyMC", from_pymc),
    "grad_log_prob": ("PyStan", pystan.from_pystan),
    "log_density_gradient": ("BridgeStan", from_bridgestan),
}
# Said of what was found wrong; BlackJAX samples a density as it is.
UNCONSTRAINED = "parameters with bounds were tested unconstrained, a scale as its logarithm: sizes are those of that"
# Names by which PyMC and nutpie tell that a trajectory was cut off.
DEEPEST = ("reached_max_treedepth", "maxdepth_reached")


@dataclass(frozen=True, eq=False)
class Checked(GofResult):
    """What `check` returns: the result of the test, with the draws and scores that were tested."""

    draws: Draws | None = field(default=None, repr=False)

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the test as a self-contained web page; options are those of `slicestein.report.write_report`."""
        from slicestein import report  # needs jinja2 and matplotlib

        seen = {} if self.draws is None else {"x": self.draws.x, "score": self.draws.score}
        report.write_report(self, path, **(seen | options))


def check(model: Any, fit: Any = None, /, *args: Any, key: Any = 0, **kwargs: Any) -> Checked:
    """Test whether a fit has come from its model.

    | package | model | fit | more arguments |
    | --- | --- | --- | --- |
    | NumPyro | the model function | `MCMC` after its run, a dict of draws by site, or ArviZ data | those of the model |
    | PyMC | the `pymc.Model` | what `pymc.sample` returned | |
    | nutpie | the trace, with gradients stored | | |
    | BlackJAX | the log-density that was sampled | the states | ``chain_axis`` for several chains |
    | CmdStan | the diagnostic files, as paths or as a pattern; a fit of CmdStanPy | | |
    | PyStan 3 | what `stan.build` returned | what its `sample` returned, or a dict of draws | |
    | BridgeStan | the `StanModel` | unconstrained draws, (draws, D) or (chains, draws, D) | |
    | any | draws of an adapter | | |

    Parameters
    ----------
    model, fit
        See the table.
    args, kwargs
        See the table. All but ``key`` are those of the model: settings of the test are not taken here.
    key
        Int seed or JAX key of the test.

    Returns
    -------
    Checked
        A `GofResult` that prints as a summary, and has ``.plot()`` and ``.report("report.html")``. Where the fit holds
        them, divergent transitions and trajectories that were cut off are among its ``notes``.

    Notes
    -----
    Other settings of the test: ``gof_test(slicestein.adapters.from_numpyro(model, fit, ...), key=0, alpha=0.01)``.

    Examples
    --------
    >>> import slicestein as ss
    >>> result = ss.check(model, mcmc, y)                                             # doctest: +SKIP
    >>> print(result)                                                                 # doctest: +SKIP
    >>> result.report("report.html")                                                  # doctest: +SKIP
    """
    if fit is None and _are_files(model):
        model = read_run(model)
    draws = _draws(model, fit, args, kwargs)
    result = gof_test(draws, key=key)
    known = {part.name: getattr(result, part.name) for part in dataclasses.fields(result)}
    notes = (*result.notes, *notes_of(model if fit is None else fit))
    if result.reject and not isinstance(model, Draws) and not hasattr(fit, "logdensity"):
        notes = (*notes, UNCONSTRAINED)
    return Checked(**(known | {"notes": notes}), draws=draws)


def _draws(model: Any, fit: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Draws:
    """Draws and scores, by the adapter of the package that the arguments are from."""
    if fit is None or type(model).__module__.startswith("nutpie"):  # a compiled model: gradients are in the trace
        _no_more("a trace, files or draws", args, kwargs)
        if isinstance(model, Run):
            return model.draws
        return model if isinstance(model, Draws) else from_nutpie(_trace(model if fit is None else fit))
    for mark, (kind, adapter) in MODELS.items():
        if hasattr(model, mark):
            _no_more(f"a {kind} model", args, kwargs)
            return adapter(model, fit)
    if not callable(model):
        if callable(fit) or any(hasattr(fit, mark) for mark in MODELS):
            raise InputError(f"the model comes first: check(model, fit), got check({type(model).__name__}, ...)")
        raise InputError(
            f"model must be a function, or a model of PyMC or Stan, got {type(model).__name__}; arrays of draws and "
            "scores are tested by gof_test(x, score, key=0)"
        )
    if hasattr(fit, "position") and hasattr(fit, "logdensity"):
        _no_more("states of BlackJAX", args, {name: kwargs[name] for name in kwargs if name != "chain_axis"})
        return from_blackjax(fit, model, **kwargs)
    if hasattr(fit, "get_samples") or isinstance(fit, dict):
        return from_numpyro(model, fit, *args, **kwargs)
    if _library(fit) == "numpyro":
        posterior = group(fit, "posterior")
        samples = {
            str(name): np.asarray(posterior[name].transpose("chain", "draw", ...)) for name in posterior.data_vars
        }
        return from_numpyro(model, samples, *args, **kwargs)
    raise InputError(
        f"cannot tell what package a fit of {type(fit).__name__} is from. NumPyro: pass the MCMC object or a dict of "
        "draws. ArviZ data and a log-density: gof_test(adapters.from_arviz(idata, log_density=...), key=0). Arrays of "
        "draws and gradients: gof_test(x, score, key=0)"
    )


def _no_more(given: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    if args or kwargs:
        found = ", ".join([type(arg).__name__ for arg in args] + list(kwargs))
        raise InputError(f"with {given} no more arguments are needed, got {found}: leave them out")


def _trace(trace: Any) -> Any:
    """A trace that a verdict can come from without its model."""
    missing = "model" if hasattr(trace, "stan_outputs") else "fit"
    if hasattr(trace, "__array__") and not hasattr(trace, "data_vars"):
        raise InputError(
            f"model is an array, {type(trace).__name__} of shape {np.shape(trace)}: draws and their scores are tested "
            "by gof_test(x, score, key=0); check takes a model and its fit"
        )
    if callable(trace) or any(hasattr(trace, mark) for mark in (*MODELS, "get_samples", "stan_outputs")):
        raise InputError(f"{missing} is missing: pass the model and the fit, got {type(trace).__name__} alone")
    return trace


def _are_files(model: Any) -> bool:
    """Whether these are paths of CmdStan's diagnostic files, or a fit of CmdStanPy, which knows them."""
    if hasattr(model, "runset"):
        return True
    several = list(model) if isinstance(model, list | tuple) else [model]
    return bool(several) and all(isinstance(one, str | os.PathLike) for one in several)


def _library(fit: Any) -> str | None:
    """The package that ArviZ data say they are from."""
    posterior = getattr(fit, "posterior", None)
    return getattr(posterior, "attrs", {}).get("inference_library")


def notes_of(fit: Any) -> Iterator[str]:
    """What the sampler has said of its own run."""
    diverging, deepest = _flags(fit)
    if diverging is not None and diverging.any():
        yield (
            f"{diverging.sum()} of {diverging.size} transitions diverged: the sampler left the density there, and may "
            "have missed a part of it"
        )
    if deepest is not None and deepest.any():
        yield f"{deepest.sum()} of {deepest.size} trajectories were cut off at the maximal tree depth"


def _flags(fit: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Which transitions diverged, and which were cut off; None where it was not recorded."""
    if hasattr(fit, "get_extra_fields"):
        fields = fit.get_extra_fields()
        deepest = getattr(getattr(fit, "sampler", None), "_max_tree_depth", None)
        deepest = deepest[-1] if isinstance(deepest, tuple) else deepest
        if "num_steps" in fields and deepest is not None:
            fields = fields | {DEEPEST[0]: np.asarray(fields["num_steps"]) >= 2**deepest - 1}
    elif hasattr(fit, "stan_outputs"):
        fields = pystan.sample_stats(fit)
    else:
        fields = getattr(fit, "sample_stats", {})
    found = [next((np.asarray(fields[n]) for n in names if n in fields), None) for names in (("diverging",), DEEPEST)]
    return found[0], found[1]
