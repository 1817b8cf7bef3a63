"""Five results for the README: a picture and a sentence each, from the committed result files.

python -m experiments.highlights        # draws the pictures and writes the table into the README
"""

import json
from collections.abc import Callable

import numpy as np

from experiments import arena, gaussian_gof, posterior_tables, posteriors, runner
from experiments.posteriors import MOVED, NARROWED, WORKING

README = runner.HERE.parent / "README.md"
BENCHMARK = runner.HERE.parent / "benchmarks" / "results" / "core.jsonl"
BEGIN, END = "<!-- written by `python -m experiments.highlights` -->\n", "<!-- end -->\n"
OURS, THEIRS, PALE = "#0072B2", "#D55E00", "#B8B8B8"
ARENA, ARENA_DIM, OTHERS = "arena-paper", 50, len(arena.METHODS) - 1


def power(ax=None) -> str:
    """Rejection rates of Laplace samples against the dimension."""
    found = {
        (m, d): of
        for (p, m, d, _), of in gaussian_gof.rates(runner.load("gaussian_gof-curves")).items()
        if p == "laplace"
    }
    mine, others = "maxsksd-rg", [m for m in gaussian_gof.METHODS if not m.startswith("maxsksd")]
    last = max(d for m, d in found if m == mine)
    if ax is not None:
        for method in (*others, mine):
            points = sorted((d, rate) for (m, d), (rate, _) in found.items() if m == method)
            special = {
                mine: (OURS, 2.5, "default"),
                "ksd": (THEIRS, 1.5, "KSD"),
                others[-1]: (PALE, 1, f"{len(others) - 1} others"),
            }
            colour, width, label = special.get(method, (PALE, 1, None))
            ax.plot(*zip(*points, strict=True), "o-", color=colour, linewidth=width, markersize=3, label=label)
        ax.set(xlabel="dimension", ylabel="power, level 0.05", ylim=(-0.03, 1.05))
    rest = max(found[m, last][0] for m in others)
    trials = found[mine, last][1]
    return (
        "**Power does not fade with the dimension.** A thousand Laplace samples with the mean and the variance of a "
        f"normal model: the default test finds {found[mine, last][0]:.2f} of {trials} at D = {last}, the best of "
        f"{len(others)} other tests {rest:.2f}."
    )


def ways_to_be_wrong(ax=None) -> str:
    """The default test and the best other on every problem of the arena."""
    lines = [line for line in arena.standings(runner.load(ARENA)) if not line.problem.startswith("null")]
    if ax is not None:
        shown = sorted((line.auto, line.best) for line in lines if line.d == ARENA_DIM)
        ax.plot([best for _, best in shown], ".", color=THEIRS, label=f"best of {OTHERS} others")
        ax.plot([auto for auto, _ in shown], "-", color=OURS, linewidth=2.5, label="default")
        ax.set(xlabel=f"{len(shown)} ways to be wrong, D = {ARENA_DIM}", ylabel="power, level 0.05", xticks=[])
    ahead, behind = (sum(sign * (line.auto - line.best) > 0.05 for line in lines) for sign in (1, -1))
    return (
        "**It misses little.** One parameter or all, shifted, narrow, skewed, with two modes, heavy tails, rotated, "
        f"correlated, in 10, 50 and 100 dimensions: ahead of the best of {OTHERS} other tests on {ahead} of "
        f"{len(lines)} problems by more than 0.05, behind on {behind}."
    )


def real_posteriors(ax=None) -> str:
    """How often draws of real posteriors are rejected, by what is wrong with them."""
    rows = posterior_tables.tests(runner.load("posteriors-paper", posteriors.cells("paper")))
    select = lambda kind: posterior_tables.select(rows, kind, *WORKING)
    rate = {kind: np.mean(posterior_tables.rejected(select(kind))) for kind in KINDS}
    if ax is not None:
        names, colours = list(KINDS.values())[::-1], [PALE if kind == "nuts" else OURS for kind in KINDS][::-1]
        ax.barh(names, list(rate.values())[::-1], color=colours)
        ax.axvline(0.05, color="black", linewidth=0.8, linestyle="--")
        ax.set(xlabel="rejected", xlim=(0, 1.02))
    alarms, moved = posterior_tables.rejected(select("nuts")), select("moved")
    return (
        f"**It works on real posteriors.** {len(WORKING)} models in NumPyro: {np.mean(alarms):.3f} of {len(alarms)} "
        f"right runs of NUTS are rejected; one parameter moved by {MOVED} standard deviations is found in "
        f"{rate['moved']:.2f} and named first in {np.mean(posterior_tables.named(moved)):.2f}, one narrowed to "
        f"{NARROWED} is found in {rate['narrowed']:.2f}."
    )


KINDS = {
    "nuts": "NUTS, right",
    "narrowed": "one narrowed",
    "moved": "one moved",
    "prior": "prior mistyped",
    "mean-field": "mean-field fit",
    "full-rank": "full-rank fit",
    "laplace": "Laplace fit",
    "langevin": "unadjusted Langevin",
}


def particles(ax=None) -> str:
    """Variance of particles of a standard normal target."""
    few = 50
    rows = [r for r in runner.load("svgd_variance-quick") if r["particles"] == few]
    found = {m: {r["d"]: r["variance"] for r in rows if r["method"] == m} for m in ("s-svgd", "svgd")}
    last = max(found["svgd"])
    if ax is not None:
        for (method, points), colour in zip(found.items(), (OURS, THEIRS), strict=True):
            ax.plot(*zip(*sorted(points.items()), strict=True), "o-", color=colour, markersize=3, label=method.upper())
        ax.axhline(1, color="black", linewidth=0.8, linestyle="--")
        ax.set(xlabel="dimension", ylabel=f"variance of {few} particles", ylim=(0, 1.15))
    return (
        f"**Particles do not collapse.** {few} particles for a standard normal target at D = {last}: variance "
        f"{found['s-svgd'][last]:.2f} by sliced SVGD, {found['svgd'][last]:.2f} by SVGD."
    )


def speed(ax=None) -> str:
    """Time of the discrepancy against the number of samples."""
    rows = [json.loads(line) for line in BENCHMARK.read_text().splitlines()]
    rows = [r for r in rows if r["case"] == "speed" and r["d"] == 100 and not r["derivative"]]
    found = {m: {r["n"]: r["seconds"] for r in rows if r["method"] == m} for m in ("fourier", "exact")}
    if ax is not None:
        for (method, label), colour in zip(ENGINES.items(), (OURS, THEIRS), strict=True):
            points = sorted(found[method].items())
            ax.loglog(*zip(*points, strict=True), "o-", color=colour, markersize=3, label=label)
        ax.set(xlabel="samples, D = 100", ylabel="seconds")
    most, shared = max(found["fourier"]), max(set(found["fourier"]) & set(found["exact"]))
    ratio = found["exact"][shared] / found["fourier"][shared]
    return (
        f"**Time is linear in the samples.** {most:,} samples in 100 dimensions, 100 slices: "
        f"{found['fourier'][most]:.1f} seconds on two cores; with {shared:,} samples {ratio:.0f} times faster than all "
        "pairs, and equal to 1e-8."
    )


ENGINES = {"fourier": "slicestein", "exact": "all pairs"}
RESULTS: dict[str, Callable[..., str]] = {
    "power": power,
    "wrong": ways_to_be_wrong,
    "posteriors": real_posteriors,
    "particles": particles,
    "speed": speed,
}


def table() -> str:
    lines = [f"| ![{name}](docs/figures/highlight-{name}.png) | {result()} |" for name, result in RESULTS.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines]) + "\n"


def pictures() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, result in RESULTS.items():
        fig, ax = plt.subplots(figsize=(4, 2.6), layout="constrained")
        result(ax)
        ax.spines[["top", "right"]].set_visible(False)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, fontsize=8, loc="lower right" if name == "wrong" else "best")
        fig.savefig(runner.FIGURES / f"highlight-{name}.png", dpi=100)
        plt.close(fig)


def main() -> None:
    before, rest = README.read_text().split(BEGIN)
    README.write_text(before + BEGIN + table() + END + rest.split(END)[1])
    pictures()


if __name__ == "__main__":
    main()
