"""Pictures of a test and of what it saw. The only module that needs matplotlib (``pip install slicestein[plot]``).

Colours are from the palette of Okabe and Ito, which the colour-blind can tell apart.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from slicestein._checks import InputError, ScoreLike, samples_and_score
from slicestein.discrepancy import witness
from slicestein.gof import words
from slicestein.gof.null import critical_value
from slicestein.gof.result import GofResult
from slicestein.kernels import RBF, Kernel
from slicestein.slices import Slices

try:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise ModuleNotFoundError("pictures need matplotlib: pip install 'slicestein[plot]'", name="matplotlib") from None

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
# For many curves: every colour comes with a marker of its own, so that none has to be told by colour alone.
CURVES = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000", GREY)
MARKERS = "os^DvPX*"


def null_distribution(result: GofResult, ax: Axes | None = None) -> Axes:
    """Histogram of the null draws with the statistic and the critical value."""
    ax = ax or plt.figure(layout="constrained").subplots()
    ax.hist(result.null_distribution, bins=40, color=GREY, label="if the model were right")
    critical = critical_value(result.null_distribution, result.alpha)
    ax.axvline(critical, color=BLUE, linestyle="--", label=f"critical value, level {result.alpha:g}")
    said = words.pvalue(result.pvalue, len(result.null_distribution))
    ax.axvline(result.statistic, color=ORANGE, linewidth=2.5, label=f"these samples, {said}")
    ax.set(xlabel="discrepancy", ylabel="draws", title="Null distribution")
    ax.legend(framealpha=0.9)
    return ax


def attribution(result: GofResult, ax: Axes | None = None, *, num: int = 10) -> Axes:
    """Share of the discrepancy by coordinate, largest first."""
    if result.per_dimension is None:
        raise InputError(f"{result.method} has no slices: there is nothing to attribute")
    ax = ax or plt.figure(layout="constrained").subplots()
    names, shares = zip(*(result.worst(num) or [("none", 0.0)]), strict=True)
    places = np.arange(len(names))[::-1]
    ax.barh(places, np.array(shares) * 100, color=BLUE)
    ax.set_yticks(places, names, parse_math=False)  # a name may hold dollar signs
    ax.set(xlabel="share of the discrepancy, %", title="Where it comes from")
    return ax


def witness_along(
    x: Any, score: ScoreLike, slices: Slices, index: int = 0, ax: Axes | None = None, *, kernel: Kernel = RBF()
) -> Axes:
    """The witness function along one slice, over the histogram of the samples projected on it.

    Where it is positive, the model would have the samples further up along r; where negative, further down.
    """
    ax = ax or plt.figure(layout="constrained").subplots()
    x, s = samples_and_score(x, score)
    t = np.asarray(x @ slices.g[index].astype(x.dtype))
    low, high = np.quantile(t, [0.001, 0.999])
    grid = np.linspace(low, high, 200)
    one = Slices(slices.r[index : index + 1], slices.g[index : index + 1])
    values = np.asarray(witness(x, s, one, grid, kernel=kernel))[:, 0]
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.plot(grid, values, color=ORANGE, linewidth=2, label="witness")
    ax.set(xlabel="position along g", ylabel="witness", title=f"Slice {index}")
    density = ax.twinx()
    density.hist(t, bins=60, range=(low, high), density=True, color=BLUE, alpha=0.25, label="samples")
    density.set_yticks([])
    ax.set_zorder(density.get_zorder() + 1)
    ax.patch.set_visible(False)
    handles = [*ax.get_legend_handles_labels()[0], *density.get_legend_handles_labels()[0]]
    ax.legend(handles, ["witness", "samples"], frameon=False)
    return ax


def overview(result: GofResult) -> Figure:
    """Null distribution and attribution side by side."""
    columns = 1 if result.per_dimension is None else 2
    figure = plt.figure(figsize=(5.5 * columns, 3.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, columns))
    null_distribution(result, axes[0])
    if columns == 2:
        attribution(result, axes[1])
    return figure


def power_curve(
    rates: Mapping[str, Sequence[tuple[float, float, int]]],
    ax: Axes | None = None,
    *,
    xlabel: str = "D",
    alpha: float | None = 0.05,
) -> Axes:
    """Rejection rates of several tests, with two standard errors.

    Parameters
    ----------
    rates
        For every test, points (position, rejection rate, number of trials).
    xlabel
        What the positions are.
    alpha
        Level of the tests, drawn as a dotted line; None leaves it out.
    """
    ax = ax or plt.figure(layout="constrained").subplots()
    for i, (name, points) in enumerate(rates.items()):
        x, rate, trials = np.array(sorted(points), float).T
        smoothed = (rate * trials + 2) / (trials + 4)  # Agresti and Coull: an error bar at rates 0 and 1 too
        error = 2 * np.sqrt(smoothed * (1 - smoothed) / (trials + 4))
        low, high = np.minimum(error, rate), np.minimum(error, 1 - rate)
        colour, marker = CURVES[i % len(CURVES)], MARKERS[(i + i // len(CURVES)) % len(MARKERS)]
        ax.errorbar(x, rate, (low, high), color=colour, marker=marker, markersize=5, capsize=2, label=name)
    if alpha is not None:
        ax.axhline(alpha, color="black", linewidth=0.8, linestyle=":")
    ax.set(xlabel=xlabel, ylabel="rejection rate", ylim=(-0.03, 1.03))
    ax.legend(framealpha=0.9)
    return ax


def inline_svg(figure: Figure, label: str) -> str:
    """A figure as an SVG element for a web page, and closes it.

    Black, white and the palette become the CSS variables ``--ink``, ``--paper``, ``--line``, ``--blue``,
    ``--orange`` and ``--grey``, so that the page can be light or dark.
    """
    variables = {"#000000": "ink", "#ffffff": "paper", "#cccccc": "line"}
    variables |= {BLUE.lower(): "blue", ORANGE.lower(): "orange", GREY: "grey"}
    buffer = io.StringIO()
    figure.patch.set_visible(False)
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # Metadata, a style that would hold for the whole page, and the names of parts (what is referred to has no _).
    text = re.sub(r'<metadata>.*?</metadata>|<style.*?</style>| id="\w+_\d+"', "", text, flags=re.DOTALL)
    for colour, name in variables.items():
        text = text.replace(colour, f"var(--{name})")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
