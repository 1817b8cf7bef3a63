"""Fit an energy-based model of your own: a network as log-density of points in the plane, no normalising constant.

Trained by KSD, which needs only the score of the model; drawn beside the data in energy_model.png. With maxSKSD, which
has two slices in the plane, a bright bridge is left between the moons: its place is in many dimensions.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import slicestein as ss


def two_moons(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle, upper = np.pi * rng.uniform(size=count), rng.integers(0, 2, count)
    arcs = np.stack([np.cos(angle) + upper - 0.5, (1 - 2 * upper) * np.sin(angle) + 0.5 * upper - 0.25], axis=1)
    return arcs + 0.12 * rng.standard_normal((count, 2))


def init(key, width: int = 64) -> list:
    sizes = [(2, width), (width, width), (width, 1)]
    return [
        {"w": jax.random.normal(k, size) / jnp.sqrt(size[0]), "b": jnp.zeros(size[1])}
        for k, size in zip(jax.random.split(key, 3), sizes, strict=True)
    ]


def log_density(params: list, x):
    """A network on top of a wide Gaussian, which keeps the density integrable."""
    h = x
    for layer in params[:-1]:
        h = jax.nn.silu(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0] - 0.1 * jnp.sum(x**2)


def train(steps: int = 5000) -> tuple[np.ndarray, list]:
    """Data, and the parameters of a model that was fitted to them."""
    data = two_moons(5000)
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, steps))
    method = ss.learning.ksd(ss.learning.score_from(log_density), optimizer, kernel=ss.RBF(scale=0.3))
    return data, ss.learning.fit(method, init(jax.random.key(0)), data, steps, key=1, batch_size=500).params


def normalised(params: list, x) -> np.ndarray:
    """Log-density with its constant, which in the plane can be computed."""
    axis = np.linspace(-2.5, 2.5, 200)
    values = jax.vmap(log_density, (None, 0))(params, np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
    log_constant = jax.nn.logsumexp(values) + 2 * np.log(axis[1] - axis[0])
    return jax.vmap(log_density, (None, 0))(params, x) - log_constant


def draw(data: np.ndarray, params: list) -> plt.Figure:
    """Data and density side by side."""
    axis = np.linspace(-2.5, 2.5, 200)
    density = jnp.exp(normalised(params, np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)))
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.7), layout="constrained", sharex=True, sharey=True)
    left.scatter(*data[:2000].T, s=2, color="#0072B2")
    left.set(title="data", aspect="equal")
    right.imshow(density.reshape(200, 200), origin="lower", extent=(-2.5, 2.5, -2.5, 2.5))
    right.set(title="density of the model")
    return fig


if __name__ == "__main__":
    data, params = train()
    print(f"mean log-density of fresh points: {normalised(params, two_moons(5000, seed=1)).mean():.2f}")
    draw(data, params).savefig("energy_model.png", dpi=110)
