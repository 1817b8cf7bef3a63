"""Stein discrepancies that keep working in high dimension.

Samples and the score of an unnormalised model in; a number, a test, or better particles out.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import Any as _Any

from slicestein import gof, rows
from slicestein._checks import InputError
from slicestein._directions.active import active_slices
from slicestein._directions.fitting import SliceFit, fit_slices
from slicestein._directions.whitening import Whitening, whiten
from slicestein._stein.ssd import SSD, ssd
from slicestein.discrepancy import integrated_sksd, ksd, sksd, witness
from slicestein.finite_differences import check_score
from slicestein.gof.door import gof_test
from slicestein.gof.result import GofResult
from slicestein.kernels import IMQ, RBF, Kernel, Matern
from slicestein.samplers import grassmann_svgd, noisy_svgd, run, sliced_svgd, svgd
from slicestein.score import score_from
from slicestein.slices import Slices
from slicestein.thinning import Weights, thin, weights

__version__ = _version("slicestein")

__all__ = [
    "IMQ",
    "RBF",
    "SSD",
    "GofResult",
    "InputError",
    "Kernel",
    "Matern",
    "SliceFit",
    "Slices",
    "Weights",
    "Whitening",
    "active_slices",
    "check",
    "check_score",
    "fit_slices",
    "gof",
    "gof_test",
    "grassmann_svgd",
    "integrated_sksd",
    "ksd",
    "noisy_svgd",
    "rows",
    "run",
    "score_from",
    "sksd",
    "sliced_svgd",
    "ssd",
    "svgd",
    "thin",
    "weights",
    "whiten",
    "witness",
]


_LATE = ("adapters", "learning", "plot", "quality", "report")


def __dir__() -> list[str]:
    """Completion in a notebook knows what is imported late too."""
    return sorted({*globals(), *_LATE, "check"})


def __getattr__(name: str) -> _Any:
    """Modules that need more than the core are imported when they are first used."""
    if name == "check":
        return _import_module("slicestein.adapters.check").check
    if name in _LATE:
        return _import_module(f"slicestein.{name}")
    if name == "demo":
        return _import_module("slicestein._cli.demo")
    raise AttributeError(f"module 'slicestein' has no attribute {name!r}")
