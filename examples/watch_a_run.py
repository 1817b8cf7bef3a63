"""Watch a sampler while it runs: four chains of BlackJAX, a look when the draws have doubled, a stop when it is wrong.

The first sampler takes every proposal, and its step is too long for that; the second one accepts or rejects.
"""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import slicestein as ss

SCALES = jnp.array([0.2, 1.0, 1.0, 1.0, 5.0])
NAMES = ["narrow", "a", "b", "c", "wide"]
STEP = 0.02
CHAINS, DRAWS, THIN, PARTS = 4, 250, 20, 32


def log_density(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2)


def every_proposal():
    """Langevin dynamics without a correction: the state is the position."""
    kernel = blackjax.sgld(lambda x, _: jax.grad(log_density)(x))
    return (lambda x: x), (lambda key, x: kernel.step(key, x, None, STEP)), (lambda x: x)


def mala():
    kernel = blackjax.mala(log_density, STEP)
    return kernel.init, (lambda key, state: kernel.step(key, state)[0]), (lambda state: state.position)


def watch(init, step, position) -> None:
    @jax.jit
    def advance(key, states):
        def draw(state, key):
            state = jax.lax.scan(lambda s, k: (step(k, s), None), state, jax.random.split(key, THIN))[0]
            return state, position(state)

        keys = jax.random.split(key, (CHAINS, DRAWS))
        return jax.vmap(lambda state, keys: jax.lax.scan(draw, state, keys))(states, keys)

    states = jax.vmap(init)(SCALES * jax.random.normal(jax.random.key(0), (CHAINS, 5)))
    monitor = ss.gof.Monitor(ss.score_from(log_density), key=0, names=NAMES)
    for part, key in enumerate(jax.random.split(jax.random.key(1), PARTS), 1):
        states, draws = advance(key, states)
        monitor.update(np.asarray(draws))
        if part == 1 or part & (part - 1):
            continue  # the first thousand draws choose what is looked at; then look at 2, 4, 8, ... parts
        result = monitor.verdict()
        print(f"{result.num_test} draws: {result.verdict} (p = {result.pvalue:.2g}, level {result.alpha:.2g})")
        if monitor.rejected:
            print(result)
            break


if __name__ == "__main__":
    for name, sampler in (("every proposal is taken", every_proposal), ("MALA", mala)):
        print(f"== {name}")
        watch(*sampler())
