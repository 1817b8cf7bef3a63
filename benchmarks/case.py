"""One benchmark case in a process of its own: JSON in, JSON out."""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import slicestein as ss
from slicestein._stein import compiled as _compiled

jax.config.update("jax_enable_x64", True)


def added_memory(fn: Callable[[], object]) -> float:
    """Peak of resident memory during a call, in MB above what was resident before (Linux)."""

    def status(field: str) -> float:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) / 1024

    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = status("VmRSS")
    fn()
    return status("VmHWM") - before


def timed(fn: Callable, *args, seconds: float = 1.5) -> tuple[float, float]:
    """Time of the first call and median time of the following ones."""
    start = time.perf_counter()
    jax.block_until_ready(fn(*args))
    first = time.perf_counter() - start
    times: list[float] = []
    while len(times) < 3 or (sum(times) < seconds and len(times) < 50):
        start = time.perf_counter()
        jax.block_until_ready(fn(*args))
        times.append(time.perf_counter() - start)
    return first, statistics.median(times)


WIDTH = 1.0  # the dense version is timed without a median rule: sorting pairs would dominate it


def dense(x, s, slices):
    """All pairs of a slice at once, left to XLA to fuse: what one would write without the package."""

    def one_slice(r, g):
        t, a, c = x @ g, s @ r, r @ g
        tau = (t[:, None] - t) / WIDTH
        k = jnp.exp(-0.5 * tau**2)
        pairs = a[:, None] * a * k - c / WIDTH * (a - a[:, None]) * tau * k - (c / WIDTH) ** 2 * (tau**2 - 1) * k
        n = len(t)
        return (pairs.sum() - jnp.sum(a**2 + (c / WIDTH) ** 2)) / (n * (n - 1))

    return jax.lax.map(lambda rg: one_slice(*rg), (slices.r, slices.g)).sum()


def speed(method: str, n: int, d: int, derivative: bool) -> dict:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((n, d)))
    s, slices = -1.1 * x, ss.Slices.random(1, d, d)
    if method == "portable":
        _compiled.AVAILABLE = False

    def value(x, s, slices):
        if method == "dense":
            return dense(x, s, slices)
        return ss.sksd(x, s, slices, engine="exact" if method == "exact" else "fourier")

    if derivative:
        run = jax.jit(jax.value_and_grad(lambda slices, x, s: value(x, s, slices)))
        args = (slices, x, s)
    else:
        run, args = jax.jit(value), (x, s, slices)
    memory = added_memory(lambda: jax.block_until_ready(run(*args)))
    jax.clear_caches()
    first, seconds = timed(run, *args)
    _, product = timed(jax.jit(lambda x, g: x @ g.T), x, slices.g, seconds=0.5)
    return {"compile": first - seconds, "seconds": seconds, "product": product, "memory_mb": memory}


DATA = {
    "gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "laplace": lambda rng, n, d: rng.laplace(size=(n, d)),
    "t5": lambda rng, n, d: rng.standard_t(5, size=(n, d)),
    "bimodal": lambda rng, n, d: rng.standard_normal((n, d)) + 5 * rng.choice([-1.0, 1.0], size=(n, 1)),
    "duplicated": lambda rng, n, d: np.repeat(rng.standard_normal((n // 2, d)), 2, axis=0),
}


def outlier(rng, n, d):
    """One sample 1000 bandwidths away along every slice: the median gap of a normal is about 0.95."""
    x = rng.standard_normal((n, d))
    x[0] += 954
    return x


DATA["outlier"] = outlier


def accuracy(data: str, n: int, d: int, dtype: str) -> dict:
    """Largest difference of the engines over slices, relative to V; the exact one in double precision."""
    x = DATA[data](np.random.default_rng(2), n, d)
    slices = ss.Slices.random(3, d, d) if data != "outlier" else ss.Slices.basis(d)

    def cast(z):
        return jax.tree.map(lambda a: jnp.asarray(a, dtype), z)

    def values(engine, statistic, x, slices):
        return ss.sksd(x, -x / 1.3, slices, engine=engine, statistic=statistic, per_slice=True)

    exact = {statistic: values("exact", statistic, x, slices) for statistic in "uv"}
    fast = {statistic: values("fourier", statistic, cast(x), cast(slices)) for statistic in "uv"}
    row = {
        f"error_{statistic}": float(jnp.max(jnp.abs(exact[statistic] - fast[statistic]) / exact["v"]))
        for statistic in "uv"
    }
    if d > 1:  # in one dimension a direction cannot move
        one = jax.grad(lambda z: values("exact", "v", x, ss.Slices(z.r, z.g)).sum())(slices)
        other = jax.grad(lambda z: values("fourier", "v", cast(x), ss.Slices(z.r, z.g)).sum())(cast(slices))
        for name in "rg":
            a, b = getattr(one, name), getattr(other, name)
            row[f"error_grad_{name}"] = float(jnp.linalg.norm(a - b) / jnp.linalg.norm(a))
    return row


def tails(n: int, d: int) -> dict:
    """Cauchy samples against the same number of Gaussian ones."""
    rng = np.random.default_rng(4)
    slices = ss.Slices.basis(d)
    run = jax.jit(lambda x, s, slices: ss.sksd(x, s, slices, engine="fourier", per_slice=True, statistic="v"))
    cauchy, gaussian = (jnp.asarray(draw) for draw in (rng.standard_cauchy((n, d)), rng.standard_normal((n, d))))
    score = -2 * cauchy / (1 + cauchy**2)
    _, heavy = timed(run, cauchy, score, slices)
    _, light = timed(run, gaussian, -gaussian, slices)
    two = ss.Slices(slices.r[:2], slices.g[:2])
    exact = ss.sksd(cauchy, score, two, engine="exact", per_slice=True, statistic="v")
    error = jnp.max(jnp.abs(run(cauchy, score, slices)[:2] - exact) / exact)
    return {"seconds": heavy, "gaussian_seconds": light, "error_v": float(error)}


if __name__ == "__main__":
    case = json.loads(sys.argv[1])
    kind = {"speed": speed, "accuracy": accuracy, "tails": tails}[case["case"]]
    print(json.dumps(case | kind(**{k: v for k, v in case.items() if k != "case"})))
