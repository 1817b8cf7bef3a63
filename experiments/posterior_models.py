"""Posteriors of `posteriors`: NumPyro models with small data, simulated once from a fixed seed.

Every model has one keyword, the scale of one prior (of the shares, their concentration), so that it can be mistyped. A
posterior is *near Gaussian* where much is known of every parameter: what is near was decided before any test was run.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])  # eight schools, Rubin (1981)
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


class Posterior(NamedTuple):
    """A model with its data, and the mistake that its prior has when it is mistyped."""

    model: Callable[..., None]
    data: tuple[np.ndarray, ...]
    mistyped: dict[str, float]  # the keyword of the model
    site: str  # whose prior it is
    near_gaussian: bool


def sample(name: str, law, shape: tuple[int, ...] = ()):
    """A latent site of independent values."""
    return numpyro.sample(name, law.expand(shape).to_event(len(shape)) if shape else law)


def observe(law, y) -> None:
    numpyro.sample("y", law, obs=y)


def schools(effects, errors, scale=5.0):
    mu, tau = sample("mu", dist.Normal(0, 5)), sample("tau", dist.HalfCauchy(scale))
    theta = sample("theta", dist.Normal(0, 1), effects.shape)
    observe(dist.Normal(mu + tau * theta, errors), effects)


def schools_centred(effects, errors, scale=5.0):
    mu, tau = sample("mu", dist.Normal(0, 5)), sample("tau", dist.HalfCauchy(scale))
    observe(dist.Normal(sample("theta", dist.Normal(mu, tau), effects.shape), errors), effects)


def funnel(scale=3.0):
    v = sample("v", dist.Normal(0, scale))
    sample("x", dist.Normal(0, jnp.exp(v / 2)), (9,))


def horseshoe(features, y, scale=0.1):
    tau, local = sample("tau", dist.HalfCauchy(scale)), sample("local", dist.HalfCauchy(1), (features.shape[1],))
    beta = sample("beta", dist.Normal(0, 1), (features.shape[1],)) * tau * local
    observe(dist.Normal(features @ beta, sample("sigma", dist.HalfNormal(1))), y)


def logistic(features, y, scale=1.0):
    beta = sample("beta", dist.Normal(0, scale), (features.shape[1],))
    observe(dist.Bernoulli(logits=sample("intercept", dist.Normal(0, 2)) + features @ beta), y)


def robust(features, y, scale=1.0):
    beta, sigma = sample("beta", dist.Normal(0, 1), (features.shape[1],)), sample("sigma", dist.HalfNormal(scale))
    observe(dist.StudentT(sample("nu", dist.Gamma(2, 0.1)), features @ beta, sigma), y)


def counts(features, y, scale=1.0):
    beta = sample("beta", dist.Normal(0, scale), (features.shape[1],))
    size = sample("size", dist.Gamma(2, 0.5))
    observe(dist.NegativeBinomial2(jnp.exp(1 + features @ beta), size), y)


def simplex(y, scale=1.0):
    share = numpyro.sample("share", dist.Dirichlet(jnp.full(y.shape[1], scale)))
    concentration = sample("concentration", dist.LogNormal(3, 1))
    observe(dist.DirichletMultinomial(concentration * share, y.sum(1)), y)


def ordinal(features, y, scale=1.0):
    beta = sample("beta", dist.Normal(0, scale), (features.shape[1],))
    cuts = dist.TransformedDistribution(dist.Normal(0, 2).expand([4]), dist.transforms.OrderedTransform())
    observe(dist.OrderedLogistic(features @ beta, numpyro.sample("cuts", cuts)), y)


def autoregression(y, scale=1.0):
    mu, phi = sample("mu", dist.Normal(0, scale)), sample("phi", dist.Normal(0, 0.5), (3,))
    past = sum(phi[k] * (y[2 - k : -1 - k] - mu) for k in range(3))
    observe(dist.Normal(mu + past, sample("sigma", dist.HalfNormal(1))), y[3:])


def mixed(group, t, y, scale=1.0):
    count = int(group.max()) + 1
    mean, spread = sample("mean", dist.Normal(0, 2), (2,)), sample("spread", dist.HalfNormal(scale), (2,))
    level = sample("level", dist.Normal(mean[0], spread[0]), (count,))
    slope = sample("slope", dist.Normal(mean[1], spread[1]), (count,))
    observe(dist.Normal(level[group] + slope[group] * t, sample("sigma", dist.HalfNormal(1))), y)


def volatility(y, scale=0.5):
    mu, sigma = sample("mu", dist.Normal(-1, 1)), sample("sigma", dist.HalfNormal(scale))
    walk = jnp.cumsum(sample("noise", dist.Normal(0, 1), y.shape))
    observe(dist.Normal(0, jnp.exp((mu + sigma * walk) / 2)), y)


def gaussian_process(root, y, scale=1.0):
    field = sample("height", dist.HalfNormal(scale)) * root @ sample("noise", dist.Normal(0, 1), y.shape)
    observe(dist.Poisson(jnp.exp(sample("mean", dist.Normal(1, 1)) + field)), y)


def simulate(seed: int = 0) -> dict[str, tuple[np.ndarray, ...]]:
    """Data of all models but those of the schools and of the funnel, from one stream of random numbers."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal

    def regression(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        features = normal((n, d)).astype(np.float32)
        return features, features @ (0.5 * normal(d))

    (wide, logits), (heavy, line), (rates, log_rate) = regression(400, 25), regression(200, 8), regression(120, 6)
    (graded, latent), (sparse, _) = regression(300, 5), regression(60, 10)
    series = normal(250)
    for i in range(1, 250):
        series[i] += 0.6 * series[i - 1]
    group, times = np.repeat(np.arange(15), 25), normal(375)
    levels, slopes = 1 + normal(15), -0.5 + 0.7 * normal(15)
    walk = np.cumsum(0.2 * normal(98))
    grid = np.linspace(0, 1, 40)
    smooth = np.exp(-0.5 * ((grid[:, None] - grid) / 0.2) ** 2) + 1e-4 * np.eye(40)
    return {
        "logistic": (wide, (rng.random(400) < 1 / (1 + np.exp(-logits))) * 1),
        "robust": (heavy, line + 0.5 * rng.standard_t(4, 200)),
        "counts": (rates, rng.poisson(np.exp(1 + log_rate) * rng.gamma(3, 1 / 3, 120))),
        "simplex": (np.stack([rng.multinomial(50, rng.dirichlet(np.arange(2, 10))) for _ in range(25)]),),
        "ordinal": (graded, np.sum((latent + rng.logistic(size=300))[:, None] > [-1.5, -0.5, 0.5, 1.5], axis=1)),
        "autoregression": (series,),
        "mixed": (group, times, levels[group] + slopes[group] * times + 0.5 * normal(375)),
        "volatility": (normal(98) * np.exp((walk - 1) / 2),),
        "gaussian process": (np.linalg.cholesky(smooth), rng.poisson(np.exp(1 + np.sin(6 * grid)))),
        "horseshoe": (sparse, sparse[:, 0] - sparse[:, 1] + normal(60)),
    }


def single(data: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Floating point in the precision of NumPyro."""
    return tuple(part.astype(np.float32) if part.dtype == float else part for part in data)


DATA = {"schools": (EFFECTS, ERRORS), "schools, centred": (EFFECTS, ERRORS), "funnel": ()} | simulate()
# The scale that the prior of a site has when it is mistyped, and whether the posterior is near Gaussian.
KNOWN = {
    "schools": (schools, 25.0, "tau", False),
    "logistic": (logistic, 0.1, "beta", True),
    "robust": (robust, 0.05, "sigma", True),
    "counts": (counts, 0.1, "beta", True),
    "simplex": (simplex, 20.0, "share", True),
    "ordinal": (ordinal, 0.1, "beta", True),
    "autoregression": (autoregression, 0.05, "mu", True),
    "mixed": (mixed, 0.1, "spread", True),
    "volatility": (volatility, 0.02, "sigma", False),
    "gaussian process": (gaussian_process, 0.1, "height", False),
    "schools, centred": (schools_centred, 25.0, "tau", False),
    "funnel": (funnel, 1.5, "v", False),
    "horseshoe": (horseshoe, 1.0, "tau", False),
}
POSTERIORS = {
    name: Posterior(model, single(DATA[name]), {"scale": scale}, site, near_gaussian)
    for name, (model, scale, site, near_gaussian) in KNOWN.items()
}
