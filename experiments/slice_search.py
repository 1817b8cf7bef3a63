"""Which part of the paper's search for slices gives its power: the steps, the optimiser, or what is climbed.

Two things can be climbed from random g, with r at the coordinate axes: the V-statistic (label "eq: maxSKSD"), or V in
units of its noise, the mean of h(x, x). Two ways: Adam on minibatches, or turns of a given first angle on all training
samples, the same for every slice. The test of the other samples is the same for all, but for the kind of bootstrap.

    python -m experiments.slice_search --preset smoke | quick | paper
"""

import functools
import time

import numpy as np

from experiments import runner
from experiments.gaussian_gof import PROBLEMS, draw

EPOCHS, BATCH, LEARNING_RATE = 1000, 50, 1e-3
SEARCHES = {  # what is climbed, how, and options
    "published": ("V", "Adam", {}),
    "published, signs": ("V", "Adam", {"bootstrap": "wild"}),
    "published, 250 epochs": ("V", "Adam", {"epochs": 250}),
    "published, 25 epochs": ("V", "Adam", {"epochs": 25}),
    "released": ("V", "Adam", {"start": "normal"}),
    "released, 1500 epochs": ("V", "Adam", {"start": "normal", "epochs": 1500}),
    "in units of noise": ("V / noise", "Adam", {}),
    "turns of 0.3, 100 steps": ("V / noise", "turns", {"steps": 100, "learning_rate": 0.3}),
    "turns of 0.3, 1000 steps": ("V / noise", "turns", {"steps": 1000, "learning_rate": 0.3}),
    "turns of 0.03, 1000 steps": ("V / noise", "turns", {"steps": 1000, "learning_rate": 0.03}),
}


def cells(preset: str) -> list[dict]:
    problems, dims, trials = {
        "smoke": (("laplace",), (5,), 1),
        "quick": (("laplace", "t", "diffusion"), (100,), 20),
        "paper": (PROBLEMS, (25, 50, 100), 100),
    }[preset]
    return [
        {"problem": problem, "d": d, "search": search, "seed": seed}
        for seed in range(trials)  # outermost: a run that is stopped has as many of every cell
        for d in dims
        for problem in problems
        for search in (("published, 25 epochs", "turns of 0.3, 100 steps") if preset == "smoke" else SEARCHES)
    ]


@functools.cache
def _climb_signal(dim: int):
    """The published search with V in units of its noise, compiled once for a dimension."""
    import jax
    import jax.numpy as jnp
    import optax

    import slicestein as ss

    optimizer = optax.adam(LEARNING_RATE, b1=0.9, b2=0.99)

    def loss(g, x, s):
        slices = ss.Slices(jnp.eye(dim), g)
        v, u = (ss.sksd(x, s, slices, statistic=statistic, per_slice=True) for statistic in "vu")
        noise = len(x) * v - (len(x) - 1) * u  # the mean of h(x, x)
        return -jnp.sum(v / noise)

    @jax.jit
    def climb(g, x, s, key):
        def step(state, batch):
            updates, memory = optimizer.update(jax.grad(loss)(state[0], x[batch], s[batch]), state[1])
            return (optax.apply_updates(state[0], updates), memory), None

        def epoch(state, key):
            return jax.lax.scan(step, state, jax.random.permutation(key, len(x)).reshape(-1, BATCH))

        return jax.lax.scan(epoch, (g, optimizer.init(g)), jax.random.split(key, EPOCHS))[0][0]

    return climb


def find(cell: dict, x: np.ndarray, s: np.ndarray):
    """Slices on training samples, and the kind of bootstrap."""
    import jax

    import slicestein as ss

    climbed, how, options = SEARCHES[cell["search"]]
    rng, dim = np.random.default_rng(cell["seed"]), cell["d"]
    if how == "turns":
        fit = ss.fit_slices(x, s, key=cell["seed"], init="random", hold_out=0.0, **options)
        return fit.slices, "multinomial"
    if climbed == "V":
        method = ss.gof.PublishedMaxSKSD(**options)
        return method.choose(x, s, rng), method.bootstrap
    g = rng.standard_normal((dim, dim))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    found = _climb_signal(dim)(g.astype(np.float32), x.astype(np.float32), s.astype(np.float32), jax.random.key(0))
    return ss.Slices(np.eye(dim), np.asarray(found)), "multinomial"


def work(cell: dict) -> dict:
    import slicestein as ss

    rng = np.random.default_rng([cell["seed"], cell["d"], PROBLEMS.index(cell["problem"])])
    x, score_fn, _ = draw(cell["problem"], rng, 1000, cell["d"])
    s = np.asarray(score_fn(x))
    start = time.process_time()
    slices, bootstrap = find(cell, x[:200], s[:200])
    seconds = time.process_time() - start
    method = ss.gof.MaxSKSD("g", slices=slices, bootstrap=bootstrap)
    result = ss.gof_test(x[200:], s[200:], key=cell["seed"], method=method)
    aligned = np.sum(np.asarray(slices.r) * np.asarray(slices.g), axis=1) ** 2
    return {
        "pvalue": result.pvalue,
        "statistic": result.statistic,
        "aligned": round(float(aligned.mean()), 4),  # 1: g = r, the optimum of factorised problems
        "aligned_first": round(float(aligned[0]), 4),
        "seconds": round(seconds, 3),
    }


def table(rows: list[dict]) -> str:
    """Rejections by problem at the largest dimension, and how far the directions came."""
    largest = max(r["d"] for r in rows)
    problems = list(dict.fromkeys(r["problem"] for r in rows))
    header = ["search", "climbed", "by", "trials", *problems, "aligned", "of the first", "seconds"]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for name, (climbed, how, _) in SEARCHES.items():
        mine = [r for r in rows if (r["search"], r["d"]) == (name, largest)]
        if not mine:
            continue
        rates = [np.mean([r["pvalue"] <= 0.05 for r in mine if r["problem"] == p]) for p in problems]
        everywhere = [r["aligned"] for r in mine if r["problem"] in ("laplace", "t")]
        first = [r["aligned_first"] for r in mine if r["problem"] == "diffusion"]
        trials = str(min(sum(r["problem"] == p for r in mine) for p in problems))
        cells = [name, climbed, how, trials, *(f"{rate:.2f}" for rate in rates)]
        cells += [f"{np.mean(found):.2f}" if found else "" for found in (everywhere, first)]
        lines.append("| " + " | ".join([*cells, f"{np.median([r['seconds'] for r in mine]):.1f}"]) + " |")
    return "\n".join(lines)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    print(table(runner.run(f"slice_search-{preset}", cells(preset), work)))


if __name__ == "__main__":
    main()
