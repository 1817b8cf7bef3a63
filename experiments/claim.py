"""A claim of the paper beside what was found here, and how verdicts are reached.

| verdict | when |
| --- | --- |
| same | the claim holds, beyond two standard errors where it has some |
| better | it holds, by more than in the paper |
| not seen | ours say otherwise, or less |
| not decidable here | the difference is within two standard errors, or needs settings that were not run |
"""

from typing import NamedTuple

import numpy as np

SAME, BETTER, NOT_SEEN, OPEN = "same", "better", "not seen", "not decidable here"
VERDICTS = (SAME, BETTER, NOT_SEEN, OPEN)
SURE = 2.0  # standard errors


class Claim(NamedTuple):
    """A line of the table; ``source`` is a result file, or the tests of a law."""

    what: str
    label: str
    paper: str
    here: str
    verdict: str
    source: str


def verdict(holds: bool, better: bool = False) -> str:
    return (BETTER if better else SAME) if holds else NOT_SEEN


def sign(mean: float, error: float) -> str:
    """Whether a mean is positive as claimed, beyond its error."""
    return OPEN if abs(mean) < SURE * error else verdict(mean > 0)


def plus_minus(values) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
