"""The verdict of a test as a person would say it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from slicestein.gof.null import critical_value

if TYPE_CHECKING:
    from slicestein.gof.result import GofResult, Parameter

SHOWN = 5  # parameters, at most
LITTLE = 9.0  # standard deviations below the null: nothing was seen
ABSURD = 1000.0  # standard deviations
POWER = 0.9  # with which an error of the size that is named would have been seen
SEES = {  # the components of a result; the same table is in docs/mcmc.md
    "shift": "means that are off, in all parameters together",
    "largest": "the law of the one parameter, or slice, that is worst",
    "parameters": "the laws of all parameters, in sum",
    "coordinates": "the same after correlations are removed",
    "covariance": "correlations and spreads, all pairs together",
    "radius": "how far draws are from the middle: tails and mixtures that no single parameter shows",
    "fitted slices": "directions that a part of the draws has chosen",
    "chains": "chains that are not where the others are",
}


def summary(result: GofResult) -> Iterator[str]:
    """Lines: the verdict, which parameters are wrong and how, and what it rests on."""
    verdict = {
        "wrong": "the samples do NOT fit the model",
        "fits": "no evidence against the model",
        "undecided": "cannot be told",
    }[result.verdict]
    level = f"level {result.alpha:g}"
    yield f"{result.method}: {verdict} ({pvalue(result.pvalue, len(result.null_distribution))}, {level})"
    if result.reason:
        yield f"  {result.reason}"
    for note in result.notes:
        yield f"  {note}"
    if result.parameters:
        yield from _about_parameters(result)
    elif result.reject and (worst := result.worst(SHOWN)):
        yield "  carried by " + ", ".join(f"{name} ({share:.0%})" for name, share in worst)
    yield f"  {result.num_test} samples tested, {result.num_train} used to choose slices"
    critical = critical_value(result.null_distribution, result.alpha)
    draws = f"{len(result.null_distribution)} draws, {result.bootstrap}"
    yield f"  statistic {result.statistic:.4g}; critical value {critical:.4g} ({draws})"
    if result.components:
        found = ", ".join(f"{name} {deviations(value)}" for name, value in result.components.items())
        yield f"  standard deviations from the null: {found}"
    if result.rhat is not None and result.ess is not None:
        yield f"  largest R-hat {result.rhat.max():.2f}, smallest effective sample size {result.ess.min():.0f}"


def _about_parameters(result: GofResult) -> Iterator[str]:
    parameters = result.parameters or ()
    found = [parameter for parameter in parameters if parameter.finding]
    if not result.reject:
        if result.verdict == "fits":
            yield "  " + could_be_missed(result)
        return
    for parameter in found[:SHOWN]:
        yield f"  {describe(parameter, len(result.null_distribution))}"
    if len(found) > SHOWN:
        more = len(found) - SHOWN
        yield f"  ... and {more} more parameter{'s' if more > 1 else ''}"
    if not found:
        yield "  no single parameter is to blame: the error is in how they depend on each other, or in many"
        if result.components:
            first = max(result.components, key=result.components.__getitem__)
            yield f"  most is seen by '{first}': {SEES[first]}"


def describe(parameter: Parameter, num_bootstrap: int) -> str:
    """One parameter in a sentence."""
    sure = pvalue(parameter.pvalue, num_bootstrap)
    shift = size(abs(parameter.shift), parameter.shift_error)
    spread = f"its spread is {size(parameter.spread, parameter.spread_error)} of what it should be"
    how = {
        "too high": f"its mean is {shift} standard deviations too high",
        "too low": f"its mean is {shift} standard deviations too low",
        "too narrow": spread,
        "too wide": spread,
    }.get(parameter.finding, "mean and spread are about right")
    return f"{parameter.name} is {_kind(parameter.finding)}: {how} ({sure})"


def size(value: float, error: float) -> str:
    """An estimate with its standard error; of one that is absurd, which no linearisation can give, a bound."""
    return f"{value:.2f} ± {error:.2f}" if abs(value) < ABSURD else f"beyond {math.copysign(ABSURD, value):.0f}"


def _kind(finding: str) -> str:
    return "of the wrong shape" if finding == "wrong shape" else finding


def could_be_missed(result: GofResult) -> str:
    """How large an error of one parameter would have been seen, had there been one."""
    shift, spread = detectable(result)
    return (
        f"in any parameter, a mean off by more than {shift:.2f} standard deviations or a spread wrong by more than "
        f"{min(spread, 1):.0%} would most likely have been seen"
    )


def detectable(result: GofResult) -> tuple[float, float]:
    """Error of a mean, in standard deviations, and of a spread, as a share, that are found with probability `POWER`."""
    parameters = result.parameters or ()
    z = statistics.NormalDist().inv_cdf(1 - result.alpha / (6 * len(parameters)))  # three statistics, two sides
    z += statistics.NormalDist().inv_cdf(POWER)
    shift = z * max(parameter.shift_error for parameter in parameters)
    spread = z * max(parameter.spread_error / parameter.spread for parameter in parameters)
    return shift, spread


def deviations(value: float) -> str:
    """How much a part of the test has seen; where draws of the null have no spread it may be minus infinity."""
    return f"{value:.1f}" if value > -LITTLE else f"< -{LITTLE:.0f}"


def pvalue(value: float, num_bootstrap: int) -> str:
    """A p-value; the smallest that so many draws can give is a bound."""
    if value > 1 / (num_bootstrap + 1) or not np.isfinite(value):
        return f"p = {value:.2g}"
    rounded = float(f"{value:.1g}")
    rounded = rounded if rounded >= value else rounded + 10.0 ** math.floor(math.log10(value))
    return f"p < {rounded:.1g}" if rounded > value else f"p ≤ {rounded:.1g}"
