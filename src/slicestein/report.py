"""A goodness-of-fit test as one web page: self-contained, light or dark, readable on a phone.

Needs jinja2 and matplotlib (extra ``report``).
"""

from __future__ import annotations

import importlib.util
import math
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError, ScoreLike, from_torch
from slicestein.gof import words
from slicestein.gof.result import GofResult
from slicestein.rows.arrays import as_rows
from slicestein.rows.writing import check_place, write_whole
from slicestein.slices import Slices

TEMPLATE = "report.html.jinja"
SLICES = 4  # shown, at most
ALIKE = 0.9  # slices with such cosines, of r and of g, see the same
SINGLE = 0.999  # a direction with such a coefficient is that of one parameter
PARAMETERS, SMALLEST_SHARE = 15, 0.005  # listed: so many at most, with at least this share
AXIS_LETTERS = 24  # of a name along an axis
FINDINGS = 50  # parameters that are wrong, listed at most
LEAST_ERROR = 1e-6  # of a number: below, its digits say nothing
VERSIONS = ("slicestein", "jax", "jaxlib", "numpy", "scipy")


class SliceInWords(NamedTuple):
    """One slice: its share of the discrepancy, its two directions as sums of parameters, and how to draw it."""

    share: float  # with that of slices which see the same
    g: str
    r: str
    directions: Slices  # in units of the standard deviations
    parameter: int | None  # the only one along g, if there is only one


def worst_slices(result: GofResult, x: Any = None, num: int = SLICES) -> list[SliceInWords]:
    """The slices that carry most of the discrepancy, in words; of slices that see the same, the plainest.

    Coefficients are those of parameters in units of their standard deviation in x, and of scores in units of its
    inverse; without x the units are those of the samples. The largest coefficient is positive: a sign of r or of g
    changes the sign of the witness or of its axis alone.
    """
    if result.slices is None or result.per_slice is None:
        return []
    scale = np.ones(result.slices.dim) if x is None else _scale(_flat(x))
    names = result.names or tuple(f"x[{i}]" for i in range(result.slices.dim))
    r, g = (_upward(part) for part in (np.asarray(result.slices.r) / scale, np.asarray(result.slices.g) * scale))
    shares = np.maximum(result.per_slice, 0)
    shares = shares / (shares.sum() or 1)
    return [_in_words(r[i], g[i], names, share) for i, share in _distinct(r, g, shares, num)]


def _upward(directions: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
    """Directions of unit length whose largest coefficient is positive."""
    largest = np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], 1)
    return directions * np.sign(largest) / np.linalg.norm(directions, axis=1, keepdims=True)


def _distinct(
    r: Float[np.ndarray, "m d"], g: Float[np.ndarray, "m d"], shares: Float[np.ndarray, " m"], num: int
) -> list[tuple[int, float]]:
    """Slices that see different things, largest first, each with the shares of all that see the same."""
    left = shares.copy()
    found: list[tuple[int, float]] = []
    while len(found) < num and left.max() > 0:
        first = int(left.argmax())
        alike = (left > 0) & (np.abs(r @ r[first]) > ALIKE) & (np.abs(g @ g[first]) > ALIKE)
        alike[first] = True
        plainest = int(np.argmax(np.where(alike, np.abs(g).max(1), -1)))
        found.append((plainest, float(left[alike].sum())))
        left[alike] = 0
    return sorted(found, key=lambda one: -one[1])


def _in_words(
    r: Float[np.ndarray, " d"], g: Float[np.ndarray, " d"], names: tuple[str, ...], share: float
) -> SliceInWords:
    largest = int(g.argmax())
    parameter = largest if g[largest] >= SINGLE else None
    return SliceInWords(share, _sum(g, names), _sum(r, names), Slices(r[None], g[None]), parameter)


def _sum(direction: Float[np.ndarray, " d"], names: tuple[str, ...]) -> str:
    """The three largest terms of a direction of unit length: "0.95 beta[17] − 0.21 beta[3] + ..."."""
    order = [i for i in np.argsort(-np.abs(direction))[:3] if abs(direction[i]) >= 0.1]
    terms = [f"{'−' if direction[i] < 0 else '+'} {abs(direction[i]):.2f} {names[i]}" for i in order]
    rest = " + …" if np.sum(direction[order] ** 2) < 0.95 else ""
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
    if not isinstance(result, GofResult):
        raise InputError(f"result must be what gof_test returned, got {type(result).__name__}")
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report is a web page: name a file that ends in .html")
    check_place(path)
    slices = worst_slices(result, x)
    carried = [(name, share) for name, share in result.worst(PARAMETERS) if share >= SMALLEST_SHARE]
    page = _template().render(
        title=title,
        result=result,
        slices=slices,
        carried=carried,
        others=0 if result.per_dimension is None else len(result.per_dimension) - len(carried),
        rows=_rows(result),
        chains=_chains(result),
        parts=[
            (name, words.SEES[name], words.deviations(value).replace("-", "−"))
            for name, value in (result.components or {}).items()
        ],
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
            raise InputError(f"a report needs {name}: pip install jinja2 matplotlib")


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


def _rows(result: GofResult) -> list[dict[str, str]]:
    """The table of parameters, worst first, by heading: all that are wrong, but not too many, and some more."""
    parameters = result.parameters or ()
    wrong = sum(bool(parameter.finding) for parameter in parameters)
    return [
        {
            "parameter": one.name,
            "finding": one.finding or "–",
            "p": _bare(words.pvalue(one.pvalue, len(result.null_distribution))),
            "mean off by, sd": with_error(one.shift, one.shift_error),
            "in own units": with_error(one.shift * one.unit, one.shift_error * one.unit),
            "spread, ratio": with_error(one.spread, one.spread_error),
        }
        for one in parameters[: max(PARAMETERS, min(wrong, FINDINGS))]
    ]


def with_error(value: float, error: float) -> str:
    """A number with its standard error, in as many digits as the error has meaning: two."""
    if not LEAST_ERROR * abs(value) < error < math.inf:
        return f"{value:.3g}"
    exponent = math.floor(math.log10(max(abs(value), error)))
    if -5 < exponent < 6:
        exponent = 0
    decimals = max(0, 1 - math.floor(math.log10(error)) + exponent)
    value, error = (round(part / 10.0**exponent, decimals) + 0.0 for part in (value, error))  # no minus before zero
    text = f"{value:.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")
    return f"({text}) · 1e{exponent}" if exponent else text


def _chains(result: GofResult) -> dict[str, str]:
    """What chains say of each other, by heading."""
    said = {}
    if result.rhat is not None:
        worst = int(np.argmax(result.rhat))
        said["largest R-hat"] = f"{result.rhat[worst]:.2f} ({_name(result, worst)})"
    if result.ess is not None:
        worst = int(np.argmin(result.ess))
        said["smallest effective sample size"] = f"{result.ess[worst]:,.0f} ({_name(result, worst)})"
    return said


def _bare(p: str) -> str:
    return p.removeprefix("p ").removeprefix("= ")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pictures(result: GofResult, x: Any, score: ScoreLike | None, slices: list[SliceInWords]) -> dict[str, Any]:
    """The null, the parameters, and the witness along each slice where there are samples and scores to draw it with."""
    from slicestein import plot

    pictures = []
    if x is not None and score is not None:
        samples, scores = as_rows(_flat(x), score if callable(score) else _flat(score))
        for number, one in enumerate(slices):
            ax = _witness(plot, samples, scores, one, result)
            pictures.append(_picture(plot, ax, f"Witness function along slice {number + 1}"))
    null = _picture(plot, plot.null_distribution(result), "Null distribution")
    forest = ""
    if result.parameters:
        figure: Any = plot.forest(result, num=PARAMETERS)[0].figure
        forest = _drawn(plot, figure, "Errors of mean and spread of the parameters", figure.get_figheight())
    return {"null": null, "forest": forest, "pictures": pictures}


def _witness(
    plot: Any, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"], one: SliceInWords, result: GofResult
) -> Any:
    """The witness along a slice: over a parameter in its own units, or over a sum in units of its terms."""
    scale, r, g = _scale(x), np.asarray(one.directions.r), np.asarray(one.directions.g)
    if one.parameter is None:
        label, x = "position along g", x - x.mean(0)
    else:
        label = plot.shorten(_name(result, one.parameter), AXIS_LETTERS) + ", own units"
        g = np.eye(len(scale))[[one.parameter]]
        r = r * np.where(g[0] > 0, scale, 1)
        scale = np.where(g[0] > 0, 1, scale)
    ax = plot.witness_along(x / scale, s * scale, Slices(r, g), label=label)
    ax.set_yticks([0])  # a witness has no scale of its own: the band is its measure
    return ax


def _scale(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    scale = x.std(0)
    return np.where(scale > 0, scale, 1)


def _name(result: GofResult, index: int) -> str:
    return result.names[index] if result.names else f"x[{index}]"


def _flat(x: Any) -> Float[np.ndarray, "n d"]:
    return np.asarray(from_torch(x)).reshape(-1, np.shape(x)[-1])


def _picture(plot: Any, ax: Any, label: str) -> Any:
    ax.locator_params(axis="x", nbins=5)
    ax.set_title("")  # the page has its own headings
    return _drawn(plot, ax.figure, label, 3.0)


def _drawn(plot: Any, figure: Any, label: str, height: float) -> Any:
    from markupsafe import Markup

    figure.set_size_inches(3.8, height)  # as wide as a phone: letters keep their size there
    return Markup(plot.inline_svg(figure, label))  # matplotlib has escaped what it was given


def _settings(result: GofResult) -> dict[str, Any]:
    return {
        "method": result.method,
        "level": f"{result.alpha:g}",
        "statistic": f"{result.statistic:.6g}",
        "p-value": _bare(words.pvalue(result.pvalue, len(result.null_distribution))),
        "samples tested": result.num_test,
        "samples that chose slices": result.num_train,
        "slices": "none" if result.slices is None else f"{result.slices.num} in {result.slices.dim} dimensions",
        "draws of the null": f"{len(result.null_distribution)}, {result.bootstrap}",
    }
