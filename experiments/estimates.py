"""How far off the estimates of shift and spread are where the model is not Gaussian.

Exact, independent draws, one parameter of ten moved or stretched by a known amount: the table of parameters estimates
both with a linear score in mind. The funnel is Neal's: v ~ N(0, 9), and nine x that are N(0, e^v).

    python -m experiments.estimates --preset smoke | quick | paper
"""

import numpy as np

from experiments import runner

DIM, DRAWS = 10, 2000
LAWS = ("normal", "logarithm of a gamma", "Student t, 5 degrees", "funnel, v", "funnel, x")
ERRORS = (("moved", 0.0), ("moved", 0.3), ("moved", 1.0), ("spread", 0.5), ("spread", 0.85), ("spread", 1.3))


def cells(preset: str) -> list[dict]:
    trials = {"smoke": 1, "quick": 20, "paper": 100}[preset]
    return [
        {"law": law, "error": error, "size": size, "seed": seed}
        for law in LAWS
        for error, size in ERRORS
        for seed in range(trials)
    ]


def draw(law: str, rng: np.random.Generator):
    """Draws of mean zero, their score function, which parameter will be wrong, and its standard deviation."""
    z = rng.standard_normal((DRAWS, DIM))
    if law == "normal":
        covariance = 0.9 ** np.abs(np.subtract.outer(np.arange(DIM), np.arange(DIM)))
        precision = np.linalg.inv(covariance)
        return z @ np.linalg.cholesky(covariance).T, lambda x: -x @ precision, 0, 1.0
    if law == "logarithm of a gamma":  # of shape 2: as of a variance that few data tell
        centred = np.log(rng.gamma(2.0, size=z.shape)) - (1 - np.euler_gamma)
        return centred, lambda x: 2 - np.exp(x + 1 - np.euler_gamma), 0, np.sqrt(np.pi**2 / 6 - 1)
    if law == "Student t, 5 degrees":
        return rng.standard_t(5, size=z.shape), lambda x: -6 * x / (5 + x**2), 0, np.sqrt(5 / 3)
    v = 3 * z[:, :1]
    which = 0 if law == "funnel, v" else 1
    return np.hstack([v, np.exp(v / 2) * z[:, 1:]]), funnel_score, which, (3.0, np.exp(9 / 4))[which]


def funnel_score(x: np.ndarray) -> np.ndarray:
    v, rest = x[:, :1], x[:, 1:]
    precision = np.exp(-v)
    of_v = -v / 9 - rest.shape[1] / 2 + precision * np.sum(rest**2, axis=1, keepdims=True) / 2
    return np.hstack([of_v, -precision * rest])


def work(cell: dict) -> dict:
    import slicestein as ss

    rng = np.random.default_rng([cell["seed"], LAWS.index(cell["law"])])
    x, score_fn, which, unit = draw(cell["law"], rng)
    x[:, which] = x[:, which] + cell["size"] * unit if cell["error"] == "moved" else x[:, which] * cell["size"]
    result = ss.gof_test(x, score_fn(x), key=cell["seed"])
    one = next(parameter for parameter in result.parameters if parameter.name == f"x[{which}]")
    numbers = ("shift", "shift_error", "spread", "spread_error")
    return {
        "pvalue": round(result.pvalue, 4),
        "first": result.parameters[0].name == one.name,
        "finding": one.finding,
    } | {name: round(getattr(one, name), 3) for name in numbers}


def medians(rows: list[dict]) -> dict[tuple[str, str, float], dict[str, float]]:
    """By law and error: rejection rate, how often the parameter is named first, and median estimates."""
    groups: dict[tuple[str, str, float], list[dict]] = {}
    for row in sorted(rows, key=lambda row: LAWS.index(row["law"])):
        groups.setdefault((row["law"], row["error"], row["size"]), []).append(row)
    numbers = ("shift", "shift_error", "spread", "spread_error")
    return {
        key: {name: float(np.median([row[name] for row in group])) for name in numbers}
        | {
            "rejected": float(np.mean([row["pvalue"] <= 0.05 for row in group])),
            "first": float(np.mean([row["first"] for row in group])),
            "trials": len(group),
        }
        for key, group in groups.items()
    }


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"estimates-{preset}", cells(preset), work)
    for (law, error, size), found in medians(rows).items():
        sizes = f"shift {found['shift']:+.2f} ± {found['shift_error']:.2f}  spread {found['spread']:.2f}"
        sizes += f" ± {found['spread_error']:.2f}"
        print(f"{law:<22} {error:<7}{size:<5} {sizes}  rejected {found['rejected']:.2f} first {found['first']:.2f}")


if __name__ == "__main__":
    main()
