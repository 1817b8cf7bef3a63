"""Pictures of a test and of what it saw. The only module that needs matplotlib (extra ``plot``).

Colours are from the palette of Okabe and Ito, which the colour-blind can tell apart.
"""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from slicestein._checks import InputError, ScoreLike, origin_of, samples_and_score
from slicestein._stein import bandwidths
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
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
except ModuleNotFoundError:
    raise ModuleNotFoundError("pictures need matplotlib: pip install matplotlib", name="matplotlib") from None

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"
ROWS = 15  # parameters of a picture, at most
LETTERS = 18  # of a name, at most, beside a picture
BLOCKS = 20  # of samples, for a standard error
FAR = 0.5  # a statistic further from the null than this part of its range is drawn at the edge
STEPS = [digit * 10.0**power for power in range(-9, 1) for digit in (1, 2, 5)]  # between ticks
WIDE = 7.0  # an error bar of a ratio ends at a factor exp(7) at the latest


def null_distribution(result: GofResult, ax: Axes | None = None) -> Axes:
    """Histogram of the null draws with the statistic and the critical value.

    A statistic far beyond the null is drawn as an arrow at the edge, with its value: the null stays readable.
    """
    ax = ax or plt.figure(layout="constrained").subplots()
    ax.hist(result.null_distribution, bins=40, color=GREY, label="if the model were right")
    critical = critical_value(result.null_distribution, result.alpha)
    if np.isfinite(critical):  # with few draws no statistic would be enough
        ax.axvline(critical, color=BLUE, linestyle="--", label=f"critical value, level {result.alpha:g}")
    said = words.pvalue(result.pvalue, len(result.null_distribution))
    low, high = result.null_distribution.min(), result.null_distribution.max()
    span = high - low
    label = f"these samples, {said}"
    if span > 0 and result.statistic > high + FAR * span:
        ax.set_xlim(low - 0.05 * span, high + FAR * span)
        ax.plot([], [], color=ORANGE, linewidth=2.5, label=label)
        _arrow_to_the_edge(ax, f"{result.statistic:.3g}")
    else:
        ax.axvline(result.statistic, color=ORANGE, linewidth=2.5, label=label)
    ax.set(xlabel="discrepancy", ylabel="draws", title="Null distribution")
    _legend_below(ax)
    return ax


def _arrow_to_the_edge(ax: Axes, text: str) -> None:
    style = {"arrowstyle": "-|>", "color": ORANGE, "linewidth": 2.5, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (1, 0.5), (0.84, 0.5), xycoords="axes fraction", arrowprops=style)
    ax.annotate(text, (0.98, 0.56), xycoords="axes fraction", ha="right", color=ORANGE, weight="bold")


def _legend_below(ax: Axes, *more: Axes) -> None:
    """A legend under the picture, where it hides nothing."""
    handles, labels = ax.get_legend_handles_labels()
    for other in more:
        handles, labels = (a + b for a, b in zip((handles, labels), other.get_legend_handles_labels(), strict=True))
    columns = len(labels) if more else 1  # the words of a null are long
    ax.legend(
        handles, labels, ncols=columns, loc="upper left", bbox_to_anchor=(0, -0.22), borderaxespad=0, frameon=False
    )


def attribution(result: GofResult, ax: Axes | None = None, *, num: int = 10) -> Axes:
    """Share of the discrepancy by coordinate, largest first."""
    if result.per_dimension is None:
        raise InputError(f"{result.method} has no slices: there is nothing to attribute")
    ax = ax or plt.figure(layout="constrained").subplots()
    names, shares = zip(*(result.worst(num) or [("none", 0.0)]), strict=True)
    places = np.arange(len(names))[::-1]
    ax.barh(places, np.array(shares) * 100, color=BLUE)
    ax.set_yticks(places, [shorten(name) for name in names], parse_math=False)  # a name may hold dollar signs
    ax.set(xlabel="share of the discrepancy, %", title="Where it comes from")
    return ax


def forest(result: GofResult, axes: Sequence[Axes] | None = None, *, num: int = ROWS) -> tuple[Axes, Axes]:
    """Error of the mean and ratio of the spreads of the worst parameters, with bars of two standard errors.

    The error is in standard deviations (sd) of the model, the ratio that of samples to model. Worst first, from the
    top; parameters with a finding are coloured and filled.
    """
    if not result.parameters:
        raise InputError(f"{result.method} does not look at single parameters: test with the default method")
    if axes is None:
        figure = plt.figure(figsize=(7, _height(len(result.parameters), num)), layout="constrained")
        axes = figure.subplots(1, 2)
    shown = result.parameters[:num]
    shift, spread = axes
    places = np.arange(len(shown))[::-1]
    for place, one in zip(places, shown, strict=True):
        look: dict[str, Any] = {"fmt": "o", "color": ORANGE if one.finding else GREY, "capsize": 2, "markersize": 6}
        look["markerfacecolor"] = look["color"] if one.finding else "white"
        shift.errorbar(one.shift, place, xerr=2 * one.shift_error, **look)
        factor = np.exp(min(2 * one.spread_error / one.spread, WIDE))  # a ratio has its error in its logarithm
        bar = [[one.spread * (1 - 1 / factor)], [one.spread * (factor - 1)]]
        spread.errorbar(one.spread, place, xerr=bar, **look)
    for ax, right in ((shift, 0), (spread, 1)):
        ax.axvline(right, color="black", linewidth=0.8, zorder=0)
        ax.set_ylim(-0.7, len(shown) - 0.3)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    spread.set_xscale("log")
    _ticks_of_ratios(spread)
    shift.set_yticks(places, [shorten(one.name) for one in shown], parse_math=False)  # a name may hold dollar signs
    spread.set_yticks(places, [""] * len(shown))
    shift.xaxis.set_major_locator(MaxNLocator(3))
    shift.xaxis.set_major_formatter(_plain)
    shift.set(xlabel="error, in sd", title="Mean")
    spread.set(xlabel="ratio", title="Spread")
    return shift, spread


def _height(parameters: int, num: int) -> float:
    """Inches for so many rows."""
    return max(3.6, 1.3 + 0.24 * min(parameters, num))


def _plain(value: float, _: Any) -> str:
    return f"{value:.3g}".replace("-", "−")


def _ticks_of_ratios(ax: Axes) -> None:
    """Few round numbers on a logarithmic axis, one of them 1, however short it is."""
    low, high = ax.get_xlim()
    if high / low < 3:
        step = next(step for step in STEPS if (high - low) / step < 4.5)
        ax.xaxis.set_major_locator(FixedLocator([1 + i * step for i in range(-9, 10) if low <= 1 + i * step <= high]))
    else:
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 30 else (1,), numticks=6))
    ax.xaxis.set_major_formatter(_plain)
    ax.xaxis.set_minor_locator(NullLocator())


def shorten(name: str, letters: int = LETTERS) -> str:
    """A name that fits beside a picture; what tells names apart is at their ends as often as at their beginnings."""
    return name if len(name) <= letters else f"{name[: letters // 2]}…{name[-(letters // 2) :]}"


def witness_along(
    x: Any,
    score: ScoreLike,
    slices: Slices,
    index: int = 0,
    ax: Axes | None = None,
    *,
    kernel: Kernel = RBF(),
    label: str = "position along g",
) -> Axes:
    """The witness function along one slice with its noise, over the histogram of the samples projected on it.

    Where it is positive, the model would have the samples further up along r; where negative, further down. The band
    is two standard errors wide on either side: where it holds zero, nothing was seen.
    """
    ax = ax or plt.figure(layout="constrained").subplots()
    origin = origin_of(x)
    x, s = samples_and_score(x, score, origin=origin)
    one = Slices(slices.r[index : index + 1], slices.g[index : index + 1])
    start = float(np.asarray(one.g[0], float) @ np.broadcast_to(origin, x.shape[1:]))  # the place of the origin on g
    t = np.asarray(x @ one.g[0].astype(x.dtype))
    low, high = np.quantile(t, [0.001, 0.999])
    grid = np.linspace(low, high, 200)
    bandwidth = float(bandwidths.on_slices(kernel, x, one.g.astype(x.dtype))[0])
    values, error = _witness_with_error(x, s, one, grid, dataclasses.replace(kernel, bandwidth=bandwidth, scale=1.0))
    ax.axhline(0, color=GREY, linewidth=0.8)
    shown = start + grid
    ax.fill_between(shown, values - 2 * error, values + 2 * error, color=ORANGE, alpha=0.25, linewidth=0, label="noise")
    ax.plot(shown, values, color=ORANGE, linewidth=2, label="witness")
    ax.set(ylabel="should move: − down, + up", title=f"Slice {index}")
    ax.set_xlabel(label, parse_math=False)  # a name may hold dollar signs
    density = ax.twinx()
    density.hist(start + t, bins=60, range=(start + low, start + high), color=BLUE, alpha=0.25, label="samples")
    density.set_yticks([])
    ax.set_zorder(density.get_zorder() + 1)
    ax.patch.set_visible(False)
    _legend_below(ax, density)
    return ax


def _witness_with_error(
    x: Float[Array, "n d"], s: Float[Array, "n d"], one: Slices, grid: Float[np.ndarray, " t"], kernel: Kernel
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """The witness of one slice, and its standard error from blocks of neighbours: draws of a chain depend on them."""
    blocks = min(BLOCKS, len(x) // 2)
    size = len(x) // blocks
    rows = [slice(None), *(slice(i * size, (i + 1) * size) for i in range(blocks))]
    every = [np.asarray(witness(x[some], s[some], one, grid, kernel=kernel), float)[:, 0] for some in rows]
    if blocks == 1:  # two or three samples say nothing of their noise, which is then not drawn
        return every[0], np.full_like(every[0], np.nan)
    return every[0], np.std(every[1:], axis=0, ddof=1) / np.sqrt(blocks)


def overview(result: GofResult) -> Figure:
    """The null distribution, and beside it the errors of the parameters, or where the discrepancy comes from."""
    if result.parameters:
        figure = plt.figure(figsize=(12, _height(len(result.parameters), ROWS)), layout="constrained")
        axes = figure.subplots(1, 3, width_ratios=(1.3, 1, 1))
        forest(result, axes[1:])
    else:
        columns = 1 if result.per_dimension is None else 2
        figure = plt.figure(figsize=(5.5 * columns, 3.6), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, columns))
        if columns == 2:
            attribution(result, axes[1])
    null_distribution(result, axes[0])
    return figure


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
