"""NumPyro: a model and its draws, taken to the unconstrained space with the Jacobian."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws, scores_of
from slicestein.rows.arrays import coarse_columns
from slicestein.rows.variables import flatten_variables
from slicestein.score import score_from


def from_numpyro(model: Any, draws: Any, *args: Any, **kwargs: Any) -> Draws:
    """Draws and scores in the unconstrained space of a NumPyro model.

    Parameters
    ----------
    model
        The model, with its observations among the arguments that follow.
    draws
        The `MCMC` object after its run, or a dict of draws (draws, ...) or (chains, draws, ...) as its `get_samples`
        returns them: constrained, by site. Sites that are deterministic are left out.
    args, kwargs
        Arguments of the model, as for `MCMC.run`.
    """
    from numpyro import handlers
    from numpyro.infer.util import potential_energy, unconstrain_fn

    samples = draws.get_samples(group_by_chain=True) if hasattr(draws, "get_samples") else dict(draws)
    model = handlers.seed(model, 0)
    try:
        sites = handlers.trace(model).get_trace(*args, **kwargs)
    except TypeError as error:
        raise InputError(
            f"the model does not take these arguments ({error}): pass those of mcmc.run after the fit, check(model, "
            "mcmc, y); settings of the test go into gof_test(adapters.from_numpyro(model, mcmc, y), key=0, alpha=0.01)"
        ) from error
    latent = {n: s for n, s in sites.items() if s["type"] == "sample" and not s["is_observed"]}
    for name, site in latent.items():
        if site["fn"].support.is_discrete:
            raise InputError(f"site {name} is discrete: it has no score. Marginalise it out of the model")
        if name not in samples:
            raise InputError(
                f"the draws have no site {name}: found {', '.join(samples)}; pass those of this model, and its data as "
                f"in mcmc.run (if {name} was observed: {name}=...)"
            )
    grouped = _by_chain({name: (samples[name], np.shape(site["value"])) for name, site in latent.items()})

    def unconstrained(one: dict[str, Any]) -> dict[str, Any]:
        return unconstrain_fn(model, args, kwargs, one)

    values = jax.jit(jax.vmap(jax.vmap(unconstrained)))(grouped)
    for name, value in values.items():
        if not bool(jnp.isfinite(value).all()):
            raise InputError(f"site {name} has draws outside its support: pass draws as MCMC.get_samples returns them")
    x, names = flatten_variables(sorted(values.items()))  # the order in which JAX flattens a dict
    _, unravel = ravel_pytree({name: value[0, 0] for name, value in values.items()})
    score_fn = score_from(lambda vector: -potential_energy(model, args, kwargs, unravel(vector)))
    return Draws(x, scores_of(jax.jit(score_fn), x), names)


def _by_chain(sites: dict[str, tuple[Any, tuple[int, ...]]]) -> dict[str, Any]:
    """Draws of every site as (chains, draws, *its shape); all have as many."""
    grouped, leads = {}, {}
    for name, (draws, shape) in sites.items():
        value = jnp.asarray(draws)
        lead = value.shape[: value.ndim - len(shape)]
        if len(lead) not in (1, 2) or value.shape[len(lead) :] != shape:
            raise InputError(
                f"draws of site {name} have shape {value.shape}, and the site {shape}: pass (draws, ...) or "
                "(chains, draws, ...)"
            )
        if value.dtype == jnp.float32 and coarse_columns(np.asarray(draws).reshape(math.prod(lead), -1)).any():
            raise InputError(
                f"NumPyro works in single precision, in which draws of site {name} are all the same: set "
                'jax.config.update("jax_enable_x64", True), or shift the parameter'
            )
        leads[name] = lead
        grouped[name] = value[None] if len(lead) == 1 else value
    if len(set(leads.values())) > 1:
        found = ", ".join(f"{name}: {lead}" for name, lead in leads.items())
        raise InputError(f"sites differ in chains or draws ({found}): pass the same draws of each")
    return grouped
