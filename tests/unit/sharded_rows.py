"""Run by test_devices.py in a process with two host devices: prints what rows that are spread over them give."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax

import slicestein as ss

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows", None))
x = jax.random.normal(jax.random.key(0), (2048, 6))
here, there = (x, -x), (jax.device_put(x, spread), jax.device_put(-x, spread))


def loss(x, s):
    return ss.sksd(x, s, ss.Slices.basis(6), engine="fourier", statistic="v")


value, gradient = jax.jit(loss), jax.jit(jax.grad(loss))
algorithm = ss.sliced_svgd(lambda x: -x, optax.adam(0.05))
step = jax.jit(algorithm.step)
particles = []
for start in (here[0][:256], jax.device_put(here[0][:256], spread)):
    state = algorithm.init(start)
    for _ in range(3):
        state, _ = step(state)
    particles.append(np.asarray(state.particles))
program = gradient.lower(*there).compile().as_text()
gathered = [
    int(np.prod([int(n) for n in shape.split(",")]))
    for shape in re.findall(r"= f32\[([\d,]+)\]\S* all-gather", program)
]
print(
    json.dumps(
        {
            "devices": len(jax.devices()),
            "values": [float(value(*here)), float(value(*there))],
            "gradient": float(jnp.abs(gradient(*here) - gradient(*there)).max() / jnp.abs(gradient(*here)).max()),
            "stays_spread": not gradient(*there).sharding.is_fully_replicated,
            "gathered": max(gathered, default=0),
            "particles": float(np.abs(particles[0] - particles[1]).max()),
        }
    )
)
