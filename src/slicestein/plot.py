"""Pictures of a test and of what it saw. The only module that needs matplotlib (``pip install slicestein[plot]``).

Colours are from the palette of Okabe and Ito, which the colour-blind can tell apart.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slicestein._checks import ScoreLike, samples_and_score
from slicestein.discrepancy import witness
from slicestein.kernels import RBF, Kernel
from slicestein.result import GofResult
from slicestein.slices import Slices

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"


def null_distribution(result: GofResult, ax: Axes | None = None) -> Axes:
    """Histogram of the null draws with the statistic and the critical value."""
    ax = ax or plt.figure(layout="constrained").subplots()
    ax.hist(result.null_distribution, bins=40, color=GREY, label="if the model were right")
    critical = np.quantile(result.null_distribution, 1 - result.alpha)
    ax.axvline(critical, color=BLUE, linestyle="--", label=f"critical value, level {result.alpha:g}")
    ax.axvline(result.statistic, color=ORANGE, linewidth=2.5, label=f"these samples, p = {result.pvalue:.3g}")
    ax.set(xlabel="discrepancy", ylabel="draws", title="Null distribution")
    ax.legend(framealpha=0.9)
    return ax


def attribution(result: GofResult, ax: Axes | None = None, *, num: int = 10) -> Axes:
    """Share of the discrepancy by coordinate, largest first."""
    if result.per_dimension is None:
        raise ValueError(f"{result.method} has no slices: there is nothing to attribute")
    ax = ax or plt.figure(layout="constrained").subplots()
    names, shares = zip(*(result.worst(num) or [("none", 0.0)]), strict=True)
    ax.barh(names[::-1], np.array(shares[::-1]) * 100, color=BLUE)
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
