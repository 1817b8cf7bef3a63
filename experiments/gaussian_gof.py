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


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = rates(rows)
    fig, axes = plt.subplots(1, 4, figsize=(15, 4.2), layout="constrained", sharex=True)
    colours = plt.get_cmap("tab20").colors
    for ax, problem in zip(axes, PROBLEMS, strict=True):
        for i, method in enumerate(METHODS):
            points = sorted((d, rate) for (p, m, d, _), (rate, _) in found.items() if (p, m) == (problem, method))
            if points:
                ours = method.startswith("maxsksd")
                style = {"color": colours[i], "marker": "os^Dv<>pPX*d"[i], "linewidth": 2.4 if ours else 1.0}
                ax.plot(*zip(*points, strict=True), label=method, markersize=5, **style)
        ax.set(title=problem, xlabel="D", ylim=(-0.03, 1.03))
    axes[0].axhline(0.05, color="black", linewidth=0.8, linestyle=":")
    axes[0].set_ylabel("rejection rate, level 0.05")
    axes[0].set_ylim(-0.01, 0.5)
    fig.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    fig.savefig(path, dpi=110)


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
    if preset in ("quick", "paper"):
        figure(rows, runner.FIGURES / f"gaussian_gof-{preset}.png")


if __name__ == "__main__":
    main()
