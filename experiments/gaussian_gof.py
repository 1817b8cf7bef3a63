"""Power and level on factorised problems (label "fig:High dimensional benchmark GOF test").

p = N(0, I) against Laplace, Student t(5) (p = N(0, 5/3 I)), one variance of 0.3 (diffusion), and p itself; then the
same after a random rotation and scaling of the space, and with coordinates on scales from 1e-3 to 1e3. A
"published" method is the paper's: slices that Adam finds from random ones, and the multinomial bootstrap.

    python -m experiments.gaussian_gof --preset smoke | quick | claims | curves | paper
"""

import time

import numpy as np

from experiments import runner

METHODS = (
    "maxsksd-g",
    "maxsksd-rg",
    "maxsksd-g-published",
    "maxsksd-rg-published",
    "ksd",
    "linear-ksd",
    "mmd",
    "fssd-rand",
    "fssd-opt",
    "rfsd-l1imq",
    "rfsd-l2sech",
    "rff-gaussian",
    "rff-cauchy",
)
PROBLEMS = ("null", "laplace", "t", "diffusion")


def bootstrap(method: str) -> str:
    """As in the paper for what is the paper's, else signs."""
    return "multinomial" if method.endswith("published") else "wild"


def cells(preset: str) -> list[dict]:
    def grid(problems, methods, dims, trials, bootstraps=(None,)):
        return [
            {"problem": p, "method": m, "d": int(d), "bootstrap": b or bootstrap(m), "seed": seed}
            for d in dims
            for m in methods
            for b in bootstraps
            for p in problems
            for seed in range(trials)
        ]

    ours = ("maxsksd-g", "maxsksd-rg")
    if preset == "smoke":
        return grid(("null", "laplace"), ("maxsksd-rg", "ksd"), (5,), 2)
    if preset == "quick":
        return grid(PROBLEMS, METHODS, (2, 25, 50, 100), 20)
    if preset == "claims":
        return (
            grid(("laplace", "t", "diffusion"), ours, (100,), 100)
            + grid(("rotated diffusion", "rotated laplace", "scaled laplace", "scaled diffusion"), ours, (50,), 100)
            + grid(("laplace", "diffusion"), ours, (50,), 100)
            + grid(("null",), ours, (50,), 1000, ("wild", "multinomial", "eigenvalues"))
        )
    if preset == "curves":  # trial by trial: a run that is stopped has as many of every cell
        return sorted(grid(PROBLEMS, METHODS, (2, 10, 25, 50, 75, 100), 100), key=lambda cell: cell["seed"])
    dims = np.unique(np.round(np.linspace(2, 100, 15)).astype(int))
    trials = {"null": 1000, "laplace": 500, "t": 250, "diffusion": 500}
    return [cell for p in PROBLEMS for cell in grid((p,), METHODS, dims, trials[p])]


def draw(problem: str, rng: np.random.Generator, n: int, d: int):
    """Samples, a score function, and samples of the model."""
    variance = 5 / 3 if problem.endswith("t") and "null" not in problem else 1.0
    x = rng.standard_normal((n, d))
    if "laplace" in problem:
        x = rng.laplace(scale=np.sqrt(0.5), size=(n, d))
    elif problem == "t":
        x = rng.standard_t(5, size=(n, d))
    elif "diffusion" in problem:
        x[:, 0] *= np.sqrt(0.3)
    model = np.sqrt(variance) * rng.standard_normal((n, d))
    matrix = np.eye(d)
    if problem.startswith("rotated"):  # singular values from e^-1 to e
        left, right = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
        matrix = left @ np.diag(np.exp(rng.uniform(-1, 1, d))) @ right
    elif problem.startswith("scaled"):
        matrix = np.diag(np.logspace(-3, 3, d))
    precision = np.linalg.inv(matrix @ matrix.T) / variance
    return x @ matrix.T, lambda z: -z @ precision, model @ matrix.T


def work(cell: dict) -> dict:
    import slicestein as ss

    rng = np.random.default_rng([cell["seed"], cell["d"], PROBLEMS.index(cell["problem"].split()[-1])])
    x, score_fn, model = draw(cell["problem"], rng, 1000, cell["d"])
    start = time.perf_counter()
    if cell["method"] == "mmd":
        method = ss.gof.MMD(model, bootstrap=cell["bootstrap"])
    elif cell["method"] in ("maxsksd-g", "maxsksd-rg"):
        method = ss.gof.MaxSKSD(cell["method"].removeprefix("maxsksd-"), bootstrap=cell["bootstrap"])
    else:
        method = ss.gof.KSD(bootstrap=cell["bootstrap"]) if cell["method"] == "ksd" else cell["method"]
    result = ss.gof_test(x, score_fn, key=cell["seed"], method=method)
    seconds = time.perf_counter() - start
    return {"pvalue": result.pvalue, "statistic": result.statistic, "seconds": round(seconds, 3)}


def rates(rows: list[dict]) -> dict[tuple, tuple[float, int]]:
    """Rejection rate at level 0.05 and number of trials, by (problem, method, d, bootstrap)."""
    groups: dict[tuple, list[bool]] = {}
    for row in rows:
        key = (row["problem"], row["method"], row["d"], row["bootstrap"])
        groups.setdefault(key, []).append(row["pvalue"] <= 0.05)
    return {key: (float(np.mean(hits)), len(hits)) for key, hits in groups.items()}


# Colours that people who confuse red and green can tell apart (Okabe and Ito), and dashes where they come again.
STYLES = {
    "maxsksd-g": ("#0072B2", "-", "o"),
    "maxsksd-rg": ("#56B4E9", "-", "s"),
    "maxsksd-g-published": ("#D55E00", "-", "^"),
    "maxsksd-rg-published": ("#E69F00", "-", "v"),
    "ksd": ("#000000", "-", "D"),
    "linear-ksd": ("#000000", ":", "d"),
    "mmd": ("#999999", "-", "<"),
    "fssd-rand": ("#009E73", ":", ">"),
    "fssd-opt": ("#009E73", "-", "p"),
    "rfsd-l1imq": ("#CC79A7", "-", "P"),
    "rfsd-l2sech": ("#CC79A7", ":", "X"),
    "rff-gaussian": ("#7A5C00", "-", "*"),
    "rff-cauchy": ("#7A5C00", ":", "h"),
}


def band(rate: float, count: int) -> tuple[float, float]:
    """Wilson's interval for a frequency, 95%."""
    z = 1.96
    middle, half = rate + z**2 / (2 * count), z * np.sqrt(rate * (1 - rate) / count + (z / (2 * count)) ** 2)
    return (middle - half) / (1 + z**2 / count), (middle + half) / (1 + z**2 / count)


def figure(rows: list[dict], path) -> None:
    """Ours and the paper's above, the baselines below, with bands of 95%; of problems in columns."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = rates(rows)
    lines = [[m for m in METHODS if m.startswith("maxsksd")], [m for m in METHODS if not m.startswith("maxsksd")]]
    fig, axes = plt.subplots(2, 4, figsize=(14, 7.2), layout="constrained", sharex=True, sharey=True)
    for row, methods in zip(axes, lines, strict=True):
        for ax, problem in zip(row, PROBLEMS, strict=True):
            for method in methods:
                points = sorted((d, *of) for (p, m, d, _), of in found.items() if (p, m) == (problem, method))
                if not points:
                    continue
                colour, dashes, marker = STYLES[method]
                d, rate, _ = zip(*points, strict=True)
                low, high = zip(*(band(*of) for _, *of in points), strict=True)
                ax.plot(d, rate, color=colour, linestyle=dashes, marker=marker, markersize=5, label=method)
                ax.fill_between(d, low, high, color=colour, alpha=0.12, linewidth=0)
            ax.axhline(0.05, color="black", linewidth=0.8, linestyle="--")
            ax.set(title=problem, ylim=(-0.03, 1.03))
        row[0].set_ylabel("rejection rate, level 0.05")
        row[-1].legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    for ax in axes[1]:
        ax.set_xlabel("D")
    fig.savefig(path, dpi=100)


def main() -> None:
    import scipy.stats

    preset = runner.preset(__doc__.splitlines()[0], ("smoke", "quick", "claims", "curves", "paper"))
    rows = runner.run(f"gaussian_gof-{preset}", cells(preset), work)
    for (problem, method, d, bootstrap), (rate, count) in sorted(rates(rows).items()):
        line = f"{problem:>18} D={d:<4} {method:<22} {bootstrap:<12} {rate:.3f} of {count}"
        if problem == "null":
            p = [
                r["pvalue"]
                for r in rows
                if (r["method"], r["d"], r["bootstrap"], r["problem"]) == (method, d, bootstrap, "null")
            ]
            line += f"   KS p = {scipy.stats.kstest(p, 'uniform').pvalue:.3f}"
        print(line)
    if preset in ("quick", "curves", "paper"):
        figure(rows, runner.FIGURES / f"gaussian_gof-{preset}.png")


if __name__ == "__main__":
    main()
