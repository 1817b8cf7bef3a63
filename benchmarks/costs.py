"""`python -m benchmarks.costs`: time and memory of discrepancies and particle steps as N and D grow.

The paper's appendix on cost (label "APP: computational memory cost"), measured. Single precision, two cores; memory is
what XLA reserves beyond inputs and outputs. `benchmarks/results/costs.jsonl` holds a line per cell.
"""

import functools
import json

import jax
import jax.numpy as jnp
import optax

import slicestein as ss
from benchmarks.__main__ import RESULTS
from benchmarks.methods import timed

SIZES = ((500, 10), (500, 100), (2000, 100), (2000, 500), (8000, 100))
DENSE_LIMIT = 2000 * 2000 * 100  # elements of the D x N x N array
METHODS = ("ksd", "sksd", "sksd, dense", "svgd step", "s-svgd step")


def dense_sksd(x):
    """V-statistic with r = g = the axes over D x N x N pairs, as it is usually written; the bandwidth is given."""
    t, h = x.T, 1.0
    tau = (t[:, :, None] - t[:, None, :]) / h
    k = jnp.exp(-0.5 * tau**2)
    a, b = -t[:, :, None], -t[:, None, :]
    return jnp.mean((a * b + (a - b) * tau / h + (1 - tau**2) / h**2) * k, axis=(1, 2)).sum()


def functions(count: int, dim: int):
    """Name and function of samples (N, D)."""
    yield "ksd", lambda x: ss.ksd(x, -x)
    yield "sksd", lambda x: ss.sksd(x, -x, ss.Slices.basis(dim), statistic="v")
    if count**2 * dim <= DENSE_LIMIT:
        yield "sksd, dense", dense_sksd
    one_basis = functools.partial(ss.sliced_svgd, basis="axes")  # as in the paper
    for name, method in (("svgd step", ss.svgd), ("s-svgd step", one_basis)):
        algorithm = method(lambda x: -x, optax.sgd(0.1))
        yield name, lambda x, algorithm=algorithm: algorithm.step(algorithm.init(x))[0].particles


def report(rows: list[dict]) -> str:
    lines = ["| N | D | " + " | ".join(METHODS) + " |", "| --- | --- |" + " --- |" * len(METHODS)]
    for n, d in SIZES:
        found = {r["method"]: f"{r['ms']:.1f} ms, {r['megabytes']:.1f} MB" for r in rows if (r["n"], r["d"]) == (n, d)}
        lines.append(f"| {n} | {d} | " + " | ".join(found.get(m, "") for m in METHODS) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = []
    for n, d in SIZES:
        x = jax.random.normal(jax.random.key(0), (n, d))
        for method, fn in functions(n, d):
            compiled = jax.jit(fn).lower(x).compile()
            temporary = compiled.memory_analysis().temp_size_in_bytes
            found = timed(lambda compiled=compiled, x=x: compiled(x), repeats=5)
            rows.append({"method": method, "n": n, "d": d, "ms": 1e3 * found["seconds"], "megabytes": temporary / 1e6})
            print(json.dumps(rows[-1]), flush=True)
    (RESULTS / "costs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (RESULTS / "costs.md").write_text(report(rows))
    print(report(rows))


if __name__ == "__main__":
    main()
