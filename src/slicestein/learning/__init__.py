"""Training with Stein discrepancies: unnormalised models, and encoders that need only be sampled from."""

from slicestein.learning.losses import ksd, lsd, maxsksd
from slicestein.learning.training import Fit, Info, State, Trainer, fit, score_from

__all__ = ["Fit", "Info", "State", "Trainer", "fit", "ksd", "lsd", "maxsksd", "score_from"]
