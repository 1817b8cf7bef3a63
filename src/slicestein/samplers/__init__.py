"""Samplers: particles that flow to a target, and the Markov chains that the experiments test."""

from slicestein.samplers._grassmann_svgd import grassmann_svgd
from slicestein.samplers._particles import Algorithm, Info, Run, State, run
from slicestein.samplers._rbm import GaussBernoulliRBM
from slicestein.samplers._sghmc import SGHMC
from slicestein.samplers._sliced_svgd import sliced_svgd
from slicestein.samplers._svgd import noisy_svgd, svgd

__all__ = [
    "SGHMC",
    "Algorithm",
    "GaussBernoulliRBM",
    "Info",
    "Run",
    "State",
    "grassmann_svgd",
    "noisy_svgd",
    "run",
    "sliced_svgd",
    "svgd",
]
