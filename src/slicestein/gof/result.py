"""What a goodness-of-fit test says: the verdict, which parameters are wrong and how, and what carries it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.gof import words
from slicestein.slices import Slices

FEW_DRAWS = 50  # effective ones, below which a test that finds nothing has not looked
LARGE_RHAT = 1.05  # above, chains or their halves differ by more than their memory, and nothing can be told from them


class Parameter(NamedTuple):
    """What is wrong with one parameter, as far as it can be told.

    ``pvalue`` counts how many parameters were looked at. ``shift`` is the error of the mean in standard deviations of
    the model, ``spread`` the ratio of the standard deviations, samples to model, each with its standard error; ``unit``
    is that standard deviation in the units of the parameter. ``finding`` is one of "too high", "too low", "too narrow",
    "too wide", "wrong shape", or "" where nothing was found.
    """

    name: str
    pvalue: float
    shift: float
    shift_error: float
    spread: float
    spread_error: float
    unit: float
    finding: str


@dataclass(frozen=True, eq=False)
class GofResult:
    """Outcome of a goodness-of-fit test; prints as a summary.

    ``verdict`` is "wrong" if the test rejects, "undecided" if it does not and the draws are too few to tell, with
    the ``reason``, and "fits" otherwise: as far as so many draws can tell.
    """

    statistic: float
    pvalue: float
    null_distribution: Float[np.ndarray, " b"] = field(repr=False)
    alpha: float
    method: str
    num_train: int
    num_test: int
    slices: Slices | None = field(default=None, repr=False)  # in the coordinates of the samples
    per_slice: Float[np.ndarray, " m"] | None = field(default=None, repr=False)
    per_dimension: Float[np.ndarray, " d"] | None = field(default=None, repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
    bootstrap: str = "wild"
    components: dict[str, float] | None = None  # of maxSKSD-rg, in standard deviations of the null
    parameters: tuple[Parameter, ...] | None = field(default=None, repr=False)  # worst first
    rhat: Float[np.ndarray, " d"] | None = field(default=None, repr=False)
    ess: Float[np.ndarray, " d"] | None = field(default=None, repr=False)
    stray_chain: int | None = None  # the chain that is elsewhere, where chains disagree
    notes: tuple[str, ...] = ()  # what the sampler has said of its own run, or the test has noticed

    @property
    def reject(self) -> bool:
        """Whether the samples are found not to come from the model."""
        return bool(self.pvalue <= self.alpha)

    @property
    def verdict(self) -> Literal["fits", "wrong", "undecided"]:
        """The verdict in a word."""
        if self.reject:
            return "wrong"
        return "undecided" if self.reason else "fits"

    @property
    def reason(self) -> str:
        """Why nothing can be told, or what is wrong with the chains; else empty."""
        if self.reject:
            return "" if self.stray_chain is None else f"chain {self.stray_chain + 1} is elsewhere"
        if self.ess is None and self.num_test < FEW_DRAWS:
            return f"too few samples to tell: {self.num_test}; with fewer than {FEW_DRAWS} only gross errors are seen"
        if self.ess is not None and self.ess.min() < FEW_DRAWS:
            worst = int(np.argmin(self.ess))
            return (
                f"too few independent draws to tell: {self._name(worst)} has an effective sample size of "
                f"{self.ess[worst]:.0f}; run the chains longer"
            )
        if self.rhat is not None and self.rhat.max() > LARGE_RHAT:
            worst = int(np.argmax(self.rhat))
            return (
                f"the chains have not settled: {self._name(worst)} has an R-hat of {self.rhat[worst]:.2f}; drop their "
                "beginning, or run them longer"
            )
        return ""

    def worst(self, num: int = 5) -> list[tuple[str, float]]:
        """Names of the coordinates that carry most of the discrepancy, with their shares."""
        if self.per_dimension is None:
            return []
        order = np.argsort(-self.per_dimension)[:num]
        return [(self._name(i), float(self.per_dimension[i])) for i in order if self.per_dimension[i] > 0]

    def _name(self, index: int) -> str:
        return f"x[{index}]" if self.names is None else self.names[index]

    def summary(self) -> str:
        """The verdict in words, and what it rests on."""
        return "\n".join(words.summary(self))

    def plot(self) -> Any:
        """A matplotlib figure: the null distribution, and the errors of the parameters."""
        from slicestein import plot  # matplotlib is optional

        return plot.overview(self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        if not self.parameters:
            return f"<pre>{escape(self.summary())}</pre>"
        verdict, why, *_ = self.summary().splitlines()
        rows = ""
        for one in self.parameters[: words.SHOWN]:
            sure = words.pvalue(one.pvalue, len(self.null_distribution)).removeprefix("p ").removeprefix("= ")
            sizes = (words.size(one.shift, one.shift_error), words.size(one.spread, one.spread_error))
            cells = (one.name, one.finding or "–", sure, *sizes)
            rows += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        heads = ("parameter", "finding", "p", "error of the mean, sd", "spread, ratio")
        head = "<tr>" + "".join(f"<th>{name}</th>" for name in heads) + "</tr>"
        more = f"<details><summary>more</summary><pre>{escape(self.summary())}</pre></details>"
        return f"<div><b>{escape(verdict)}</b><br>{escape(why)}<table>{head}{rows}</table>{more}</div>"

    def to_frame(self) -> Any:
        """The table of parameters as a pandas DataFrame, one row for each, worst first."""
        if self.parameters is None:
            raise InputError(f"{self.method} does not look at single parameters: test with the default method")
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise InputError("a table needs pandas: pip install pandas") from None
        return pd.DataFrame(list(self.parameters), columns=Parameter._fields).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON: None where a number is not finite."""
        names = ("statistic", "pvalue", "alpha", "reject", "verdict", "reason", "method", "num_train", "num_test")
        plain = {name: getattr(self, name) for name in (*names, "components", "bootstrap", "stray_chain")}
        plain["names"], plain["notes"] = self.names and list(self.names), list(self.notes)
        plain["parameters"] = self.parameters and [parameter._asdict() for parameter in self.parameters]
        arrays: dict[str, Any] = {
            name: getattr(self, name) for name in ("null_distribution", "per_slice", "per_dimension", "rhat", "ess")
        }
        if self.slices is not None:
            arrays |= {"r": self.slices.r, "g": self.slices.g}
        return finite(plain | {name: None if a is None else np.asarray(a).tolist() for name, a in arrays.items()})


def finite(value: Any) -> Any:
    """The same with None in place of numbers that JSON does not know."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
