"""Images whose lower half is missing: pseudo-Gibbs sampling with an encoder and a decoder (table "Label entropy").

In turn: z from the encoder of the whole image, pixels from the decoder, of which the missing ones are kept. Each result
is labelled by its nearest neighbour among the training images: the observed half in grey levels, the other half as the
means of the last decoder step. Dropout stays on in the implicit encoder: it is part of its noise.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments import vae_networks

SIDE = 28
MISSING = np.arange(SIDE * SIDE) >= SIDE * SIDE // 2


@functools.partial(jax.jit, static_argnames=("method", "chains", "steps"))
def impute(encoder, decoder, x, key, *, method: str, chains: int, steps: int):
    """Means of the pixels (B, chains, 784) after a number of steps, for binary images x (B, 784)."""
    sample = vae_networks.samples(method)
    x = jnp.repeat(x, chains, axis=0)
    start_key, key = jax.random.split(key)
    guess = jax.random.bernoulli(start_key, 0.5, x.shape).astype(x.dtype)

    def step(state, key):
        x, _ = state
        latent_key, pixel_key = jax.random.split(key)
        z = sample(encoder, x, latent_key, 1)[:, 0]
        mean = jax.nn.sigmoid(vae_networks.apply(decoder, z))
        pixels = (jax.random.uniform(pixel_key, mean.shape) < mean).astype(x.dtype)
        return (jnp.where(MISSING, pixels, x), mean), None

    start = (jnp.where(MISSING, guess, x), guess)
    (_, mean), _ = lax.scan(step, start, jax.random.split(key, steps))
    return mean.reshape(-1, chains, mean.shape[1])


def nearest_labels(images, train_images, train_labels, block: int = 500) -> np.ndarray:
    """Labels of the nearest training images, by the Euclidean distance of grey levels in [0, 1]."""
    train = jnp.asarray(train_images, jnp.float32)
    square = jnp.einsum("nd,nd->n", train, train)
    rows = [_nearest(images[i : i + block], train, square) for i in range(0, len(images), block)]
    return np.asarray(train_labels)[np.concatenate(rows)]


@jax.jit
def _nearest(images, train, square):
    """Indices of the nearest rows of train. They are an argument: as a constant the program would copy them twice."""
    return jnp.argmin(square - 2 * images @ train.T, axis=1)


def entropy_and_accuracy(labels: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Entropy of the labels of an image's chains, averaged over images, and the fraction of right ones."""
    share = np.stack([(labels == digit).mean(1) for digit in range(10)], axis=1)
    entropy = -np.sum(share * np.log(np.where(share > 0, share, 1)), axis=1)
    return float(entropy.mean()), float(np.mean(labels == truth[:, None]))


def evaluate(encoder, decoder, data: dict, binary, key, *, method: str, images: int, chains: int, steps: int):
    """Entropy, accuracy, and the imputed images (images, chains, 784) of the first test images."""
    grey = data["x_test"][:images].reshape(images, -1) / np.float32(255)
    mean = impute(encoder, decoder, binary[:images], key, method=method, chains=chains, steps=steps)
    whole = np.where(MISSING, np.asarray(mean), grey[:, None])
    train = data["x_train"].reshape(len(data["x_train"]), -1) / np.float32(255)
    labels = nearest_labels(whole.reshape(-1, whole.shape[2]), train, data["y_train"]).reshape(images, chains)
    return *entropy_and_accuracy(labels, data["y_test"][:images]), whole
