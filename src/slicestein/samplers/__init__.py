"""Samplers: particles that flow to a target, and the Markov chains that the experiments test."""

from slicestein.samplers.grassmann_svgd import grassmann_svgd
from slicestein.samplers.particles import Algorithm, Info, Run, State, run
from slicestein.samplers.rbm import GaussBernoulliRBM
from slicestein.samplers.sghmc import SGHMC
from slicestein.samplers.sliced_svgd import sliced_svgd
from slicestein.samplers.svgd import noisy_svgd, svgd

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
