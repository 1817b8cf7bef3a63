"""Samplers of `posteriors`, right and wrong. Every one returns draws by site, (chains, draws, ...)."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

from experiments.posterior_models import Posterior

GUIDES = {
    "mean-field": autoguide.AutoNormal,
    "full-rank": autoguide.AutoMultivariateNormal,
    "laplace": autoguide.AutoLaplaceApproximation,
}
STEPS, LEARNING_RATE = 3000, 0.01  # of the variational fits
LANGEVIN_STEP, THIN = 0.4, 4  # of a normal posterior the variance becomes 1 / (1 - LANGEVIN_STEP / 2)


def nuts(posterior: Posterior, key: jax.Array, chains: int, warmup: int, draws: int) -> MCMC:
    """All chains at once: one compilation, whatever their number."""
    sampler = NUTS(posterior.model, target_accept_prob=0.95)
    options = {"num_chains": chains, "chain_method": "vectorized", "progress_bar": False}
    mcmc = MCMC(sampler, num_warmup=warmup, num_samples=draws, **options)
    mcmc.run(key, *posterior.data, extra_fields=("diverging",))
    return mcmc


def variational(posterior: Posterior, kind: str, key: jax.Array, fits: int, shape: tuple[int, int]) -> dict:
    """As many fits, each giving draws of this shape: chains of independent draws, stacked."""
    guide = GUIDES[kind](posterior.model)
    svi = SVI(posterior.model, guide, numpyro.optim.Adam(LEARNING_RATE), Trace_ELBO())
    svi.init(key, *posterior.data)  # the guide learns the sites, outside of any tracing

    def fit_and_draw(one: jax.Array) -> dict:
        first, second = jax.random.split(one)
        state, _ = jax.lax.scan(
            lambda state, _: svi.stable_update(state, *posterior.data), svi.init(first, *posterior.data), length=STEPS
        )
        return guide.sample_posterior(second, svi.get_params(state), sample_shape=shape)

    found = jax.jit(jax.vmap(fit_and_draw))(jax.random.split(key, fits))
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in found.items()}


class Space:
    """The unconstrained space of a posterior: vectors in the order of the adapter, and draws by site."""

    def __init__(self, posterior: Posterior, example: dict):
        self.posterior = posterior
        self._model = handlers.seed(posterior.model, 0)
        self._by_site = ravel_pytree(self._unconstrained(example))[1]

    def _unconstrained(self, sites: dict) -> dict:
        return unconstrain_fn(self._model, self.posterior.data, {}, sites)

    def log_density(self, vector: jax.Array) -> jax.Array:
        return -potential_energy(self.posterior.model, self.posterior.data, {}, self._by_site(vector))

    def vectors(self, sites: dict) -> np.ndarray:
        """Draws by site, (chains, draws, ...), as vectors (chains, draws, D)."""
        one = lambda draw: ravel_pytree(self._unconstrained(draw))[0]
        return np.asarray(jax.jit(jax.vmap(jax.vmap(one)))(sites))

    def constrain(self, x: np.ndarray) -> dict:
        """The reverse of `vectors`."""
        one = lambda vector: constrain_fn(self._model, self.posterior.data, {}, self._by_site(vector))
        return jax.jit(jax.vmap(jax.vmap(one)))(jnp.asarray(x))


def langevin(space: Space, key: jax.Array, start: np.ndarray, covariance: np.ndarray, draws: int) -> np.ndarray:
    """Unadjusted Langevin chains in the unconstrained space, from draws that are right, with their covariance."""
    root = jnp.asarray(np.linalg.cholesky(covariance))
    score_fn = jax.grad(space.log_density)

    def step(x, noise):
        x = x + LANGEVIN_STEP * root @ (root.T @ score_fn(x)) + np.sqrt(2 * LANGEVIN_STEP) * root @ noise
        return x, None

    def chain(x, key):
        noise = jax.random.normal(key, (draws, THIN, len(x)))
        return jax.lax.scan(lambda x, some: (jax.lax.scan(step, x, some)[0],) * 2, x, noise)

    ends = jax.jit(jax.vmap(chain))(jnp.asarray(start), jax.random.split(key, len(start)))[1]
    return np.asarray(ends)


def without_jacobian(model):
    """The model as it would be if its density were taken for one in the unconstrained space."""

    def forgetful(*args, **kwargs):
        sites = handlers.trace(model).get_trace(*args, **kwargs)
        for name, site in sites.items():
            if site["type"] == "sample" and not site["is_observed"]:
                transform = biject_to(site["fn"].support)
                size = transform.log_abs_det_jacobian(transform.inv(site["value"]), site["value"])
                numpyro.factor(f"{name}, forgotten", -jnp.sum(size))

    return forgetful
