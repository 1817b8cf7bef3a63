"""NumPyro: a model and its draws, taken to the unconstrained space with the Jacobian."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws
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
    sites = handlers.trace(model).get_trace(*args, **kwargs)
    latent = {n: s for n, s in sites.items() if s["type"] == "sample" and not s["is_observed"]}
    for name, site in latent.items():
        if site["fn"].support.is_discrete:
            raise InputError(f"site {name} is discrete: it has no score. Marginalise it out of the model")
        if name not in samples:
            raise InputError(f"the draws have no site {name}: found {', '.join(samples)}; pass those of this model")
    grouped = {name: _by_chain(name, samples[name], np.ndim(site["value"])) for name, site in latent.items()}

    def unconstrained(one: dict[str, Any]) -> dict[str, Any]:
        return unconstrain_fn(model, args, kwargs, one)

    values = jax.jit(jax.vmap(jax.vmap(unconstrained)))(grouped)
    for name, value in values.items():
        if not bool(jnp.isfinite(value).all()):
            raise InputError(f"site {name} has draws outside its support: pass draws as MCMC.get_samples returns them")
    x, names = flatten_variables(sorted(values.items()))  # the order in which JAX flattens a dict
    _, unravel = ravel_pytree({name: value[0, 0] for name, value in values.items()})
    score_fn = score_from(lambda vector: -potential_energy(model, args, kwargs, unravel(vector)))
    return Draws(x, np.asarray(jax.jit(score_fn)(x.reshape(-1, x.shape[2]))).reshape(x.shape), names)


def _by_chain(name: str, value: Any, site_ndim: int) -> Any:
    value = jnp.asarray(value)
    if value.ndim - site_ndim not in (1, 2):
        raise InputError(f"draws of site {name} have shape {value.shape}: pass (draws, ...) or (chains, draws, ...)")
    return value[None] if value.ndim == site_ndim + 1 else value
