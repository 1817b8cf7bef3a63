r"""Log-likelihoods of decoder models by annealed importance sampling with Hamiltonian moves (HAIS; Wu et al. 2017).

Chains go from the prior N(0, I) to the posterior, along $\log f_\beta(z) = \log p(z) + \beta \log p(x | z)$:

$$
\log w \mathrel{+}= (\beta_t - \beta_{t-1}) \log p(x | z), \quad z \leftarrow \text{HMC}_{\beta_t}(z), \qquad
\log p(x) \approx \operatorname{logsumexp}_k \log w_k - \log K .
$$

Unbiased for p(x), so a lower bound on log p(x) on average. A pilot run finds the step size of every temperature for the
wanted acceptance; it is then frozen, which keeps the chains Markov. Cost per image: K T L decoder gradients.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

ACCEPTANCE = 0.65


def schedule(count: int) -> np.ndarray:
    """Temperatures 0 = beta_0 < ... < beta_T = 1, dense at both ends: a sigmoid."""
    s = 1 / (1 + np.exp(-np.linspace(-4, 4, count)))
    return (s - s[0]) / (s[-1] - s[0])


def leapfrog(flow, beta, z, v, slope, step, count: int):
    """``count`` steps on log f_beta, where ``flow(z)`` is log p(x | z) and its gradient, ``slope`` the latter at z.

    Returns z, v, and what `flow` gives there: the next temperature starts from it.
    """
    v = v + step / 2 * (beta * slope - z)

    def move(_, state):
        z, v = state
        z = z + step * v
        return z, v + step * (beta * flow(z)[1] - z)

    z, v = lax.fori_loop(0, count - 1, move, (z, v))
    z = z + step * v
    likelihood, slope = flow(z)
    return z, v + step / 2 * (beta * slope - z), likelihood, slope


def anneal(log_likelihood, z, key, betas, steps, leapfrogs: int, adapt):
    """Log-weights of chains that start at z (..., D); the step size is `steps`, or adapted from its first value.

    Returns log-weights, acceptance and step size of every temperature.
    """
    prior = lambda z: -0.5 * jnp.sum(z**2, axis=-1)

    def flow(z):
        likelihood, pullback = jax.vjp(log_likelihood, z)
        return likelihood, pullback(jnp.ones_like(likelihood))[0]

    def temperature(state, inputs):
        chain, log_w, found, average = state
        before, beta, step, key = inputs
        step = jnp.where(adapt, found, step)
        velocity_key, accept_key = jax.random.split(key)
        z, likelihood, slope = chain
        log_w = log_w + (beta - before) * likelihood
        v = jax.random.normal(velocity_key, z.shape, z.dtype)
        new_z, new_v, *new = leapfrog(flow, beta, z, v, slope, step, leapfrogs)
        energy = lambda z, likelihood, v: -prior(z) - beta * likelihood + 0.5 * jnp.sum(v**2, axis=-1)
        change = energy(z, likelihood, v) - energy(new_z, new[0], new_v)
        uniform = jax.random.uniform(accept_key, change.shape, change.dtype)
        accept = jnp.log(uniform) < jnp.where(jnp.isfinite(change), change, -jnp.inf)
        choose = lambda new, old: jnp.where(accept if old.ndim == accept.ndim else accept[..., None], new, old)
        chain = jax.tree.map(choose, (new_z, *new), chain)
        rate = accept.mean(dtype=z.dtype)
        found = jnp.clip(found * jnp.where(average > ACCEPTANCE, 1.02, 0.98), 1e-4, 0.7).astype(z.dtype)
        average = (0.9 * average + 0.1 * rate).astype(z.dtype)
        return (chain, log_w, found, average), (rate, step)

    likelihood, slope = flow(z)
    start = ((z, likelihood, slope), jnp.zeros_like(likelihood), steps[0], jnp.asarray(ACCEPTANCE, z.dtype))
    inputs = (betas[:-1], betas[1:], steps, jax.random.split(key, len(betas) - 1))
    (_, log_w, _, _), (rates, steps) = lax.scan(temperature, start, inputs)
    return log_w, rates, steps


@functools.partial(jax.jit, static_argnums=(0, 4, 5, 6))
def _estimate(log_likelihood, arguments, key, steps, shape, temperatures, leapfrogs, adapt):
    start_key, chain_key = jax.random.split(key)
    z = jax.random.normal(start_key, shape, steps.dtype)
    betas = jnp.asarray(schedule(temperatures + 1), steps.dtype)
    return anneal(lambda z: log_likelihood(z, *arguments), z, chain_key, betas, steps, leapfrogs, adapt)


def log_marginal(log_likelihood, arguments, images, dim, *, key, chains=16, temperatures=1000, leapfrogs=10, batch=100):
    """log p(x) of every image.

    Parameters
    ----------
    log_likelihood
        ``log_likelihood(z, x, *arguments)`` of shape (B, chains), for z (B, chains, dim) and x (B, ...).
    images
        Array (N, ...); a quarter of the first batch serves the pilot run too.

    Returns
    -------
    log p(x) (N,), mean acceptance, and the mean over images of the standard deviation of the log-weights.
    """
    images = jnp.asarray(images)
    pilot_key, key = jax.random.split(key)
    batch = min(batch, len(images))
    flow = lambda z, x, arguments: log_likelihood(z, x, *arguments)
    pilot, settings = -(-batch // 4), (temperatures, leapfrogs)
    steps = jnp.full(temperatures, 0.1, images.dtype)
    rows = (images[:pilot], arguments)
    _, _, steps = _estimate(flow, rows, pilot_key, steps, (pilot, chains, dim), *settings, True)
    found, rates = [], []
    for i, first in enumerate(range(0, len(images), batch)):
        first = min(first, len(images) - batch)  # the last batch may overlap with the one before
        rows = (images[first : first + batch], arguments)
        log_w, rate, _ = _estimate(
            flow, rows, jax.random.fold_in(key, i), steps, (batch, chains, dim), *settings, False
        )
        found.append((first, np.asarray(log_w, np.float64)))
        rates.append(float(rate.mean()))
    log_p, deviation = np.empty(len(images)), np.empty(len(images))
    for first, log_w in found:
        log_p[first : first + batch] = np.logaddexp.reduce(log_w, axis=1) - np.log(chains)
        deviation[first : first + batch] = log_w.std(axis=1)
    return log_p, float(np.mean(rates)), float(deviation.mean())
