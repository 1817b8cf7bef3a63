"""The table of kernels: each of them inherits every law of the tests."""

import math

import equinox as eqx
import numpy as np

import slicestein as ss
from slicestein.kernels import Spectrum, namespace


class TwoScales(ss.Kernel):
    r"""Mixture of two Gaussians, $w e^{-d^2 / 2} + (1 - w) e^{-d^2 / 2 l^2}$: what a kernel from outside has to say."""

    weight: float = eqx.field(default=0.5, static=True)
    ratio: float = eqx.field(default=0.5, static=True)

    def derivatives(self, q):
        xp = namespace(q)
        parts = []
        for weight, length in ((self.weight, 1.0), (1 - self.weight, self.ratio)):
            k = weight * xp.exp(-0.5 * q / length**2)
            parts.append((k, -k / length**2, (q / length**2 - 1) * k / length**2))
        return tuple(sum(pair) for pair in zip(*parts, strict=True))

    @property
    def spectrum(self):
        normal = lambda w: np.exp(-0.5 * w**2) / math.sqrt(2 * math.pi)
        reach = lambda tolerance: math.sqrt(-2 * math.log(tolerance))
        return Spectrum(
            density=lambda w: self.weight * normal(w) + (1 - self.weight) * self.ratio * normal(self.ratio * w),
            reach=lambda tolerance: max(1, self.ratio) * reach(tolerance),
            cutoff=lambda tolerance: reach(tolerance) / min(1, self.ratio),
        )


KERNELS = [
    ss.RBF(),
    ss.RBF(0.7),
    ss.IMQ(),
    ss.IMQ(2.0, exponent=-0.3),
    ss.Matern(),
    ss.Matern(smoothness=2.5),
    TwoScales(),
    TwoScales(1.3, weight=0.2, ratio=2.0),
]
WITH_SPECTRUM = [kernel for kernel in KERNELS if kernel.spectrum is not None]
