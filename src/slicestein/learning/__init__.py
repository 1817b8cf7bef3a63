"""Training with Stein discrepancies: unnormalised models, and encoders that need only be sampled from."""

from slicestein.learning._amortised import amortised_sliced_svgd, amortised_svgd
from slicestein.learning._losses import ksd, lsd, maxsksd
from slicestein.learning._training import Fit, Info, State, Trainer, fit, score_from

__all__ = [
    "Fit",
    "Info",
    "State",
    "Trainer",
    "amortised_sliced_svgd",
    "amortised_svgd",
    "fit",
    "ksd",
    "lsd",
    "maxsksd",
    "score_from",
]
