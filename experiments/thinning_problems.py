"""Posteriors to thin draws of, and samplers that are right, that come from far away, and that are biased.

Posteriors of data, those of 20 parameters and more from `posterior_models`, and a Gaussian whose parameters are an
AR(1) process of coefficient 0.9. Parameters are unconstrained. Draws to compare with are exact for the Gaussian, else
long runs of NUTS.
"""

import functools
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.signal

from experiments.runner import HERE

CHAINS, DRAWS = 4, 5000
CHECKPOINTS = HERE / "checkpoints"
REFERENCE = 20_000
WARM_UP = 1000  # draws of NUTS in a chain
# Langevin steps in units of the posterior. Adjusted chains with a short one need some 500 steps to come from far away;
# the unadjusted chain with the long one has 1.25 times the variance of a Gaussian.
SHORT_STEP, LONG_STEP = 0.02, 0.8
FAR = -10.0  # standard deviations from the mean in every whitened coordinate
COEFFICIENT = 0.9  # of the parameters of the Gaussian, and of its good chain in time


class Target(NamedTuple):
    """A posterior."""

    log_density: Callable
    reference: np.ndarray  # draws (N, D)


def correlated(d: int) -> np.ndarray:
    return COEFFICIENT ** np.abs(np.arange(d)[:, None] - np.arange(d))


def gaussian(d: int) -> Target:
    import jax.numpy as jnp

    covariance = correlated(d)
    precision = np.linalg.inv(covariance)
    draws = np.random.default_rng(d).multivariate_normal(np.zeros(d), covariance, REFERENCE, method="cholesky")
    return Target(lambda x: -0.5 * x @ jnp.asarray(precision) @ x, draws)


def logistic(name: str) -> Callable:
    """Logistic regression of "above the median" on the columns of a data set."""
    import jax
    import jax.numpy as jnp

    from experiments import data

    table = data.load(f"uci/{name}")
    x, y = table["x"], table["y"] > np.median(table["y"])
    x = (x - x.mean(0)) / x.std(0)
    x, sign = jnp.asarray(np.column_stack([np.ones(len(x)), x])), jnp.asarray(np.where(y, 1.0, -1.0))
    return lambda beta: jnp.sum(jax.nn.log_sigmoid(sign * (x @ beta))) - 0.5 * jnp.sum(beta**2)


def eight_schools() -> Callable:
    """Non-centred: mean, log of the spread, and eight standardised effects."""
    import jax.numpy as jnp

    y = jnp.asarray([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    error = jnp.asarray([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def log_density(x):
        mean, spread = 5 * x[0], jnp.exp(x[1])
        prior = -0.5 * jnp.sum(x[2:] ** 2) - 0.5 * x[0] ** 2 - jnp.log1p((spread / 5) ** 2) + x[1]
        return prior - 0.5 * jnp.sum(((y - mean - spread * x[2:]) / error) ** 2)

    return log_density


def modelled(name: str) -> Callable:
    """A model of `posterior_models`, in its unconstrained space."""
    import jax
    from jax.flatten_util import ravel_pytree
    from numpyro.infer.util import initialize_model, potential_energy

    from experiments.posterior_models import POSTERIORS as MODELS

    posterior = MODELS[name]
    example = initialize_model(jax.random.key(0), posterior.model, model_args=posterior.data).param_info.z
    by_site = ravel_pytree(example)[1]
    return lambda x: -potential_energy(posterior.model, posterior.data, {}, by_site(x))


SMALL = {  # name: log-density and dimension
    "eight schools": (eight_schools, 10),
    "wine": (lambda: logistic("wine-red"), 12),
}
LARGE = {
    name: (functools.partial(modelled, name), d)
    for name, d in (("logistic", 26), ("mixed", 35), ("gaussian process", 42), ("volatility", 100))
}
POSTERIORS = SMALL | LARGE


@functools.cache
def target(problem: str, d: int) -> Target:
    if problem == "gaussian":
        return gaussian(d)
    log_density = POSTERIORS[problem][0]()
    if problem in LARGE:
        return Target(log_density, nuts_with_warm_up(problem, d, 10**6)[:, WARM_UP:].reshape(-1, d))
    return Target(log_density, nuts(log_density, d, 10**6, REFERENCE // CHAINS).reshape(-1, d))


def nuts(log_density: Callable, d: int, seed: int, draws: int) -> np.ndarray:
    """Draws (chains, draws, D) of NumPyro's sampler, after its warm-up."""
    import jax

    mcmc = _sampler(log_density, draws)
    mcmc.run(jax.random.key(seed), init_params=np.zeros((CHAINS, d)))
    return np.asarray(mcmc.get_samples(group_by_chain=True))


def _sampler(log_density: Callable, draws: int):
    import numpyro

    kernel = numpyro.infer.NUTS(potential_fn=lambda x: -log_density(x), dense_mass=True)
    options = {"num_chains": CHAINS, "chain_method": "vectorized", "progress_bar": False}
    return numpyro.infer.MCMC(kernel, num_warmup=WARM_UP, num_samples=draws, **options)


def nuts_with_warm_up(problem: str, d: int, seed: int) -> np.ndarray:
    """Draws (chains, warm-up and draws, D), from starts between -2 and 2: a run serves several cells, on disk."""
    import jax

    path = CHECKPOINTS / f"thinning-{problem.replace(' ', '-')}-{seed}.npy"
    if not path.exists():
        mcmc = _sampler(POSTERIORS[problem][0](), DRAWS)
        starts = np.random.default_rng(seed).uniform(-2, 2, (CHAINS, d))
        mcmc.warmup(jax.random.key(seed), init_params=starts, collect_warmup=True)
        first = mcmc.get_samples(group_by_chain=True)
        mcmc.run(mcmc.post_warmup_state.rng_key)
        CHECKPOINTS.mkdir(exist_ok=True)
        whole = path.with_suffix(f".{os.getpid()}.npy")
        np.save(whole, np.concatenate([first, mcmc.get_samples(group_by_chain=True)], axis=1))
        whole.replace(path)
    return np.load(path)


def langevin(found: Target, seed: int, step: float, adjusted: bool, far: float) -> np.ndarray:
    """Draws (chains, draws, D) of Langevin chains in whitened coordinates, from ``far`` standard deviations away."""
    import jax
    import jax.numpy as jnp

    mean, covariance = found.reference.mean(0), np.cov(found.reference.T)
    factor = jnp.asarray(np.linalg.cholesky(covariance))
    d = len(mean)
    density = lambda y: found.log_density(mean + factor @ y)
    slope = jax.grad(density)

    def move(y, key):
        one, two = jax.random.split(key)
        drift = y + 0.5 * step * slope(y)
        new = drift + jnp.sqrt(step) * jax.random.normal(one, (d,))
        if adjusted:
            back = new + 0.5 * step * slope(new)
            ratio = density(new) - density(y) + (jnp.sum((new - drift) ** 2) - jnp.sum((y - back) ** 2)) / (2 * step)
            new = jnp.where(jnp.log(jax.random.uniform(two)) < ratio, new, y)
        return new, new

    def chain(key):
        return jax.lax.scan(move, jnp.full(d, far), jax.random.split(key, DRAWS))[1]

    y = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(seed), CHAINS))
    return np.asarray(mean + y @ factor.T)


def draws(problem: str, d: int, case: str, seed: int) -> np.ndarray:
    """Chains (4, 5000, D): ``good``, with the ``warm-up`` of NUTS, with a long ``burn-in``, or ``biased``."""
    found = target(problem, d)
    if case == "biased":
        return langevin(found, seed, LONG_STEP, adjusted=False, far=0.0)
    if case == "burn-in":
        return langevin(found, seed, SHORT_STEP, adjusted=True, far=FAR)
    if problem == "gaussian":
        noise = np.random.default_rng([seed, d]).standard_normal((CHAINS, DRAWS, d))
        noise[:, 1:] *= np.sqrt(1 - COEFFICIENT**2)
        return scipy.signal.lfilter([1], [1, -COEFFICIENT], noise, axis=1) @ np.linalg.cholesky(correlated(d)).T
    if problem in LARGE:
        run = nuts_with_warm_up(problem, d, seed)
        return run[:, :DRAWS] if case == "warm-up" else run[:, -DRAWS:]
    return nuts(found.log_density, d, seed, DRAWS)


def mean_field(problem: str, d: int, seed: int, num: int) -> np.ndarray:
    """Draws (N, D) of the mean-field Gaussian of largest evidence bound, found by NumPyro."""
    import jax
    import numpyro
    import optax
    from numpyro import distributions as dist

    log_density = target(problem, d).log_density

    def model():
        x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real_vector, (), (d,)))
        numpyro.factor("density", log_density(x))

    guide = numpyro.infer.autoguide.AutoNormal(model)
    rate = optax.cosine_decay_schedule(0.02, 5000)
    fit = numpyro.infer.SVI(model, guide, numpyro.optim.optax_to_numpyro(optax.adam(rate)), numpyro.infer.Trace_ELBO(8))
    params = fit.run(jax.random.key(seed), 5000, progress_bar=False).params
    return np.asarray(guide.sample_posterior(jax.random.key(seed + 1), params, sample_shape=(num,))["x"])
