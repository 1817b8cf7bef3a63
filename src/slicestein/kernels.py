r"""Radial kernels $k(x, y) = \kappa(|x - y| / h)$: their derivatives and spectra.

Everything is written for bandwidth one: dividing the inputs by h does the rest, because with
$u = t / h$ the Stein kernel of a slice only sees $u$ and $c / h$.
A kernel gives, as functions of the squared distance $q = d^2$,

$$ \kappa(d), \qquad \kappa'(d) / d, \qquad \kappa''(d), $$

which serve the sliced kernels (d is a number) and the plain KSD (d is a norm) alike.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from slicestein import _checks
from slicestein._checks import InputError

# Arrays of JAX give arrays of JAX, those of NumPy give those of NumPy.
AnyArray = TypeVar("AnyArray", jax.Array, np.ndarray)


class Spectrum(NamedTuple):
    r"""Spectral density S of a kernel, $\kappa(d) = \int S(w) \cos(w d) dw$, with decay on both sides."""

    density: Callable[[np.ndarray], np.ndarray]
    reach: Callable[[float], float]  # tolerance -> distance beyond which the kernel is negligible
    cutoff: Callable[[float], float]  # tolerance -> frequency beyond which the density is negligible


class Kernel(eqx.Module):
    """A radial kernel with a bandwidth rule; subclasses give the profile.

    Attributes
    ----------
    bandwidth
        ``"median"`` (the median distance between samples, per slice, gradient stopped), a number, or an
        array (M,) with one bandwidth per slice.
    scale
        Factor on the bandwidth: ``RBF(scale=1.5)`` is 1.5 times the median.

    Notes
    -----
    A subclass may have parameters of shape. If the spectrum depends on them they must be known when a program is
    compiled: ``eqx.field(static=True)``.
    """

    bandwidth: float | Array | None = eqx.field(
        default=None, converter=lambda value: None if isinstance(value, str) and value == "median" else value
    )
    scale: float = 1.0

    def __check_init__(self) -> None:
        if isinstance(self.bandwidth, str):
            raise InputError(f'bandwidth must be "median", a number or an array, got {self.bandwidth!r}')

    @abc.abstractmethod
    def derivatives(self, q: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        r"""$\kappa(d), \kappa'(d)/d, \kappa''(d)$ at squared distance q, for bandwidth one.

        Of the kind of q: NumPy for NumPy, which asks JAX for nothing.
        """

    @property
    def spectrum(self) -> Spectrum | None:
        """The spectral density at bandwidth one, if it decays fast enough for sums in linear time."""
        return None

    @property
    def unit(self) -> Kernel:
        """The kernel at bandwidth one: hashable where the parameters of shape are numbers."""
        return dataclasses.replace(self, bandwidth=None, scale=1.0)


class RBF(Kernel):
    r"""Gaussian kernel, $\kappa(d) = \exp(-d^2 / 2)$."""

    def derivatives(self, q: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        k = namespace(q).exp(-0.5 * q)
        return k, -k, (q - 1) * k

    @property
    def spectrum(self) -> Spectrum | None:
        return Spectrum(
            density=lambda w: np.exp(-0.5 * w**2) / math.sqrt(2 * math.pi),
            reach=lambda tolerance: math.sqrt(-2 * math.log(tolerance)),
            cutoff=lambda tolerance: math.sqrt(-2 * math.log(tolerance)),
        )


class IMQ(Kernel):
    r"""Inverse multiquadric, $\kappa(d) = (1 + d^2)^{\beta}$, $\beta < 0$; heavier tails see distant errors."""

    exponent: float = -0.5

    def __check_init__(self) -> None:
        if _checks.is_concrete(self.exponent) and not self.exponent < 0:
            raise InputError(f"exponent must be negative, got {self.exponent!r}")

    def derivatives(self, q: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        base = 1 + q
        k = base**self.exponent
        slope = 2 * self.exponent * k / base
        return k, slope, slope + 2 * (self.exponent - 1) * q * slope / base


class Matern(Kernel):
    r"""Matern kernel of smoothness 3/2 or 5/2.

    $$ (1 + \sqrt 3 d) e^{-\sqrt 3 d}, \qquad (1 + \sqrt 5 d + 5 d^2 / 3) e^{-\sqrt 5 d}. $$
    """

    smoothness: float = eqx.field(default=1.5, static=True)

    def __check_init__(self) -> None:
        if self.smoothness not in (1.5, 2.5):
            raise InputError(f"smoothness must be 1.5 or 2.5, got {self.smoothness!r}")

    def derivatives(self, q: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        xp = namespace(q)
        # The derivative of sqrt at zero is infinite; every use below is multiplied by something that vanishes.
        positive = q > 0
        v = math.sqrt(2 * self.smoothness) * xp.where(positive, xp.sqrt(xp.where(positive, q, 1)), 0)
        decay = xp.exp(-v)
        if self.smoothness == 1.5:
            return (1 + v) * decay, -3 * decay, -3 * (1 - v) * decay
        slope = -(5 / 3) * (1 + v) * decay
        return (1 + v + v**2 / 3) * decay, slope, slope + (5 / 3) * v**2 * decay


def namespace(array: Any) -> Any:
    """``jax.numpy`` for arrays of JAX, traced ones too, ``numpy`` for all others."""
    return jnp if isinstance(array, jax.Array) else np
