"""Every test of the package against 48 ways to be wrong, and against the likelihood ratio where there is one.

All methods see the same samples. `auto` also says which parameter it would look at first. It has lines of its own, so
that a change of it does not run the others again. The problems are in `arena_problems`; the restricted Boltzmann
machine is that of `rbm_gof`, in 50 dimensions.

    python -m experiments.arena --preset smoke | quick | paper
"""

import collections
import time
from typing import NamedTuple

import numpy as np

from experiments import runner
from experiments.arena_problems import PROBLEMS, draw, likelihood_ratio

AUTO, OTHERS = "auto", "others"  # who is tested in a cell
METHODS = (
    AUTO,
    "maxsksd-g",
    "ksd",
    "ksdagg",
    "linear-ksd",
    "mmd",
    "fssd-rand",
    "fssd-opt",
    "rfsd-l1imq",
    "rfsd-l2sech",
    "rff-gaussian",
    "rff-cauchy",
)
LIMIT = "likelihood ratio"
BOLTZMANN, NOISE, BOLTZMANN_DIM, BURN_IN = "boltzmann", 0.01, 50, 2000
LEVEL, BATCH = 0.05, 10  # trials of a line


def cells(preset: str) -> list[dict]:
    """Batch by batch, so that every problem has some trials early. The size of an error is a part of its cell."""
    trials, batch, n = {
        "smoke": ({4: 1}, 1, 200),
        "quick": ({10: 10, 50: 20, 100: 10}, BATCH, 1000),
        "paper": (dict.fromkeys((10, 50, 100), 100), BATCH, 1000),
    }[preset]  # by dimension
    sizes = {name: problem.size for name, problem in PROBLEMS.items()}
    if preset == "smoke":
        sizes = {name: sizes[name] for name in ("all skewed, rotated", "one pair dependent", "one narrow, correlated")}
    return [
        {"problem": name, "size": size, "d": d, "n": n, "first": first, "trials": batch, "methods": methods}
        for first in range(0, max(trials.values()), batch)
        for d in trials
        if first < trials[d]
        for methods in (AUTO, OTHERS)
        for name, size in (sizes | ({BOLTZMANN: NOISE} if d == BOLTZMANN_DIM else {})).items()
    ]


def work(cell: dict) -> dict:
    """The p-values of some methods on the samples of some trials; of `auto` also which parameters it names."""
    start = time.process_time()
    found = [trial(cell, cell["first"] + i) for i in range(cell["trials"])]
    pvalues = {method: [of_trial["pvalues"][method] for of_trial in found] for method in found[0]["pvalues"]}
    named = {key: [of_trial[key] for of_trial in found] for key in ("named", "wrong") if key in found[0]}
    return {"pvalues": pvalues} | named | {"seconds": round(time.process_time() - start, 2)}


def trial(cell: dict, seed: int) -> dict:
    import slicestein as ss

    wrong = None
    if cell["problem"] == BOLTZMANN:
        x, score_fn, model = boltzmann(cell, seed)
    else:
        data = draw(cell["problem"], seed, cell["n"], cell["d"])
        x, score_fn, model, wrong = data.x, data.score_fn, data.model, data.wrong
    if cell["methods"] == AUTO:
        result = ss.gof_test(x, score_fn, key=seed)
        named = int(result.parameters[0].name[2:-1])
        return {"pvalues": {AUTO: round(result.pvalue, 4)}, "named": named, "wrong": wrong}
    methods = {name: ss.gof.MMD(model) if name == "mmd" else name for name in METHODS if name != AUTO}
    results = {name: ss.gof_test(x, score_fn, key=seed, method=method) for name, method in methods.items()}
    pvalues = {name: round(result.pvalue, 4) for name, result in results.items()}
    if cell["problem"] != BOLTZMANN:
        pvalues[LIMIT] = likelihood_ratio(cell["problem"], data.y)
    return {"pvalues": pvalues}


def boltzmann(cell: dict, seed: int):
    """Samples of a model with noise on its weights, the score of the model, and samples of it."""
    import jax

    from slicestein.samplers import GaussBernoulliRBM

    keys = jax.random.split(jax.random.key(seed), 4)
    model = GaussBernoulliRBM.random(keys[0], BOLTZMANN_DIM, 40)
    x = model.perturb(keys[1], cell["size"]).sample(keys[2], cell["n"], BURN_IN)
    return x, model.score, model.sample(keys[3], cell["n"], BURN_IN)


def rates(rows: list[dict]) -> dict[tuple[str, int], dict[str, float]]:
    """Rejection rates of all methods, by problem and dimension."""
    pvalues: dict[tuple[str, int], dict[str, list[float]]] = {}
    for row in rows:
        for method, found in row["pvalues"].items():
            pvalues.setdefault((row["problem"], row["d"]), {}).setdefault(method, []).extend(found)
    return {
        key: {m: float(np.mean(np.array(found) <= LEVEL)) for m, found in group.items()}
        for key, group in pvalues.items()
        if AUTO in group and METHODS[-1] in group
    }


def rightly_named(rows: list[dict]) -> dict[tuple[str, int], tuple[float, int]]:
    """How often the parameter that is wrong is the first that `auto` names, where it rejects; and of how many."""
    groups: dict[tuple[str, int], list[bool]] = {}
    for row in rows:
        if "named" not in row:
            continue
        for named, wrong, pvalue in zip(row["named"], row["wrong"], row["pvalues"][AUTO], strict=True):
            if wrong is not None and pvalue <= LEVEL:
                groups.setdefault((row["problem"], row["d"]), []).append(named == wrong)
    return {key: (float(np.mean(hits)), len(hits)) for key, hits in groups.items()}


def order(found: dict[tuple[str, int], dict[str, float]], d: int) -> list[str]:
    """The problems that were run in d dimensions, in the order of their list."""
    return [name for name in (*PROBLEMS, BOLTZMANN) if (name, d) in found]


class Standing(NamedTuple):
    """`auto` on one problem, beside the best of the others and the likelihood ratio."""

    problem: str
    d: int
    auto: float
    best: float
    best_name: str
    limit: float | None
    named: tuple[float, int] | None
    trials: int  # of auto
    trials_of_others: int


def standings(rows: list[dict]) -> list[Standing]:
    found, named = rates(rows), rightly_named(rows)
    trials: collections.Counter[tuple] = collections.Counter()
    for row in rows:
        trials[row["problem"], row["d"], row["methods"]] += row["trials"]
    lines = []
    for d in sorted({d for _, d in found}):
        for name in order(found, d):
            rate = found[name, d]
            best = max(METHODS[1:], key=lambda m: rate[m])
            limit = rate.get(LIMIT)
            first = named.get((name, d))
            counts = (trials[name, d, methods] for methods in (AUTO, OTHERS))
            lines.append(Standing(name, d, rate[AUTO], rate[best], best, limit, first, *counts))
    return lines


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = rates(rows)
    dims, columns = sorted({d for _, d in found}), (*METHODS, LIMIT)
    names = order(found, max(dims, key=lambda d: len(order(found, d))))
    size = (3 + 6 * len(dims), 1.6 + 0.26 * len(names))
    fig, axes = plt.subplots(1, len(dims), figsize=size, layout="constrained", squeeze=False, sharey=True)
    for ax, d in zip(axes[0], dims, strict=True):
        table = np.array([[found.get((name, d), {}).get(m, np.nan) for m in columns] for name in names])
        ax.imshow(table, vmin=0, vmax=1, cmap="Blues", aspect="auto")
        for (i, j), rate in np.ndenumerate(table):
            if np.isfinite(rate):
                ax.text(j, i, f"{rate:.2f}", ha="center", va="center", fontsize=7, color="w" if rate > 0.6 else "k")
        ax.axvline(len(METHODS) - 0.5, color="k", linewidth=0.8)
        ax.set_xticks(range(len(columns)), columns, rotation=60, ha="left", fontsize=8)
        ax.xaxis.tick_top()
        ax.set_yticks(range(len(names)), names, fontsize=8)
        ax.set_title(f"D = {d}: rejection rate at level {LEVEL}", fontsize=10)
    fig.savefig(path, dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"arena-{preset}", cells(preset), work)
    for line in standings(rows):
        limit = "    " if line.limit is None else f"{line.limit:.2f}"
        text = (
            f"{line.problem:>26} D={line.d:<4} auto {line.auto:.2f}   best other {line.best:.2f} {line.best_name:<13}"
        )
        named = f"   named {line.named[0]:.2f} of {line.named[1]}" if line.named else ""
        print(f"{text} limit {limit}   of {line.trials}, {line.trials_of_others}{named}")
    if preset != "smoke":
        figure(rows, runner.FIGURES / f"arena-{preset}.png")


if __name__ == "__main__":
    main()
