"""Goodness-of-fit tests: do these samples come from this model.

A walk through the default test: `door` checks, `maxsksd` leads; `plan` chooses what to look at, `survey` goes over all
rows once and `measure` sums their features, `verdict` judges the sums. `monitor` does so while draws still come. Other
methods are in `baselines`.
"""

from slicestein.gof.baselines.fssd import FSSD
from slicestein.gof.baselines.ksd import KSD, LinearKSD
from slicestein.gof.baselines.ksdagg import KSDAgg
from slicestein.gof.baselines.mmd import MMD
from slicestein.gof.baselines.published import PublishedMaxSKSD
from slicestein.gof.baselines.rfsd import RFF, RFSD
from slicestein.gof.door import gof_test
from slicestein.gof.maxsksd import MaxSKSD
from slicestein.gof.method import Method
from slicestein.gof.monitor import Monitor
from slicestein.gof.result import GofResult, Parameter

__all__ = [
    "FSSD",
    "KSD",
    "MMD",
    "RFF",
    "RFSD",
    "GofResult",
    "KSDAgg",
    "LinearKSD",
    "MaxSKSD",
    "Method",
    "Monitor",
    "Parameter",
    "PublishedMaxSKSD",
    "gof_test",
]
