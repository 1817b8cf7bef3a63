r"""The sliced Stein discrepancy itself, without a kernel (labels "eq: SSD", "eq:maxSSD").

Per slice, over test functions with $E_q f^2 \le 1$ spanned by a basis $\phi$ of the line,

$$
\sup_f E_q[a f(t) + c f'(t)] = \sqrt{b^\top C^{-1} b}, \quad
b = E_q[a \phi + c \phi'], \quad C = E_q[\phi \phi^\top],
$$

reached by $f \propto f^* = \phi^\top C^{-1} b$: a small linear solve, no adversary. By Stein's identity
$f^*$ is the least-squares fit to $E_q[(s_p - s_q)^\top r \mid x^\top g = t]$, the projected
difference of the scores.
"""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._stein.tiles import sum_over_rows
from slicestein.rows.arrays import coarse_columns
from slicestein.slices import Slices

DEGREE = 3


class SSD(eqx.Module):
    """Sliced Stein discrepancy and the test functions that reach it.

    Attributes
    ----------
    per_slice
        Supremum of each slice, (M,). Its mean over random slices estimates "eq: SSD"; its sum over a basis
        r with chosen g is "eq:maxSSD".
    knots
        Knots of the cubic splines, (M, K).
    coefficients
        Spline coefficients of the fitted score difference, (M, K - 4).
    """

    per_slice: Float[Array, " m"]
    knots: Float[Array, "m k"]
    coefficients: Float[Array, "m b"]

    @property
    def value(self) -> Float[Array, ""]:
        """Sum over slices (label "eq:maxSSD")."""
        return self.per_slice.sum()

    def score_difference(self, t: Any) -> Float[Array, "t m"]:
        """Estimated projected score difference at points (T,) of each slice's line.

        Constant outside the range of the samples.
        """
        points = jnp.asarray(t, self.knots.dtype)

        def one_slice(knots: Array, coefficients: Array) -> Array:
            clipped = jnp.clip(points, knots[0], knots[-1])
            return jax.vmap(lambda point: _splines(point, knots)[0] @ coefficients)(clipped)

        return jax.vmap(one_slice, out_axes=1)(self.knots, self.coefficients)


def ssd(x: Any, score: ScoreLike, slices: Slices, *, num_basis: int = 10) -> SSD:
    r"""Sliced Stein discrepancy in closed form, with cubic B-splines between quantiles of the samples.

    Parameters
    ----------
    x, score, slices
        As in `sksd`.
    num_basis
        Number of splines per slice, at least 4. More resolve finer differences and overfit more: the
        squared value of a slice is too large by about ``num_basis / N`` times the variance of its terms.

    Returns
    -------
    SSD
        The values and the optimal test functions.

    Examples
    --------
    The model is N(0, 1), the samples N(0, 1/4): the score difference is $-t + 4 t = 3 t$.

    >>> import numpy as np
    >>> from slicestein import Slices, ssd
    >>> x = 0.5 * np.random.default_rng(0).standard_normal((20_000, 1))
    >>> bool(abs(ssd(x, -x, Slices.basis(1)).score_difference([0.5])[0, 0] - 1.5) < 0.1)
    True
    """
    if np.ndim(_checks.origin_of(x)) and coarse_columns(np.asarray(x)).any():
        raise InputError(
            "x is held in single precision, in which samples so far from zero are all the same: set "
            'jax.config.update("jax_enable_x64", True), or shift the parameters'
        )
    x, s = _checks.samples_and_score(x, score)
    if not isinstance(slices, Slices):
        raise InputError(f"slices must be a Slices(r, g), got {type(slices).__name__}")
    _checks.slices_fit(slices, score_dim=x.shape[1], input_dim=x.shape[1])
    if not DEGREE < num_basis <= x.shape[0]:
        raise InputError(f"num_basis must be from {DEGREE + 1} to the number of samples, got {num_basis}")
    return _ssd(x, s, slices, num_basis)


@functools.partial(jax.jit, static_argnames="num_basis")
def _ssd(x: Array, s: Array, slices: Slices, num_basis: int) -> SSD:
    r, g = slices.r.astype(x.dtype), slices.g.astype(x.dtype)

    def one_slice(pair: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        r, g = pair
        t, a, c = x @ g, s @ r, r @ g
        levels = jnp.linspace(0, 1, num_basis - DEGREE + 1, dtype=x.dtype)
        inner = lax.stop_gradient(jnp.quantile(t, levels))
        knots = jnp.concatenate([inner[:1].repeat(DEGREE), inner, inner[-1:].repeat(DEGREE)])

        def moments(sample: tuple[Array, Array]) -> Array:
            basis, slope = _splines(sample[0], knots)
            return jnp.concatenate([(sample[1] * basis + c * slope)[None], jnp.outer(basis, basis)])

        sums = sum_over_rows(moments, (t, a), num_columns=num_basis**2) / x.shape[0]
        b, gram = sums[0], sums[1:]
        # Splines between tied quantiles are zero: the ridge gives them the coefficient zero.
        ridge = jnp.trace(gram) * jnp.finfo(x.dtype).eps ** 0.75
        coefficients = jnp.linalg.solve(gram + ridge * jnp.eye(num_basis, dtype=x.dtype), b)
        square = b @ coefficients
        positive = square > 0
        return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0), knots, coefficients

    return SSD(*lax.map(one_slice, (r, g)))


def _splines(t: Array, knots: Float[Array, " k"]) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
    """Cubic B-splines on the knots at one point of their range, and their derivatives (Cox and de Boor)."""
    inside = (knots[:-1] <= t) & (t < knots[1:])
    # The last point belongs to the last interval that is not empty.
    last = (knots[:-1] < knots[1:]) & (t >= knots[-1]) & (knots[1:] == knots[-1])
    values = (inside | last).astype(t.dtype)
    derivative = values
    for degree in range(1, DEGREE + 1):
        length = knots[degree:] - knots[:-degree]
        inverse = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)
        scaled = values * inverse
        derivative = degree * (scaled[:-1] - scaled[1:])
        values = (t - knots[: -degree - 1]) * scaled[:-1] + (knots[degree + 1 :] - t) * scaled[1:]
    return values, derivative
