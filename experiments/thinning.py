"""Thinning 20,000 draws to 100, and weights that mend a mean-field fit: energy distance to the posterior.

Chains that are right, that come from far away, or that are biased are thinned by `slicestein.thin`, by the package
stein-thinning (left out where it is not installed) and by taking every 200th draw. NumPyro samples the posteriors of
data.

    python -m experiments.thinning --preset smoke | quick | paper
"""

import importlib.util
import time

import numpy as np

from experiments import runner
from experiments import thinning_problems as problems

KEPT = 100
LARGE_TRIALS = 3  # of the larger posteriors of data, at least
REFERENCE = 5000  # draws that distances are measured to
CASES = ("good", "burn-in", "biased")
NUTS_CASES = ("good", "warm-up")
LANGEVIN = ("logistic", "mixed")  # on the other large posteriors chains with the long step leave for infinity
GAUSSIAN_DIMS = (5, 20, 50, 100)
FITTED = (("gaussian", 5), ("gaussian", 10), ("gaussian", 20))
FIT_DRAWS = 4000
OURS, THEIRS = "slices + full", "stein-thinning"
METHODS = {  # of a line of the table: name and discrepancy or preconditioner
    "slices": "sksd",
    "full": "ksd",
    OURS: "both",
    THEIRS: "id",
    f"{THEIRS}, sclmed": "sclmed",
    f"{THEIRS}, smpcov": "smpcov",
}


def cells(preset: str) -> list[dict]:
    trials = {"smoke": 1, "quick": 1, "paper": 20}[preset]
    chains = [("gaussian", d) for d in GAUSSIAN_DIMS] + [(name, d) for name, (_, d) in problems.SMALL.items()]
    large = [(name, d) for name, (_, d) in problems.LARGE.items()]
    fits = list(FITTED)
    if preset == "smoke":  # without data
        chains, large, fits = chains[:1], [], []
    return [
        {"problem": problem, "d": d, "case": case, "seed": seed}
        for wanted, cases, seeds in (
            (chains, CASES, trials),
            (large, NUTS_CASES, max(trials, LARGE_TRIALS)),
            ([one for one in large if one[0] in LANGEVIN], ("biased",), max(trials, LARGE_TRIALS)),
            (fits, ("mean-field",), trials),
        )
        for seed in range(seeds)
        for problem, d in wanted
        for case in cases
    ]


def work(cell: dict) -> dict:
    import jax

    jax.config.update("jax_enable_x64", True)
    problem, d, case, seed = (cell[key] for key in ("problem", "d", "case", "seed"))
    found = problems.target(problem, d)
    ruler = Ruler(found.reference)
    score_fn = jax.jit(jax.vmap(jax.grad(found.log_density)))
    if case == "mean-field":
        return {"distance": repaired(problems.mean_field(problem, d, seed, FIT_DRAWS), score_fn, found, ruler)}
    x = problems.draws(problem, d, case, seed)
    flat = x.reshape(-1, d)
    score = np.asarray(score_fn(flat))
    results = {"every 200th": {"distance": ruler.distance(flat[:: len(flat) // KEPT]), "seconds": 0.0}}
    for name, option in METHODS.items():
        if name.startswith(THEIRS) and importlib.util.find_spec("stein_thinning") is None:
            continue
        start = time.process_time()
        kept = chosen(name, flat, score, option)
        seconds = time.process_time() - start
        results[name] = {"distance": ruler.distance(flat[kept]), "seconds": seconds}
    return {"methods": results}


def chosen(name: str, x: np.ndarray, score: np.ndarray, option: str) -> np.ndarray:
    if name.startswith(THEIRS):
        from stein_thinning.thinning import thin

        return thin(x, score, KEPT, preconditioner=option)
    import slicestein as ss

    return ss.thin(x, score, KEPT, discrepancy=option)


def repaired(x: np.ndarray, score_fn, found: problems.Target, ruler: "Ruler") -> dict:
    """Distances of the draws of a fit with equal weights, with those of Stein, and with importance weights."""
    import jax

    import slicestein as ss

    stein = ss.weights(x, np.asarray(score_fn(x)))
    mean, deviation = x.mean(0), x.std(0)
    log_ratio = np.asarray(jax.vmap(found.log_density)(x)) + 0.5 * np.sum(((x - mean) / deviation) ** 2, axis=1)
    importance = np.exp(log_ratio - log_ratio.max())
    importance /= importance.sum()
    return {
        "equal": ruler.distance(x),
        "weights": ruler.distance(x, stein.weights),
        "importance": ruler.distance(x, importance),
        "ess": stein.effective_sample_size,
        "importance ess": float(1 / np.sum(importance**2)),
    }


class Ruler:
    """Energy distance to reference draws, parameters in units of their standard deviations."""

    def __init__(self, reference: np.ndarray):
        from scipy.spatial.distance import cdist

        self.scale = reference.std(0)
        self.reference = reference[:: len(reference) // REFERENCE] / self.scale
        self.own = cdist(self.reference, self.reference).mean()

    def distance(self, x: np.ndarray, weights: np.ndarray | None = None) -> float:
        from scipy.spatial.distance import cdist

        x = x / self.scale
        w = np.full(len(x), 1 / len(x)) if weights is None else weights
        return float(2 * w @ cdist(x, self.reference).mean(1) - w @ cdist(x, x) @ w - self.own)


def table(rows: list[dict]) -> tuple[list[str], list[list]]:
    """Header and lines: mean energy distances, and the time of ours and of stein-thinning."""
    header = ["problem", "D", "chain", "every 200th", *METHODS, "s", "s, stein-thinning"]
    lines = []
    found = {(r["problem"], r["d"], r["case"]) for r in rows if "methods" in r}
    order, cases = ["gaussian", *problems.POSTERIORS], ["good", "warm-up", "burn-in", "biased"]
    for problem, d, case in sorted(found, key=lambda one: (order.index(one[0]), one[1], cases.index(one[2]))):
        mine = [r["methods"] for r in rows if (r["problem"], r["d"], r["case"]) == (problem, d, case)]
        distances = [np.mean([m[name]["distance"] for m in mine]) for name in ("every 200th", *METHODS)]
        best = min(distances)
        seconds = [np.mean([m[name]["seconds"] for m in mine]) for name in (OURS, THEIRS)]
        marked = [f"**{value:.3f}**" if value == best else f"{value:.3f}" for value in distances]
        lines.append([problem, d, case, *marked, *(f"{value:.2f}" for value in seconds)])
    return header, lines


def repair_table(rows: list[dict]) -> tuple[list[str], list[list]]:
    header = ["posterior", "D", "equal weights", "weights", "importance weights", "effective", "effective, importance"]
    lines = []
    for problem, d in dict.fromkeys((r["problem"], r["d"]) for r in rows if "distance" in r):
        mine = [r["distance"] for r in rows if (r["problem"], r["d"]) == (problem, d) and "distance" in r]
        distances = [f"{np.mean([m[name] for m in mine]):.4f}" for name in ("equal", "weights", "importance")]
        sizes = [f"{np.mean([m[name] for m in mine]):.0f}" for name in ("ess", "importance ess")]
        lines.append([problem, d, *distances, *sizes])
    return header, lines


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"thinning-{preset}", cells(preset), work)
    for header, lines in (table(rows), repair_table(rows)):
        print(*(" | ".join(str(cell) for cell in line) for line in (header, *lines)), sep="\n")


if __name__ == "__main__":
    main()
