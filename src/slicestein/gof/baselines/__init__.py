"""Goodness-of-fit tests to compare with, all with the call shape ``f(x, s, *, key, num_draws, ...) -> Outcome``.

Arguments are checked arrays: ``x`` and ``s`` of shape (N, D) with one float dtype, ``key`` a JAX key.
"""

from slicestein.gof.baselines.fssd import fssd_opt_test, fssd_rand_test
from slicestein.gof.baselines.ksd import ksd_matrix, ksd_test, linear_ksd_test
from slicestein.gof.baselines.mmd import mmd_test
from slicestein.gof.baselines.rfsd import rff_cauchy_test, rff_gaussian_test, rfsd_l1imq_test, rfsd_l2sech_test

__all__ = [
    "fssd_opt_test",
    "fssd_rand_test",
    "ksd_matrix",
    "ksd_test",
    "linear_ksd_test",
    "mmd_test",
    "rff_cauchy_test",
    "rff_gaussian_test",
    "rfsd_l1imq_test",
    "rfsd_l2sech_test",
]
