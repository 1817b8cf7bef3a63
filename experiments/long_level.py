"""Level with many rows: N = 100,000 independent samples, and AR(1) chains of 50,000 draws; the model is their law.

python -m experiments.long_level --preset smoke | quick | paper
"""

import time

import numpy as np
import scipy.signal

from experiments import runner

LEVEL, DIM, COEFFICIENT = 0.05, 10, 0.8
CASES = {"independent": (1, 100_000), "AR(1) chains": (4, 50_000)}  # chains, draws of each


def cells(preset: str) -> list[dict]:
    """Trial by trial, so that a run that was stopped says something of both."""
    trials, part = {"smoke": (1, 50), "quick": (40, 1), "paper": (200, 1)}[preset]
    return [
        {"case": case, "chains": chains, "draws": draws // part, "d": DIM, "seed": seed}
        for seed in range(trials)
        for case, (chains, draws) in CASES.items()
    ]


def draw(cell: dict) -> np.ndarray:
    """Samples (N, D), or chains (chains, draws, D) of which every draw is N(0, I)."""
    noise = np.random.default_rng([cell["seed"], len(cell["case"])]).standard_normal(
        (cell["chains"], cell["draws"], cell["d"])
    )
    if cell["case"] == "independent":
        return noise[0]
    noise[:, 1:] *= np.sqrt(1 - COEFFICIENT**2)
    return scipy.signal.lfilter([1], [1, -COEFFICIENT], noise, axis=1)


def work(cell: dict) -> dict:
    import slicestein as ss

    x = draw(cell)
    start = time.process_time()
    result = ss.gof_test(x, -x, key=cell["seed"])
    seconds = round(time.process_time() - start, 2)
    return {"pvalue": round(result.pvalue, 6), "verdict": result.verdict, "seconds": seconds}


def rates(rows: list[dict]) -> dict[str, tuple[float, int]]:
    """Share of rejected trials, and their number."""
    found: dict[str, list[bool]] = {}
    for row in rows:
        found.setdefault(row["case"], []).append(row["pvalue"] <= LEVEL)
    return {case: (float(np.mean(rejected)), len(rejected)) for case, rejected in found.items()}


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"long_level-{preset}", cells(preset), work)
    for case, (rate, count) in rates(rows).items():
        chains, draws = CASES[case]
        print(f"{case:<14} {chains} x {draws:<8,} rejected {rate:.3f} of {count} trials at level {LEVEL}")


if __name__ == "__main__":
    main()
