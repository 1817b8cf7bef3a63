"""Ways to choose slices on 200 training samples: time and power of the test on the other 800.

Closed forms (active slices, all starts in competition) against ascent: from random directions with every step taken, as
in the paper; the same with held-out samples as judges; and on top of the closed forms.

    python -m experiments.slice_choice --preset smoke | quick | paper
"""

import time

import numpy as np

from experiments import runner
from experiments.gaussian_gof import PROBLEMS, draw

CHOICES = {
    "active": {"init": "active", "steps": 0},
    "best start": {"init": "best", "steps": 0},
    "best start, then ascent": {"init": "best", "steps": 100},
    "ascent, judged": {"init": "random", "steps": 100},
    "ascent, every step": {"init": "random", "steps": 100, "hold_out": 0.0},
}


def cells(preset: str) -> list[dict]:
    trials = {"smoke": 1, "quick": 10, "paper": 100}[preset]
    problems = ("diffusion",) if preset == "smoke" else ("null", "laplace", "t", "diffusion", "rotated diffusion")
    return [
        {"problem": problem, "d": 5 if preset == "smoke" else 50, "optimize": optimize, "choice": choice, "seed": seed}
        for choice in CHOICES
        for optimize in ("g", "rg")
        for problem in problems
        for seed in range(trials)
    ]


def work(cell: dict) -> dict:
    import jax

    import slicestein as ss
    from slicestein.gof import MaxSKSD

    rng = np.random.default_rng([cell["seed"], cell["d"], PROBLEMS.index(cell["problem"].split()[-1])])
    x, score_fn, _ = draw(cell["problem"], rng, 1000, cell["d"])
    s = np.asarray(score_fn(x))
    coordinates = ss.whiten(x[:200], s[:200])
    train, test = coordinates(x[:200], s[:200]), coordinates(x[200:], s[200:])
    for _ in range(2):  # the second time nothing is compiled
        start = time.perf_counter()
        fit = ss.fit_slices(*train, key=cell["seed"], optimize=cell["optimize"], **CHOICES[cell["choice"]])
        jax.block_until_ready(fit)
        seconds = time.perf_counter() - start
    result = ss.gof_test(*test, key=cell["seed"], method=MaxSKSD(slices=fit.slices))
    return {"pvalue": result.pvalue, "fit_seconds": round(seconds, 4)}


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"slice_choice-{preset}", cells(preset), work)
    for optimize in ("g", "rg"):
        for choice in CHOICES:
            mine = [r for r in rows if (r["optimize"], r["choice"]) == (optimize, choice)]
            rates = {
                problem: np.mean([r["pvalue"] <= 0.05 for r in mine if r["problem"] == problem])
                for problem in dict.fromkeys(r["problem"] for r in mine)
            }
            seconds = np.median([r["fit_seconds"] for r in mine])
            found = ", ".join(f"{problem} {rate:.2f}" for problem, rate in rates.items())
            print(f"{optimize:<3} {choice:<24} {1e3 * seconds:7.1f} ms   {found}")


if __name__ == "__main__":
    main()
