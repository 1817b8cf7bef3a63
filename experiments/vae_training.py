"""Training of the VAE experiment: one method, one latent size, whole epochs inside one compiled loop.

A checkpoint after every epoch (experiments/checkpoints/, not committed) lets a run that was killed go on.
"""

import functools
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import slicestein as ss
from experiments import runner, vae_networks
from slicestein.learning import amortised_sliced_svgd, amortised_svgd

BATCH, LEARNING_RATE, STEP_SIZE = 100, 1e-3, 0.1
KERNEL_SCALES = {"svgd": 1.0, "svgd-narrow": 0.35, "s-svgd": 0.35, "s-svgd-median": 1.0}
CHECKPOINTS = runner.HERE / "checkpoints"
HISTORY = ("spread", "seconds", "cpu_seconds", "watched")  # of every epoch
WATCH_EVERY = 5  # epochs


def binarise(key, pixels):
    """Fresh zeros and ones whose means are grey levels 0 to 255."""
    bits = jax.random.bits(key, pixels.shape, "uint16")
    return (bits < pixels.astype(jnp.uint16) * 257).astype(jnp.float32)


def stein_step(method: str, count: int):
    """Functions that start and update encoder and decoder by amortised SVGD or S-SVGD."""
    make = amortised_sliced_svgd if method.startswith("s-svgd") else amortised_svgd
    sample = functools.partial(vae_networks.implicit_samples, count=count)
    optimizer, kernel = optax.adam(LEARNING_RATE), ss.RBF(scale=KERNEL_SCALES[method])
    encoder = make(sample, vae_networks.score, optimizer, step_size=STEP_SIZE, kernel=kernel)

    def init(params, decoder):
        return (
            encoder.init(params, jnp.zeros((BATCH, vae_networks.PIXELS), jnp.float32)),
            decoder,
            optimizer.init(decoder),
        )

    def step(state, x, key):
        encoder_state, decoder, memory = state
        encoder_state, info, moved = encoder.step(encoder_state, x, key, decoder)
        loss = lambda decoder: -vae_networks.log_likelihood(decoder, moved, x).mean()
        updates, memory = optimizer.update(jax.grad(loss)(decoder), memory)
        return (encoder_state, optax.apply_updates(decoder, updates), memory), info.spread

    return init, step, lambda state: (state[0].params, state[1])


def elbo_step(count: int):
    """The same for the usual VAE: Gaussian encoder, evidence lower bound, KL in closed form."""
    optimizer = optax.adam(LEARNING_RATE)

    def init(params, decoder):
        return (params, decoder), optimizer.init((params, decoder))

    def loss(networks, x, key):
        params, decoder = networks
        mean, log_variance = vae_networks.gaussian_encoder(params, x)
        noise = jax.random.normal(key, (x.shape[0], count, mean.shape[1]), mean.dtype)
        z = mean[:, None] + jnp.exp(0.5 * log_variance)[:, None] * noise
        divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1 - log_variance, axis=1)
        spread = jnp.sqrt(jnp.exp(log_variance).mean())
        return divergence.mean() - vae_networks.log_likelihood(decoder, z, x).mean(), spread

    def step(state, x, key):
        networks, memory = state
        gradient, spread = jax.grad(loss, has_aux=True)(networks, x, key)
        updates, memory = optimizer.update(gradient, memory)
        return (optax.apply_updates(networks, updates), memory), spread

    return init, step, lambda state: state[0]


def functions(method: str, count: int):
    """``init(encoder, decoder) -> state``, ``step(state, x, key) -> (state, spread)``, ``networks(state)``."""
    return elbo_step(count) if method == "vae" else stein_step(method, count)


def epoch_function(step, batch: int = BATCH):
    """One pass over shuffled, freshly binarised images, or its first ``num_steps`` batches."""

    @functools.partial(jax.jit, static_argnames="num_steps", donate_argnums=0)
    def epoch(state, pixels, key, num_steps):
        order_key, key = jax.random.split(key)
        order = jax.random.permutation(order_key, pixels.shape[0])[: num_steps * batch].reshape(num_steps, batch)

        def one(state, inputs):
            rows, key = inputs
            pixel_key, step_key = jax.random.split(key)
            return step(state, binarise(pixel_key, pixels[rows]), step_key)

        return lax.scan(one, state, (order, jax.random.split(key, num_steps)))

    return epoch


def train(name: str, method: str, dim: int, count: int, epochs: int, seed: int, pixels, steps_per_epoch: int, watch):
    """Train, or go on from the last checkpoint; returns encoder, decoder and a history with one entry per epoch.

    ``watch(decoder)``, a number, is noted every few epochs; it is NaN in the others.
    """
    init_key, key = jax.random.split(jax.random.key(seed))
    init, step, networks = functions(method, count)
    state = jax.jit(init)(*vae_networks.init(init_key, method, dim))
    epoch = epoch_function(step)
    state, history = restore(name, state)
    pixels = jnp.asarray(pixels)
    for i in range(len(history["seconds"]), epochs):
        begin, cpu = time.perf_counter(), time.process_time()
        state, spread = epoch(state, pixels, jax.random.fold_in(key, i), steps_per_epoch)
        history["spread"].append(float(spread[-100:].mean()))
        history["seconds"].append(round(time.perf_counter() - begin, 2))
        history["cpu_seconds"].append(round(time.process_time() - cpu, 2))
        history["watched"].append(watch(networks(state)[1]) if (i + 1) % WATCH_EVERY == 0 else np.nan)
        save(name, state, history)
        left = history["seconds"][-1] * (epochs - i - 1)
        if epochs > 1:
            print(
                f"{name}: epoch {i + 1} of {epochs}, spread {history['spread'][-1]:.3f}, {left:.0f} s left", flush=True
            )
    return *networks(state), history


def save(name: str, state, history: dict) -> None:
    CHECKPOINTS.mkdir(exist_ok=True)
    leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    partial = CHECKPOINTS / f"{name}.partial.npz"
    np.savez(partial, **leaves, **{f"history_{k}": np.array(v) for k, v in history.items()})
    os.replace(partial, CHECKPOINTS / f"{name}.npz")  # never half a file


def restore(name: str, state):
    """The state and history of a checkpoint, or the given state and no history."""
    path = CHECKPOINTS / f"{name}.npz"
    if not path.exists():
        return state, {name: [] for name in HISTORY}
    with np.load(path, allow_pickle=False) as file:
        leaves, structure = jax.tree.flatten(state)
        found = [jnp.asarray(file[f"leaf{i}"]) for i in range(len(leaves))]
        history = {k: file[f"history_{k}"].tolist() for k in HISTORY}
    if [a.shape for a in found] != [a.shape for a in leaves]:
        raise ValueError(f"checkpoint {name} is of another network: delete it")
    return jax.tree.unflatten(structure, found), history
