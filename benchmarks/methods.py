"""`python -m benchmarks.methods`: time of tests, particle and training steps, each beside what it is measured against.

Single precision, two cores. `benchmarks/results/methods.jsonl` holds a line per timing, `methods.md` the table. The
peers BlackJAX and NumPyro are timed where they are installed.
"""

import importlib.util
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

import slicestein as ss
from benchmarks.__main__ import RESULTS
from slicestein._stein import bandwidths
from slicestein.learning._training import trainer
from slicestein.samplers._svgd import force as svgd_force


def timed(fn, repeats: int = 9) -> dict:
    """Seconds of the first call, and the median of the others."""
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        jax.block_until_ready(fn())
        seconds.append(time.perf_counter() - start)
    return {"first": round(seconds[0], 3), "seconds": round(float(np.median(seconds[1:])), 5)}


def tests():
    """Whole goodness-of-fit tests: split, choice of slices, 1000 bootstrap draws."""
    x = np.random.default_rng(0).standard_normal((1000, 100)).astype(np.float32)
    for method in ("ksd", "maxsksd-g", "maxsksd-rg"):
        yield {"what": "test", "method": method, "n": 1000, "d": 100} | timed(
            lambda method=method: ss.gof_test(x, -x, key=0, method=method).null_distribution
        )


def svgd_steps():
    """One step of SVGD with 1000 particles in 100 dimensions, here and elsewhere; steps in a compiled loop of ten."""
    x = jax.random.normal(jax.random.key(0), (1000, 100))
    log_density, optimizer = lambda z: -0.5 * jnp.sum(z**2), optax.sgd(0.1)

    def ten(step, state):
        loop = jax.jit(lambda z: jax.lax.fori_loop(0, 10, lambda _, s: step(s), z))
        found = timed(lambda: loop(state), repeats=5)
        return {"n": 1000, "d": 100, "first": found["first"], "seconds": found["seconds"] / 10}

    for name, rule in (("slicestein", "median"), ("slicestein, median/log n", "median/log n")):
        method = ss.svgd(ss.score_from(log_density), optimizer, bandwidth_rule=rule)
        yield {"what": "svgd step", "method": name} | ten(lambda s, m=method: m.step(s)[0], method.init(x))
    if importlib.util.find_spec("blackjax"):
        import blackjax

        peer = blackjax.svgd(jax.grad(log_density), optimizer)
        yield {"what": "svgd step", "method": "blackjax"} | ten(peer.step, peer.init(x))
    if importlib.util.find_spec("numpyro"):
        import numpyro
        from numpyro.contrib.einstein import RBFKernel, SteinVI
        from numpyro.infer.autoguide import AutoDelta
        from numpyro.optim import SGD

        def model():
            numpyro.sample("z", numpyro.distributions.Normal(0, 1).expand([100]).to_event(1))

        peer = SteinVI(model, AutoDelta(model), SGD(0.1), RBFKernel(), num_stein_particles=1000)
        state = peer.init(jax.random.key(0))
        yield {"what": "svgd step", "method": "numpyro"} | ten(lambda s: peer.update(s)[0], state)


def sliced_steps():
    """The force of S-SVGD on 5000 particles in 50 dimensions, against all pairs of every slice in plain JAX."""
    x = jax.random.normal(jax.random.key(0), (5000, 50))

    @jax.jit
    def dense(x):
        def coordinate(t):
            h = jnp.median(jnp.abs(t[:250, None] - t[:250]))  # the same rule for the bandwidth, up to the subset
            tau = (t - t[:, None]) / h
            kernel = jnp.exp(-0.5 * tau**2)
            return jnp.mean(-t * kernel - tau / h * kernel, axis=1)

        return jax.lax.map(coordinate, x.T).T

    yield {"what": "s-svgd force", "method": "dense", "n": 5000, "d": 50} | timed(lambda: dense(x), repeats=3)
    method = ss.sliced_svgd(lambda x: -x, optax.sgd(0.1), basis="axes")  # one basis, as the dense sum has
    state = method.init(x)
    yield {"what": "s-svgd force", "method": "slicestein, whole step", "n": 5000, "d": 50} | timed(
        lambda: method.step(state)
    )
    full = jax.jit(lambda x: svgd_force(x, -x, ss.RBF()).total)
    yield {"what": "s-svgd force", "method": "svgd", "n": 5000, "d": 50} | timed(lambda: full(x), repeats=3)


def training_steps():
    """One step of maxSKSD-g on an ICA model, batch of 100 in 200 dimensions, against all pairs of every slice."""
    x = jax.random.normal(jax.random.key(0), (100, 200))
    score, optimizer = lambda a, x: -jnp.sign(x @ a.T) @ a, optax.adam(1e-3)
    kernel = ss.RBF(scale=1.5)

    def dense(critic, x, s, _):
        t, a, c = (critic["g"] @ x.T)[:, :, None], s.T[:, :, None], jnp.diag(critic["g"])[:, None, None]
        h = bandwidths.on_lines(kernel, t[:, :, 0])[:, None, None]
        tau, c, b = (t - t.transpose(0, 2, 1)) / h, c / h, a.transpose(0, 2, 1)
        k = jnp.exp(-0.5 * tau**2)
        return jnp.sum((a * b + c * (a - b) * tau + c**2 * (1 - tau**2)) * k) / x.shape[0] ** 2

    rows_of_one = lambda critic: {"g": critic["g"] / jnp.linalg.norm(critic["g"], axis=1, keepdims=True)}
    plain = trainer(
        score,
        optimizer,
        dense,
        init_critic=lambda x: {"g": jnp.eye(x.shape[1], dtype=x.dtype)},
        critic_optimizer=optax.adam(3e-3),
        retract=rows_of_one,
    )
    for name, method in (("slicestein", ss.learning.maxsksd(score, optimizer)), ("dense", plain)):
        state = method.init(jnp.eye(200), x)
        yield {"what": "training step", "method": name, "n": 100, "d": 200} | timed(
            lambda method=method, state=state: method.step(state, x, jax.random.key(1))
        )


def report(rows: list[dict]) -> str:
    base = {
        "test": "ksd",
        "svgd step": "slicestein",
        "s-svgd force": "slicestein, whole step",
        "training step": "slicestein",
    }
    lines = ["| what | N | D | method | first call, s | ms | ratio |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        unit = next(r["seconds"] for r in rows if (r["what"], r["method"]) == (row["what"], base[row["what"]]))
        numbers = f"{row['first']:.2f} | {1e3 * row['seconds']:.1f} | {row['seconds'] / unit:.2f}"
        lines.append(f"| {row['what']} | {row['n']} | {row['d']} | {row['method']} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = []
    for source in (tests, svgd_steps, sliced_steps, training_steps):
        for row in source():
            rows.append(row)
            print(json.dumps(row), flush=True)
    (RESULTS / "methods.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (RESULTS / "methods.md").write_text(report(rows))
    print(report(rows))


if __name__ == "__main__":
    main()
