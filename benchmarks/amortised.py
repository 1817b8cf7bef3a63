"""Time of one training step of the VAE experiment, method by method: ``python -m benchmarks.amortised [--dim 32]``.

Blocks of steps of all methods take turns in one process on one core; the least time of a block counts, in CPU seconds,
so that other work on the machine does not. Encoder, score, particle step and decoder are all inside.
"""

import argparse
import json
import time


def measure(dim: int = 32, samples: int = 10, steps: int = 20, repeats: int = 8) -> dict[str, float]:
    """CPU seconds per step of each method, and the ratio of S-SVGD to SVGD."""
    import jax
    import numpy as np

    from experiments import vae, vae_networks, vae_training

    pixels = jax.numpy.asarray(np.random.default_rng(0).integers(0, 256, (5_000, vae_networks.PIXELS), dtype=np.uint8))
    running, seconds = {}, {method: [] for method in vae.METHODS}
    for method in vae.METHODS:
        init, step, _ = vae_training.functions(method, samples)
        state = jax.jit(init)(*vae_networks.init(jax.random.key(0), method, dim))
        running[method] = (vae_training.epoch_function(step), state)
    for repeat in range(repeats + 1):
        for method, (epoch, state) in running.items():
            begin = time.process_time()
            state, _ = jax.block_until_ready(epoch(state, pixels, jax.random.key(repeat), steps))
            running[method] = (epoch, state)
            if repeat:  # the first includes compilation
                seconds[method].append((time.process_time() - begin) / steps)
    found = {method: min(times) for method, times in seconds.items()}
    return {"dim": dim, "samples": samples, **found, "ratio": found["s-svgd"] / found["svgd"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--samples", type=int, default=10)
    options = parser.parse_args()
    from experiments.runner import _single_threaded

    _single_threaded()  # before JAX is imported
    print(json.dumps(measure(options.dim, options.samples)))


if __name__ == "__main__":
    main()
