r"""What a test looks at: Stein kernels between samples, as matrices and as quadratic forms in linear time.

All of them are sliced. `Slicewise` adds up the kernels of given slices; the other two add up *all* pairs of
coordinates r and g, with test functions so simple that the sum has a closed form:

$$
f = 1: \; h_{ij} = s_i^\top s_j, \qquad
f(t) = t: \; h_{ij} = \langle s_i x_i^\top + I, \, s_j x_j^\top + I \rangle .
$$

The first sees a shift (it is all that the KSD is left with in high dimension), the second a wrong covariance.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from slicestein._stein import engine, fourier
from slicestein._stein.operator import Projected, diagonal_mean, unbiased
from slicestein._stein.tiles import weighted_sum_of_features
from slicestein.kernels import Kernel
from slicestein.slices import Slices


class Component(eqx.Module):
    """A Stein kernel h on N samples."""

    @property
    def is_linear(self) -> bool:
        """Whether the quadratic form costs O(N)."""
        return True

    @property
    @abc.abstractmethod
    def num_features(self) -> int | None:
        """Number K of features; None if h has none."""

    @property
    @abc.abstractmethod
    def samples(self) -> Any:
        """What the features are made of, arrays (N, ...)."""

    @abc.abstractmethod
    def features(self, samples: Any) -> Float[Array, "n k"]:
        """F of some of the samples, with h = F F^T."""

    @abc.abstractmethod
    def matrix(self) -> Float[Array, "n n"]:
        """h between all samples."""

    def quadratic_form(self, w: Float[Array, " n"]) -> Float[Array, ""]:
        r"""$\sum_{ij} w_i w_j h_{ij}$, without the matrix."""
        assert self.num_features is not None
        return jnp.sum(weighted_sum_of_features(self.features, self.samples, w, self.num_features) ** 2)

    @abc.abstractmethod
    def diagonal(self) -> Float[Array, " n"]:
        """h(x, x)."""

    @abc.abstractmethod
    def by_coordinate(self) -> Float[Array, " d"]:
        """What every coordinate adds to U, where positive."""


class Slicewise(Component):
    """Given slices, each with a weight."""

    data: Projected
    slices: Slices
    kernel: Kernel
    rule: int | None = eqx.field(static=True)  # of `fourier`; None where the data are too wide for any

    def __init__(self, data: Projected, weights: Float[Array, " m"], slices: Slices, kernel: Kernel):
        self.data, widest = _weighted(data, weights)
        self.slices = slices
        self.kernel = kernel
        self.rule = fourier.shortest_rule(widest, kernel)

    @property
    def is_linear(self) -> bool:
        return self.kernel.spectrum is not None

    @property
    def num_features(self) -> int | None:
        if self.rule is None:
            return None
        return 2 * self.slices.num * fourier.num_frequencies(self.data.u.dtype.name, self.kernel, self.rule)

    @property
    def samples(self) -> Any:
        u, a, c = self.data
        return Projected(fourier.centred(u).T, a.T, jnp.broadcast_to(c, u.shape).T)

    def features(self, samples: Any) -> Float[Array, "n k"]:
        assert self.rule is not None
        u, a, c = samples
        return fourier.features(u, a, c, self.kernel.unit, self.rule).reshape(len(u), -1)

    def matrix(self) -> Float[Array, "n n"]:
        return (
            engine.matrix(self.data, self.kernel, "exact")
            if self.rule is None
            else fourier.matrix(self.data, self.kernel.unit, self.rule)
        )

    def quadratic_form(self, w: Float[Array, " n"]) -> Float[Array, ""]:
        if self.rule is not None:
            return super().quadratic_form(w)
        u, a, c = self.data
        weighted = Projected(u, w * a, w * jnp.broadcast_to(c, u.shape))
        return float(w.shape[0]) ** 2 * engine.value(weighted, self.kernel).sum()  # a float: N^2 overflows int32

    def diagonal(self) -> Float[Array, " n"]:
        k, _, k2 = self.kernel.derivatives(jnp.zeros((), self.data.u.dtype))
        return jnp.sum(k * self.data.a**2 - k2 * self.data.c**2, axis=0)

    def per_slice(self) -> Float[Array, " m"]:
        """U of every slice."""
        count = self.data.u.shape[1]
        return unbiased(engine.value(self.data, self.kernel), diagonal_mean(self.kernel, self.data), count)

    def by_coordinate(self) -> Float[Array, " d"]:
        return jnp.maximum(self.per_slice(), 0) @ (self.slices.r**2 + self.slices.g**2) / 2


class Shift(Component):
    """Every r with the test function 1: the mean of the scores."""

    s: Float[Array, "n d"]

    @property
    def num_features(self) -> int:
        return self.s.shape[1]

    @property
    def samples(self) -> Any:
        return self.s

    def features(self, samples: Any) -> Float[Array, "n k"]:
        return samples

    def matrix(self) -> Float[Array, "n n"]:
        return self.s @ self.s.T

    def diagonal(self) -> Float[Array, " n"]:
        return jnp.sum(self.s**2, axis=1)

    def by_coordinate(self) -> Float[Array, " d"]:
        return jnp.maximum(jnp.sum(self.s, axis=0) ** 2 - jnp.sum(self.s**2, axis=0), 0)


class Covariance(Component):
    """Every pair r, g with the test function t: the matrix E[s x^T] + I. The samples x are centred."""

    x: Float[Array, "n d"]
    s: Float[Array, "n d"]

    @property
    def num_features(self) -> int:
        return self.x.shape[1] ** 2

    @property
    def samples(self) -> Any:
        return self.x, self.s

    def features(self, samples: Any) -> Float[Array, "n k"]:
        x, s = samples
        return (s[:, :, None] * x[:, None, :] + self._identity).reshape(len(x), -1)

    def matrix(self) -> Float[Array, "n n"]:
        slope = jnp.sum(self.x * self.s, axis=1)
        return (self.s @ self.s.T) * (self.x @ self.x.T) + slope[:, None] + slope + self.x.shape[1]

    def diagonal(self) -> Float[Array, " n"]:
        square = jnp.sum(self.x**2, axis=1) * jnp.sum(self.s**2, axis=1)
        return square + 2 * jnp.sum(self.x * self.s, axis=1) + self.x.shape[1]

    def by_coordinate(self) -> Float[Array, " d"]:
        count = self.x.shape[0]
        cross, squares = self.s.T @ self.x, (self.s**2).T @ self.x**2
        same = squares + self._identity * (2 * cross + count)
        parts = jnp.maximum((cross + count * self._identity) ** 2 - same, 0)
        return (parts.sum(0) + parts.sum(1)) / 2

    @property
    def _identity(self) -> Float[Array, "d d"]:
        return jnp.eye(self.x.shape[1], dtype=self.x.dtype)


@jax.jit
def _weighted(data: Projected, weights: Float[Array, " m"]) -> tuple[Projected, Float[Array, ""]]:
    """Projections that carry the weights of their slices, and the range of the widest."""
    root = jnp.sqrt(weights)[:, None]
    return Projected(data.u, root * data.a, root * data.c), jnp.ptp(data.u, axis=1).max()
