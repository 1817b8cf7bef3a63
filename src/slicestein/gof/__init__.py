"""Goodness-of-fit tests: do these samples come from this model."""

from slicestein.gof.result import GofResult
from slicestein.gof.test import gof_test

__all__ = ["GofResult", "gof_test"]
