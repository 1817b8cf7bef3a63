"""Networks of the VAE experiment, as plain pytrees of single-precision arrays: encoders, decoder, their densities.

An image is a row of 784 zeros and ones. The implicit encoder sees it with Gaussian noise of the latent size
beside it, and drops 0.3 of its units: K samples per image share what the first layer makes of the image.
"""

import jax
import jax.numpy as jnp

PIXELS, HIDDEN, DROPOUT = 784, (300, 200), 0.3


def layers(key, sizes: tuple[int, ...]) -> list[dict]:
    """Weights with variance 2 / inputs (ReLU), biases zero."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (m, n), jnp.float32) * (2 / m) ** 0.5, "b": jnp.zeros(n, jnp.float32)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def init(key, method: str, dim: int) -> tuple[list[dict], list[dict]]:
    """Parameters of the encoder and of the decoder."""
    encoder_key, decoder_key = jax.random.split(key)
    outside = (PIXELS, 2 * dim) if method == "vae" else (PIXELS + dim, dim)
    encoder = layers(encoder_key, (outside[0], *HIDDEN, outside[1]))
    encoder[-1]["w"] /= 2**0.5  # no ReLU follows
    return encoder, layers(decoder_key, (dim, *HIDDEN[::-1], PIXELS))


def apply(network: list[dict], h):
    for layer in network[:-1]:
        h = jax.nn.relu(h @ layer["w"] + layer["b"])
    return h @ network[-1]["w"] + network[-1]["b"]


def gaussian_encoder(params, x):
    """Mean and log-variance of the Gaussian encoder, each (B, D)."""
    return jnp.split(apply(params, x), 2, axis=-1)


def drop(key, h):
    bits = jax.random.bits(key, h.shape, "uint16")  # half the random bits of a float; 0.3 to four digits
    return jnp.where(bits < round(DROPOUT * 2**16), 0, h / (1 - DROPOUT))


def implicit_samples(params, x, key, count: int):
    """Latent samples (B, count, D) of the implicit encoder."""
    noise_key, *keys = jax.random.split(key, 3)
    first, second, last = params
    dim = last["b"].shape[0]
    noise = jax.random.normal(noise_key, (x.shape[0] * count, dim), jnp.float32)
    seen = jnp.repeat(x @ first["w"][:PIXELS] + first["b"], count, axis=0)
    h = drop(keys[0], jax.nn.relu(seen + noise @ first["w"][PIXELS:]))
    h = drop(keys[1], jax.nn.relu(h @ second["w"] + second["b"]))
    return (h @ last["w"] + last["b"]).reshape(x.shape[0], count, dim)


def gaussian_samples(params, x, key, count: int):
    """Latent samples (B, count, D) of the Gaussian encoder."""
    mean, log_variance = gaussian_encoder(params, x)
    noise = jax.random.normal(key, (x.shape[0], count, mean.shape[1]), mean.dtype)
    return mean[:, None] + jnp.exp(0.5 * log_variance)[:, None] * noise


def samples(method: str):
    """The encoder of a method as a sampler: ``(params, x, key, count) -> (B, count, D)``."""
    return gaussian_samples if method == "vae" else implicit_samples


@jax.custom_vjp
def log_bernoulli(logits, x):
    """Log-likelihood of pixels x under logits, summed over the last axis; its gradient needs one sigmoid."""
    return jnp.sum(x * logits - jax.nn.softplus(logits), axis=-1)


def _forward(logits, x):
    return log_bernoulli(logits, x), (logits, x)


def _backward(saved, cotangent):
    logits, x = saved
    return cotangent[..., None] * (x - jax.nn.sigmoid(logits)), None


log_bernoulli.defvjp(_forward, _backward)


def log_likelihood(decoder, z, x):
    """log p(x | z) for z (B, K, D) and x (B, 784), of shape (B, K)."""
    return log_bernoulli(apply(decoder, z.reshape(-1, z.shape[-1])).reshape(*z.shape[:2], -1), x[:, None])


def score(z, x, decoder):
    """Gradient in z of log p(x, z), the prior being N(0, I)."""
    return jax.grad(lambda z: log_likelihood(decoder, z, x).sum())(z) - z
