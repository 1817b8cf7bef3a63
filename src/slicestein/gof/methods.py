"""Every test of the package by name; most names are shortcuts for a method object with its default options."""

from __future__ import annotations

from collections.abc import Callable

from slicestein._checks import InputError
from slicestein.gof.baselines.fssd import FSSD
from slicestein.gof.baselines.ksd import KSD, LinearKSD
from slicestein.gof.baselines.ksdagg import KSDAgg
from slicestein.gof.baselines.published import PublishedMaxSKSD
from slicestein.gof.baselines.rfsd import RFF, RFSD
from slicestein.gof.maxsksd import MaxSKSD
from slicestein.gof.method import Method

METHODS: dict[str, Callable[[], Method]] = {
    "auto": MaxSKSD,  # the one our own power tables favour
    "maxsksd-g": lambda: MaxSKSD("g"),
    "maxsksd-rg": MaxSKSD,
    "maxsksd-g-published": PublishedMaxSKSD,
    "maxsksd-rg-published": lambda: PublishedMaxSKSD("rg"),
    "ksd": KSD,
    "linear-ksd": LinearKSD,
    "ksdagg": KSDAgg,
    "fssd-rand": lambda: FSSD("rand"),
    "fssd-opt": lambda: FSSD("opt"),
    "rfsd-l1imq": lambda: RFSD("l1imq"),
    "rfsd-l2sech": lambda: RFSD("l2sech"),
    "rff-gaussian": lambda: RFF("gaussian"),
    "rff-cauchy": lambda: RFF("cauchy"),
}


def as_method(method: str | Method) -> Method:
    """A method object, from itself or from its name."""
    if isinstance(method, Method):
        return method
    if method == "mmd":
        raise InputError("mmd compares two samples: pass method=slicestein.gof.MMD(model_samples), draws of the model")
    if method not in METHODS:
        raise InputError(
            f"method must be an object of slicestein.gof or one of {sorted([*METHODS, 'mmd'])}, got {method!r}"
        )
    return METHODS[method]()
