"""What each discrepancy sees of a change in one coordinate of fifty (appendix "Limitations of maxSKSD-g").

p = N(0, I); q shifts the mean and changes the variance of the first coordinate. `contour` is the rejection rate over a
grid of both; `dimension` is a mean shift of 0.25 as D grows, with the discrepancy itself.

    python -m experiments.sensitivity --preset smoke | quick | paper
"""

import numpy as np

from experiments import runner

METHODS = ("ksd", "maxsksd-g", "maxsksd-rg")


def cells(preset: str) -> list[dict]:
    shifts, variances, dims, trials = {
        "smoke": ((0.5,), (1.0,), (5,), 1),
        "quick": ((0.0, 0.1, 0.2, 0.3), (0.5, 0.75, 1.0, 1.35), (5, 25, 50, 100), 20),
        "paper": (np.linspace(0, 0.4, 9), np.linspace(0.4, 1.6, 9), (5, 10, 20, 30, 50, 75, 100), 100),
    }[preset]
    dim = 5 if preset == "smoke" else 50
    grid = [(dim, float(s), float(v)) for s in shifts for v in variances] + [(int(d), 0.25, 1.0) for d in dims]
    return [
        {"d": d, "shift": s, "variance": v, "method": m, "seed": seed}
        for d, s, v in dict.fromkeys(grid)
        for m in METHODS
        for seed in range(trials)
    ]


def work(cell: dict) -> dict:
    import slicestein as ss

    x = np.random.default_rng([cell["seed"], cell["d"]]).standard_normal((1000, cell["d"]))
    x[:, 0] = cell["shift"] + np.sqrt(cell["variance"]) * x[:, 0]
    result = ss.gof_test(x, -x, key=cell["seed"], method=cell["method"])
    return {"pvalue": result.pvalue, "statistic": result.statistic}


def rate(rows: list[dict], **wanted) -> float:
    return float(np.mean([r["pvalue"] <= 0.05 for r in rows if all(r[k] == v for k, v in wanted.items())]))


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 5, figsize=(17, 3.6), layout="constrained")
    fifty = [r for r in rows if r["d"] == 50]
    shifts, variances = (sorted({r[k] for r in fifty if r["shift"] != 0.25}) for k in ("shift", "variance"))
    for ax, method in zip(axes, METHODS, strict=False):
        table = [[rate(fifty, method=method, shift=s, variance=v) for s in shifts] for v in variances]
        image = ax.imshow(table, origin="lower", vmin=0, vmax=1, cmap="viridis", aspect="auto")
        ax.set(title=method, xlabel="mean shift", ylabel="variance")
        ax.set_xticks(range(len(shifts)), [f"{s:g}" for s in shifts])
        ax.set_yticks(range(len(variances)), [f"{v:g}" for v in variances])
    fig.colorbar(image, ax=axes[2], label="rejection rate")
    line = [r for r in rows if (r["shift"], r["variance"]) == (0.25, 1.0)]
    dims = sorted({r["d"] for r in line})
    for method in METHODS:
        values = [[r["statistic"] for r in line if (r["method"], r["d"]) == (method, d)] for d in dims]
        scale = np.std(values[0]) or 1.0
        axes[3].plot(dims, [np.std(v) / scale for v in values], marker="o", label=method)
        axes[4].plot(dims, [rate(line, method=method, d=d) for d in dims], marker="o", label=method)
    axes[3].set(title="mean shift 0.25", xlabel="D", ylabel="sd of the statistic, smallest D = 1", yscale="log")
    axes[4].set(title="mean shift 0.25", xlabel="D", ylabel="rejection rate", ylim=(-0.03, 1.03))
    axes[4].legend(frameon=False)
    fig.savefig(path, dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"sensitivity-{preset}", cells(preset), work)
    for d, shift, variance in sorted({(r["d"], r["shift"], r["variance"]) for r in rows}):
        found = "  ".join(f"{m} {rate(rows, method=m, d=d, shift=shift, variance=variance):.2f}" for m in METHODS)
        print(f"D={d:<4} shift {shift:<5g} variance {variance:<5g} {found}")
    if preset != "smoke":
        figure(rows, runner.FIGURES / f"sensitivity-{preset}.png")


if __name__ == "__main__":
    main()
