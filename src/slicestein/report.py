"""A goodness-of-fit test as one web page: self-contained, light or dark, readable on a phone.

Needs jinja2 and matplotlib (``pip install slicestein[report]``).
"""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError, ScoreLike
from slicestein.gof import words
from slicestein.gof.result import GofResult
from slicestein.rows.writing import write_whole

TEMPLATE = "report.html.jinja"
SLICES = 4  # shown, at most
PARAMETERS, SMALLEST_SHARE = 15, 0.005  # listed: so many at most, with at least this share
VERSIONS = ("slicestein", "jax", "jaxlib", "numpy", "scipy")


class SliceInWords(NamedTuple):
    """One slice: its number, its share of the discrepancy, and its two directions as sums of parameters."""

    number: int
    share: float
    g: str
    r: str


def worst_slices(result: GofResult, x: Any = None, num: int = SLICES) -> list[SliceInWords]:
    """The slices that carry most of the discrepancy, in words.

    Coefficients are those of parameters in units of their standard deviation in x, and of scores in units of its
    inverse; without x the units are those of the samples.
    """
    if result.slices is None or result.per_slice is None:
        return []
    scale = np.ones(result.slices.dim) if x is None else _flat(x).std(0)
    scale = np.where(scale > 0, scale, 1.0)
    names = result.names or tuple(f"x[{i}]" for i in range(result.slices.dim))
    positive = np.maximum(result.per_slice, 0)
    order = [int(i) for i in np.argsort(-positive)[:num] if positive[i] > 0]
    r, g = np.asarray(result.slices.r) / scale, np.asarray(result.slices.g) * scale
    return [SliceInWords(i, float(positive[i] / positive.sum()), _sum(g[i], names), _sum(r[i], names)) for i in order]


def _sum(direction: Float[np.ndarray, " d"], names: tuple[str, ...]) -> str:
    """The three largest terms of a direction of unit length: "0.95 beta[17] − 0.21 beta[3] + ..."."""
    unit = direction / np.linalg.norm(direction)
    order = [i for i in np.argsort(-np.abs(unit))[:3] if abs(unit[i]) >= 0.1]
    terms = [f"{'−' if unit[i] < 0 else '+'} {abs(unit[i]):.2f} {names[i]}" for i in order]
    rest = " + …" if np.sum(unit[order] ** 2) < 0.95 else ""
    return " ".join(terms).removeprefix("+ ") + rest


def write_report(
    result: GofResult,
    path: str | os.PathLike[str],
    *,
    x: Any = None,
    score: ScoreLike | None = None,
    title: str = "Do the samples fit the model?",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write a test as one self-contained HTML file.

    Parameters
    ----------
    result
        What `gof_test` returned.
    path
        File to write, whole or not at all.
    x, score
        The samples and scores that were tested, (N, D) or (chains, draws, D), for pictures of the witness functions;
        left out, the report has none.
    title
        Heading of the page.
    settings
        More lines for the table of settings, for example the key and the file of the samples.
    """
    check_packages()
    slices = worst_slices(result, x)
    parameters = [(name, share) for name, share in result.worst(PARAMETERS) if share >= SMALLEST_SHARE]
    page = _template().render(
        title=title,
        result=result,
        slices=slices,
        parameters=parameters,
        others=0 if result.per_dimension is None else len(result.per_dimension) - len(parameters),
        p=words.pvalue(result.pvalue, len(result.null_distribution)),
        reason=_sentence(result.reason),
        findings=_findings(result),
        missed=_sentence(words.could_be_missed(result) if result.parameters else ""),
        settings=_settings(result) | dict(settings or {}),
        versions={name: version(name) for name in VERSIONS} | {"Python": platform.python_version()},
        **_pictures(result, x, score, slices),
    )
    write_whole(path, page.encode("utf-8", "backslashreplace"))


def check_packages() -> None:
    """Require the packages that a report is made with."""
    for name in ("jinja2", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            raise InputError(f"a report needs {name}: pip install 'slicestein[report]'")


def _template() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template(TEMPLATE)


def _findings(result: GofResult) -> list[tuple[str, str]]:
    """Parameters that are wrong, each with what is said of it."""
    found = [parameter for parameter in result.parameters or () if parameter.finding][:PARAMETERS]
    said = [words.describe(parameter, len(result.null_distribution)) for parameter in found]
    return [(one.name, text.removeprefix(one.name)) for one, text in zip(found, said, strict=True)]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pictures(result: GofResult, x: Any, score: ScoreLike | None, slices: list[SliceInWords]) -> dict[str, Any]:
    """The null, and the witness along each slice by its number where there are samples and scores to draw it with."""
    from slicestein import plot

    pictures = {}
    if x is not None and score is not None and result.slices is not None:
        samples = _flat(x)
        scores = score if callable(score) else _flat(score)
        for one in slices:
            ax = plot.witness_along(samples, scores, result.slices, one.number)
            pictures[one.number] = _picture(plot, ax, f"Witness function along slice {one.number}")
    return {"null": _picture(plot, plot.null_distribution(result), "Null distribution"), "pictures": pictures}


def _flat(x: Any) -> Float[np.ndarray, "n d"]:
    return np.asarray(x).reshape(-1, np.shape(x)[-1])


def _picture(plot: Any, ax: Any, label: str) -> Any:
    from markupsafe import Markup

    ax.locator_params(axis="x", nbins=5)
    ax.set_title("")  # the page has its own headings
    ax.figure.set_size_inches(4.6, 3.1)  # as wide as a phone: letters keep their size there
    return Markup(plot.inline_svg(ax.figure, label))  # matplotlib has escaped what it was given


def _settings(result: GofResult) -> dict[str, Any]:
    return {
        "method": result.method,
        "level": f"{result.alpha:g}",
        "statistic": f"{result.statistic:.6g}",
        "p-value": words.pvalue(result.pvalue, len(result.null_distribution)).removeprefix("p = ").removeprefix("p "),
        "samples tested": result.num_test,
        "samples that chose slices": result.num_train,
        "slices": "none" if result.slices is None else f"{result.slices.num} in {result.slices.dim} dimensions",
        "draws of the null": f"{len(result.null_distribution)}, {result.bootstrap}",
        **{f"{name}, in standard deviations": f"{value:.1f}" for name, value in (result.components or {}).items()},
    }
