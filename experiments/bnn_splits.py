"""How hard are the splits of the network experiment? A ridge regression on them and on random ones.

The published numbers are means over a few splits, and not over ours. A regression that costs nothing tells how much
such a mean depends on the splits, and whether the first of the standard ones are hard.

    python -m experiments.bnn_splits --preset smoke | quick | paper
"""

import numpy as np

from experiments import runner
from experiments.bnn import SETTINGS

PENALTY = 1.0  # on standardised columns


def cells(preset: str) -> list[dict]:
    names, count = {"smoke": (("yacht",), 5), "quick": (SETTINGS, 100), "paper": (SETTINGS, 1000)}[preset]
    return [{"data": name, "trials": SETTINGS[name][2], "random": count} for name in names]


def work(cell: dict) -> dict:
    from experiments.data import load, standardised, uci_split

    data = load(f"uci/{cell['data']}")
    rng = np.random.default_rng(0)
    orders = (rng.permutation(len(data["y"])) for _ in range(cell["random"]))
    standard = np.array([ridge(uci_split(cell["data"], trial)) for trial in range(cell["trials"])])
    random = np.array([ridge(standardised(data, order)) for order in orders])
    spread = random.std(0, ddof=1) / np.sqrt(cell["trials"])
    found = {}
    for k, what in enumerate(("rmse", "log_likelihood")):
        mine = {"standard": standard[:, k].mean(), "random": random[:, k].mean(), "deviation": spread[k]}
        found[what] = {name: float(value) for name, value in mine.items()}
    return found


def ridge(split: dict[str, np.ndarray]) -> tuple[float, float]:
    """Test RMSE and log-likelihood of a ridge regression with the noise of its training part."""
    x, y = split["x_train"], split["y_train"]
    weights = np.linalg.solve(x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ y)
    unit = split["y_std"]
    variance = np.var(y - x @ weights) * unit**2
    squares = (split["y_test"] - split["y_mean"] - unit * split["x_test"] @ weights) ** 2
    return np.sqrt(squares.mean()), -0.5 * np.mean(np.log(2 * np.pi * variance) + squares / variance)


def table(rows: list[dict]) -> str:
    """Means over the splits of the experiment and over random ones, and how much a mean over as many varies."""
    lines = ["| data | splits | RMSE, standard | random | LL, standard | random |", "| --- |" + " --- |" * 5]
    for row in rows:
        parts = [row["data"], str(row["trials"])]
        for what in ("rmse", "log_likelihood"):
            mine = row[what]
            parts += [f"{mine['standard']:.4g}", f"{mine['random']:.4g} ± {mine['deviation']:.2g}"]
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join(lines)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    print(table(runner.run(f"bnn_splits-{preset}", cells(preset), work)))


if __name__ == "__main__":
    main()
