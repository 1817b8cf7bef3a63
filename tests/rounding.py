"""Tolerances that follow from the arithmetic of a run: double precision, or single as in `make single`."""

import jax.numpy as jnp


def eps():
    """Distance from one to the next number that JAX works with."""
    return float(jnp.finfo(jnp.result_type(float)).eps)


def rounding(count, least=0.0):
    """What ``count`` roundings may add up to; ``least`` is what is not rounding: digits printed, spectra cut off.

    A sum of n terms has about sqrt(n) roundings, the derivative of a difference as many more as digits cancel.
    """
    return max(count * eps(), least)


def central_difference(step, error):
    """Step and relative error of a central difference; longer and larger in single precision.

    Ten roundings over the step, and ten times its square, are alike where the step is the cube root of eps.
    """
    step = max(eps() ** (1 / 3), step)
    return step, max(10 * (eps() / step + step**2), error)
