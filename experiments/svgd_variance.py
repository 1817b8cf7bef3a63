"""Variance, mean and repulsive force of particles as D grows (figures "S_SVGD_Gaussian", "S_SVGD_Gaussian_Stat").

Target N(0, I), particles from N(2, 2 I), 6000 steps of RMSProp with step 0.001, RBF kernels with the median rule;
slices along the coordinate axes, as in the paper, and with the principal axes of the scores beside them, the default.

    python -m experiments.svgd_variance --preset smoke | quick | paper
"""

import time

import numpy as np

from experiments import runner

METHODS = ("svgd", "s-svgd", "s-svgd, two bases", "s-svgd, fixed axes", "grassmann svgd, m=2")


def cells(preset: str) -> list[dict]:
    dims, counts, steps = {
        "smoke": ((4,), (50,), 50),
        "quick": ((2, 10, 30, 60, 100), (50, 100, 200), 6000),
        "paper": ((2, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100), (50, 100, 200), 6000),
    }[preset]
    return [
        {"method": method, "d": d, "particles": n, "steps": steps, "seed": 0}
        for d in dims
        for n in counts
        for method in METHODS
        if preset != "quick" or n == 50 or not method.startswith("grassmann")  # the slowest by far
        if n > d or method != "s-svgd, two bases"  # with fewer particles there is one
    ]


def work(cell: dict) -> dict:
    import jax
    import optax

    import slicestein as ss

    score = lambda x: -x
    optimizer = optax.rmsprop(1e-3, decay=0.9)
    method = {
        "svgd": lambda: ss.svgd(score, optimizer, bandwidth_rule="median"),
        "s-svgd": lambda: ss.sliced_svgd(score, optimizer, basis="axes"),
        "s-svgd, two bases": lambda: ss.sliced_svgd(score, optimizer),
        "s-svgd, fixed axes": lambda: ss.sliced_svgd(score, optimizer, basis="axes", slice_steps=0),
        "grassmann svgd, m=2": lambda: ss.grassmann_svgd(score, optimizer, key=cell["seed"], bandwidth_rule="median"),
    }[cell["method"]]()
    shape = (cell["particles"], cell["d"])
    start = 2 + np.sqrt(2) * jax.random.normal(jax.random.key(cell["seed"]), shape)
    begin = time.perf_counter()
    result = ss.run(method, start, cell["steps"], progress=False, every=1000)
    x = np.asarray(result.particles)
    return {
        "variance": float(x.var(0, ddof=1).mean()),
        "mean": float(x.mean()),
        "parf": float(result.history.repulsion[-1]),
        "discrepancy": float(result.history.discrepancy[-1]),
        "seconds": round(time.perf_counter() - begin, 2),
    }


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    colours = ("#D55E00", "#0072B2", "#CC79A7", "#56B4E9", "#009E73")
    for ax, what in zip(axes, ("variance", "mean", "parf"), strict=True):
        for method, colour in zip(METHODS, colours, strict=True):
            for n, style in ((50, ":"), (100, "--"), (200, "-")):
                points = sorted((r["d"], r[what]) for r in rows if (r["method"], r["particles"]) == (method, n))
                label = method if n == 50 else None
                if points:
                    ax.plot(*zip(*points, strict=True), style, color=colour, marker="o", markersize=3, label=label)
        ax.set(xlabel="D", title={"parf": "repulsive force (PARF)"}.get(what, f"average {what}"))
    axes[0].axhline(1, color="black", linewidth=0.8)
    axes[2].set_yscale("log")
    axes[1].legend(frameon=False, fontsize=8, title="N = 50 dotted, 100 dashed, 200 solid", title_fontsize=8)
    fig.savefig(path, dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"svgd_variance-{preset}", cells(preset), work)
    for r in sorted(rows, key=lambda r: (r["d"], r["particles"], r["method"])):
        numbers = ", ".join(f"{name} {r[name]:.3f}" for name in ("variance", "mean", "parf"))
        print(f"D={r['d']:<4} N={r['particles']:<4} {r['method']:<20} {numbers} ({r['seconds']:.0f} s)")
    if preset != "smoke":
        figure(rows, runner.FIGURES / f"svgd_variance-{preset}.png")


if __name__ == "__main__":
    main()
