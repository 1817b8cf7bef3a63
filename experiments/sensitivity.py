"""What each discrepancy sees of a change in one coordinate of fifty (appendix "Limitations of maxSKSD-g").

p = N(0, I); q shifts the mean and changes the variance of the first coordinate. `contour` is the rejection rate over a
grid of both; `dimension` is a mean shift of 0.25 as D grows, with the discrepancy itself. Methods that are "published"
search for slices as the paper does, which takes its time: below `paper` at the cells of the text only.

    python -m experiments.sensitivity --preset smoke | quick | paper
"""

import numpy as np

from experiments import runner

METHODS = ("ksd", "maxsksd-g", "maxsksd-rg", "maxsksd-g-published", "maxsksd-rg-published")
TEXT = ((0.2, 1.0), (0.25, 1.0), (0.0, 0.5), (0.0, 0.75))  # shift, variance
FEWEST = 10  # trials that show a spread
COLOURS = dict(zip(METHODS, ("#000000", "#0072B2", "#56B4E9", "#D55E00", "#E69F00"), strict=True))


def cells(preset: str) -> list[dict]:
    shifts, variances, dims, trials = {
        "smoke": ((0.5,), (1.0,), (5,), 1),
        "quick": ((0.0, 0.1, 0.2, 0.3), (0.5, 0.75, 1.0, 1.35), (5, 25, 50, 100), 20),
        "paper": (np.linspace(0, 0.4, 9), np.linspace(0.4, 1.6, 9), (5, 10, 20, 30, 50, 75, 100), 100),
    }[preset]
    of_method = {"ksd": 100 if preset == "quick" else trials}  # the one that costs least
    dim = 5 if preset == "smoke" else 50
    grid = [(dim, float(s), float(v)) for s in shifts for v in variances] + [(int(d), 0.25, 1.0) for d in dims]
    return [
        {"d": d, "shift": s, "variance": v, "method": m, "seed": seed}
        for seed in range(max(trials, *of_method.values()))  # outermost: a run that is stopped has all cells
        for d, s, v in dict.fromkeys(grid)
        for m in METHODS
        if seed < of_method.get(m, trials)
        if preset != "quick" or not m.endswith("published") or (s, v) in TEXT
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

    fig, axes = plt.subplot_mosaic([[*METHODS[:3], "spread", "rate"]], figsize=(18, 3.7), layout="constrained")
    fifty = [r for r in rows if r["d"] == 50]
    shifts, variances = (sorted({r[k] for r in fifty if r["shift"] != 0.25}) for k in ("shift", "variance"))
    for method in METHODS[:3]:
        ax = axes[method]
        table = [[rate(fifty, method=method, shift=s, variance=v) for s in shifts] for v in variances]
        image = ax.imshow(table, origin="lower", vmin=0, vmax=1, cmap="viridis", aspect="auto")
        for (i, j), value in np.ndenumerate(table):
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value < 0.6 else "black")
        ax.set(title=method, xlabel="mean shift", ylabel="variance")
        ax.set_xticks(range(len(shifts)), [f"{s:g}" for s in shifts])
        ax.set_yticks(range(len(variances)), [f"{v:g}" for v in variances])
    fig.colorbar(image, ax=axes[METHODS[2]], label="rejection rate")
    line = [r for r in rows if (r["shift"], r["variance"]) == (0.25, 1.0)]
    for method in METHODS:
        mine = [r for r in line if r["method"] == method]
        dims = sorted({r["d"] for r in mine})
        if not dims:
            continue
        values = [[r["statistic"] for r in mine if r["d"] == d] for d in dims]
        scale = np.std(values[0]) or 1.0
        style = {"marker": "o", "color": COLOURS[method], "label": method}
        if min(map(len, values)) >= FEWEST:
            axes["spread"].plot(dims, [np.std(v) / scale for v in values], **style)
        axes["rate"].plot(dims, [rate(mine, d=d) for d in dims], **style)
    axes["spread"].set(title="mean shift 0.25", xlabel="D", ylabel="sd of the statistic, smallest D = 1", yscale="log")
    axes["rate"].set(title="mean shift 0.25", xlabel="D", ylabel="rejection rate", ylim=(-0.03, 1.03))
    axes["rate"].legend(frameon=False, fontsize=8)
    fig.savefig(path, dpi=100)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"sensitivity-{preset}", cells(preset), work)
    for d, shift, variance in sorted({(r["d"], r["shift"], r["variance"]) for r in rows}):
        cell = [r for r in rows if (r["d"], r["shift"], r["variance"]) == (d, shift, variance)]
        found = "  ".join(f"{m} {rate(cell, method=m):.2f}" for m in METHODS if any(r["method"] == m for r in cell))
        print(f"D={d:<4} shift {shift:<5g} variance {variance:<5g} {found}")
    if preset != "smoke":
        figure(rows, runner.FIGURES / f"sensitivity-{preset}.png")


if __name__ == "__main__":
    main()
