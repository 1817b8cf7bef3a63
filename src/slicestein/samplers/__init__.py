"""Samplers, one file each: models with exact conditionals, Markov chains and particle methods."""

from slicestein.samplers.rbm import GaussBernoulliRBM
from slicestein.samplers.sghmc import SGHMC

__all__ = ["SGHMC", "GaussBernoulliRBM"]
