"""Bandwidth rules of particle methods."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

from slicestein.kernels import Kernel

BandwidthRule = Literal["median", "median/log n"]
BANDWIDTH_RULES = get_args(BandwidthRule)


def with_rule(kernel: Kernel, rule: BandwidthRule, num_particles: int) -> Kernel:
    """The kernel whose median bandwidth follows a rule; ``median/log n`` is that of Liu and Wang (2016)."""
    if rule == "median" or kernel.bandwidth is not None:
        return kernel
    return dataclasses.replace(kernel, scale=kernel.scale / math.sqrt(2 * math.log(num_particles)))
