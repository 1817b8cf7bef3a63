"""What `posteriors` found: rates by posterior and kind of draws, as tables, sentences and a picture."""

import numpy as np

from experiments.posteriors import (
    ALGORITHMS,
    HARD,
    LARGEST_RHAT,
    LEAST_ESS,
    MADE,
    MOVED,
    NARROWED,
    WORKING,
)


def tests(batches: list[dict]) -> list[dict]:
    """One row for every test, with what is known of its posterior and of the run of NUTS behind it."""
    rows = []
    for batch in batches:
        known = {name: batch[name] for name in ("posterior", "batch", "dim", "site", "near_gaussian")}
        runs = {test["run"]: test for test in batch["tests"] if test["kind"] == "nuts"}
        for test in batch["tests"]:
            row = known | test
            if test["kind"] not in ALGORITHMS:
                row["worked"] = has_worked(runs[test["run"]], batch["diverged"][test["run"]])
            rows.append(row)
    return rows


def has_worked(run: dict, diverged: int) -> bool:
    """Whether NUTS has sampled the posterior, from what is known without our test."""
    if run["verdict"] == "refused":
        return False
    return diverged == 0 and run["rhat"] < LARGEST_RHAT and run["ess"] >= LEAST_ESS


def select(rows: list[dict], kind: str, *posteriors: str) -> list[dict]:
    """Tests of a kind. On posteriors that are not hard, those of which the run of NUTS has worked."""
    mine = [row for row in rows if row["kind"] == kind and (not posteriors or row["posterior"] in posteriors)]
    return [row for row in mine if row["posterior"] in HARD or row.get("worked", True)]


def share(hits: list[bool]) -> str:
    """A rate and of how many."""
    return f"{np.mean(hits):.2f} of {len(hits)}" if hits else ""


def rejected(rows: list[dict]) -> list[bool]:
    """Whether the test rejects, or refuses draws that never moved."""
    return [row["verdict"] in ("wrong", "refused") for row in rows]


def first(rows: list[dict]) -> list[bool]:
    """Whether the parameter that is wrong is the first in the table."""
    return [row["first"]["name"] == row["wrong"]["name"] for row in rows if row["verdict"] != "refused"]


def named(rows: list[dict]) -> list[bool]:
    """The same where the test rejects."""
    return first([row for row in rows if row["verdict"] == "wrong"])


def within(rows: list[dict]) -> list[bool]:
    """Whether the error that was made lies within two standard errors of its estimate."""
    what, truth = {"narrowed": ("spread", NARROWED), "moved": ("shift", MOVED)}[rows[0]["kind"]] if rows else ("", 0)
    return [abs(row["wrong"][what] - truth) < 2 * row["wrong"][f"{what}_error"] for row in rows if "wrong" in row]


def order(rows: list[dict]) -> list[str]:
    return [name for name in (*WORKING, *HARD) if any(row["posterior"] == name for row in rows)]


def made_lines(rows: list[dict]) -> list[list]:
    """A line for every posterior: the level, and one parameter, the prior or the Jacobian wrong."""
    lines = []
    for name in order(rows):
        found = {kind: select(rows, kind, name) for kind in ("nuts", *MADE)}
        line = [name + (" (hard)" if name in HARD else ""), next(r["dim"] for r in rows if r["posterior"] == name)]
        line.append(share(rejected(found["nuts"])))
        for kind in ("narrowed", "moved"):
            line += [share(rejected(found[kind])), share(named(found[kind])), share(within(found[kind]))]
        lines.append(line + [share(rejected(found[kind])) for kind in ("prior", "jacobian")])
    return lines


def algorithm_lines(rows: list[dict]) -> list[list]:
    """A line for every posterior: how often the draws of an algorithm are rejected, and how wrong they are."""
    lines = []
    for name in order([row for row in rows if row["kind"] in ALGORITHMS]):
        line = [name + (" (hard)" if name in HARD else "")]
        for kind in ALGORITHMS:
            mine = select(rows, kind, name)
            off = [np.median([row[what] for row in mine]) for what in ("mean_off", "spread_off")] if mine else []
            line.append(f"{share(rejected(mine))}; {off[0]:.2f}, {off[1]:.2f}" if mine else "left the space")
        lines.append(line)
    return lines


def sentences(rows: list[dict]) -> list[str]:
    """The numbers that count."""
    runs = [row for row in rows if row["kind"] == "nuts" and row["posterior"] in WORKING]
    alarms = rejected(select(runs, "nuts"))
    kinds = {kind: select(rows, kind, *WORKING) for kind in ("narrowed", "moved")}
    near = {kind: [row for row in mine if row["near_gaussian"]] for kind, mine in kinds.items()}
    text = [
        f"False alarms: {sum(alarms)} of {len(alarms)} runs of NUTS that worked ({np.mean(alarms):.3f}); "
        f"{len(runs) - len(alarms)} of {len(runs)} did not, by R-hat, effective sample size or divergences."
    ]
    for kind, mine in kinds.items():
        text.append(
            f"One parameter {kind}: found in {share(rejected(mine))}, and there named first in {share(named(mine))}; "
            f"found or not, it is the first of the table in {share(first(mine))}; "
            f"near Gaussian posteriors: the estimate within two standard errors in {share(within(near[kind]))}."
        )
    return text


def figure(rows: list[dict], path) -> None:
    """Rejection rates: rows are posteriors, columns kinds of draws."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names, kinds = order(rows), ("nuts", *MADE, *ALGORITHMS)
    found = [[rejected(select(rows, kind, name)) for kind in kinds] for name in names]
    rates = np.array([[np.mean(hits) if hits else np.nan for hits in line] for line in found])
    fig, ax = plt.subplots(figsize=(8, 1.2 + 0.3 * len(names)), layout="constrained")
    ax.imshow(rates, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for (i, j), rate in np.ndenumerate(rates):
        if np.isfinite(rate):
            ax.text(j, i, f"{rate:.2f}", ha="center", va="center", fontsize=8, color="w" if rate > 0.6 else "k")
    ax.axvline(0.5, color="k", linewidth=0.8)
    if any(name in HARD for name in names):
        ax.axhline(sum(name in WORKING for name in names) - 0.5, color="k", linewidth=0.8)
    ax.set_xticks(range(len(kinds)), kinds, rotation=40, ha="left", fontsize=9)
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(names)), names, fontsize=9)
    fig.savefig(path, dpi=110)
    plt.close(fig)
