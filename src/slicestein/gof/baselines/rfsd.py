r"""Random feature Stein discrepancies (Huggins and Mackey 2018), and KSD by random Fourier features.

For a feature function F(x, z), locations $Z_1, \dots, Z_M \sim \nu$ and an exponent r,

$$
R^2 = \sum_{d=1}^D \Big( \sum_{j=1}^M | w_j \bar T_{dj} |^r \Big)^{2/r}, \quad
T_{dj}(x) = s_d(x) F(x, Z_j) + \frac{\partial F(x, Z_j)}{\partial x_d}, \quad
w_j = (M \nu(Z_j))^{-1/r} .
$$

F spans hundreds of powers of e when D is large, so its logarithm is kept apart from the bracket
$s_d + \partial_d \log F$, and statistics are logarithms, $\log N R^2$: p-values are the same.

Under the null the mean features are normal, which is simulated with locations and weights held fixed. The limit
is slow: with M = 10 at level 0.05 the L1 IMQ test rejects about 0.2 of true models in 10 and 50 dimensions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray

from slicestein._stein.bandwidths import median_distance, thin
from slicestein.gof.null import Outcome, gaussian_draws, pvalue

Sample = tuple[Float[Array, "k d"], Float[Array, "k d"]]

ORDER = 0.25  # gamma, the order of the approximation
ALPHA = ORDER / 3
XI = 4 * ALPHA / (2 + ALPHA)


class Features(NamedTuple):
    """Weighted Stein features $w_j T_{dj}$, as ``exp(log_size) * bracket``."""

    log_size: Float[Array, "n m"]  # log w_j F(x, Z_j)
    bracket: Float[Array, "n d m"]  # s + grad log F

    def values(self, log_scale: Float[Array, ""]) -> Float[Array, "n d m"]:
        """The features divided by ``exp(log_scale)``."""
        return jnp.exp(self.log_size - log_scale)[:, None, :] * self.bracket


def log_norm(mean: Float[Array, "*b d m"], exponent: int) -> Float[Array, "*b"]:
    r"""$\log \sum_d (\sum_j |\mu_{dj}|^r)^{2/r}$."""
    return jnp.log(jnp.sum(jnp.sum(jnp.abs(mean) ** exponent, axis=-1) ** (2 / exponent), axis=-1))


def log_discrepancy(features: Features, exponent: int) -> Float[Array, ""]:
    r"""$\log R^2$ of a sample from its features."""
    log_scale = features.log_size.max()
    return 2 * log_scale + log_norm(features.values(log_scale).mean(0), exponent)


def feature_test(
    features_of: Callable[[Array, Array], Features],
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int,
    exponent: int,
    model_samples: Sample | None,
) -> Outcome:
    r"""$\log N R^2$ of the samples, against draws with the normal limit of the mean features.

    Cost: O((N + B) F min(N, F)) with F = D M features.
    """
    features = features_of(x, s)
    reference = features if model_samples is None else features_of(*model_samples)
    log_scale = jnp.maximum(features.log_size.max(), reference.log_size.max())
    mean = features.values(log_scale).mean(0)
    flat = reference.values(log_scale).reshape(reference.bracket.shape[0], -1)
    noise = gaussian_draws(flat, key, num_draws, centred=model_samples is None)
    draws = 2 * log_scale + log_norm(noise.reshape(num_draws, *mean.shape), exponent)
    statistic = 2 * log_scale + math.log(x.shape[0]) + log_norm(mean, exponent)
    return Outcome(statistic, draws, pvalue(statistic, draws))


# --- L1 IMQ ------------------------------------------------------------------------------------


class IMQLaw(NamedTuple):
    r"""L1 IMQ: $F = (c^2 + |x - z|^2)^\beta$, and t-distributed locations around a centre."""

    centre: Float[Array, " d"]
    offset: Float[Array, ""]  # c
    df: float

    @property
    def power(self) -> float:
        r"""$\beta$; the density of locations is proportional to $(c^2 + |z|^2)^{\xi \beta}$."""
        return -(self.centre.shape[0] + self.df) / (2 * XI)

    def locations(self, normal: Float[Array, "m d"], chi_square: Float[Array, " m"]) -> Float[Array, "m d"]:
        """Locations from normal and chi-square (df degrees) variables."""
        return self.centre + self.offset * normal / jnp.sqrt(chi_square)[:, None]

    def log_density(self, z: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Logarithm of the density of the locations."""
        dim, df = z.shape[1], self.df
        q = jnp.sum(((z - self.centre) / self.offset) ** 2, axis=1)
        constant = gammaln((df + dim) / 2) - gammaln(df / 2) - dim / 2 * math.log(math.pi)
        return constant - dim * jnp.log(self.offset) - (df + dim) / 2 * jnp.log1p(q)

    def features(self, z: Float[Array, "m d"], x: Array, s: Array) -> Features:
        """Weighted Stein features at locations z. Cost: O(N D M)."""
        gap = x[:, :, None] - z.T
        base = self.offset**2 + jnp.sum(gap**2, axis=1)
        log_weights = -math.log(z.shape[0]) - self.log_density(z)
        bracket = s[:, :, None] + 2 * self.power * gap / base[:, None, :]
        return Features(log_weights + self.power * jnp.log(base), bracket)


def imq_law(x: Float[Array, "n d"], *, scale: float = 4.0, df: float = 0.5) -> IMQLaw:
    """The L1 IMQ law for a sample: centred at its mean, with offset in proportion to the median distance."""
    return IMQLaw(x.mean(0), (1 - ALPHA / 2) / 2 * scale * median_distance(x), df)


@functools.partial(jax.jit, static_argnames=("num_draws", "num_features", "scale", "df"))
def rfsd_l1imq_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    num_features: int = 10,
    scale: float = 4.0,
    df: float = 0.5,
    model_samples: Sample | None = None,
) -> Outcome:
    """Random feature Stein discrepancy with L1 IMQ features; rejects true models too often (module notes).

    Parameters
    ----------
    x, s
        Samples and scores, (N, D).
    num_features
        M.
    scale, df
        Offset of the base kernel in median distances, and degrees of freedom of the locations: 4 and 0.5 in the
        authors' benchmarks, 100 and 2.6 for the restricted Boltzmann machine.
    model_samples
        Draws from the model and their scores, for the covariance of the features under the null; without them
        it is that of the observed features.

    Returns
    -------
    Outcome
        In logarithms: ``statistic`` is log N R^2.

    Notes
    -----
    Cost: O((N + B) F min(N, F)) with F = D M.
    """
    z_key, chi_key, null_key = jax.random.split(key, 3)
    law = imq_law(x, scale=scale, df=df)
    log_chi = math.log(2) + jax.random.loggamma(chi_key, df / 2, (num_features,), x.dtype)
    # Below exp(-55), met once in a million draws, distances overflow in single precision.
    chi_square = jnp.exp(jnp.maximum(log_chi, -55))
    z = law.locations(jax.random.normal(z_key, (num_features, x.shape[1]), x.dtype), chi_square)
    return feature_test(
        functools.partial(law.features, z),
        x,
        s,
        key=null_key,
        num_draws=num_draws,
        exponent=1,
        model_samples=model_samples,
    )


# --- L2 SechExp --------------------------------------------------------------------------------


class SechLaw(NamedTuple):
    r"""L2 SechExp: $F = A(x) A(z) \prod_d \operatorname{sech}(b (x_d - z_d))$, and sech locations.

    $b = \sqrt{2 \pi} a$, $\log A(y) = \frac{a}{25} \sum_d \sqrt{1 + (y_d - centre_d)^2}$.
    """

    centre: Float[Array, " d"]
    rate: Float[Array, ""]  # a

    @property
    def steepness(self) -> Float[Array, ""]:
        """b, the steepness of the features."""
        return math.sqrt(2 * math.pi) * self.rate

    @property
    def location_steepness(self) -> Float[Array, ""]:
        r"""$\kappa = 2 \xi b$: locations have the density $\prod_d (\kappa / \pi) sech(\kappa z_d)$."""
        return 2 * XI * self.steepness

    def locations(self, uniform: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """Locations from uniform variables in (0, 1): centre + log tan(pi u / 2) / kappa."""
        # The cosine as a sine of 1 - u: pi / 2 rounds up in single precision, where the tangent is negative.
        log_tan = jnp.log(jnp.sin(jnp.pi / 2 * uniform)) - jnp.log(jnp.sin(jnp.pi / 2 * (1 - uniform)))
        return self.centre + log_tan / self.location_steepness

    def log_density(self, z: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Logarithm of the density of the locations."""
        kappa = self.location_steepness
        return jnp.sum(jnp.log(kappa / jnp.pi) - _log_cosh(kappa * (z - self.centre)), axis=1)

    def features(self, z: Float[Array, "m d"], x: Array, s: Array) -> Features:
        """Weighted Stein features at locations z. Cost: O(N D M)."""
        tilt, b = self.rate / 25, self.steepness
        gap = x[:, :, None] - z.T
        length, length_z = jnp.sqrt(1 + (x - self.centre) ** 2), jnp.sqrt(1 + (z - self.centre) ** 2)
        log_tilt = tilt * (jnp.sum(length, axis=1)[:, None] + jnp.sum(length_z, axis=1))
        log_weights = -0.5 * (math.log(z.shape[0]) + self.log_density(z))
        slope = s + tilt * (x - self.centre) / length
        bracket = slope[:, :, None] - b * jnp.tanh(b * gap)
        return Features(log_weights + log_tilt - jnp.sum(_log_cosh(b * gap), axis=1), bracket)


def sech_law(x: Float[Array, "n d"]) -> SechLaw:
    """The L2 SechExp law for a sample: centred at its mean, with a rate from the median L1 distance."""
    rate = 1 / (median_l1_distance(x) * math.sqrt(math.pi / 2))
    return SechLaw(x.mean(0), rate / (2 * XI) if x.shape[1] > 1 else rate)


@functools.partial(jax.jit, static_argnames=("num_draws", "num_features"))
def rfsd_l2sech_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    num_features: int = 10,
    model_samples: Sample | None = None,
) -> Outcome:
    """Random feature Stein discrepancy with L2 SechExp features.

    Parameters, result and cost as in :func:`rfsd_l1imq_test`.
    """
    z_key, null_key = jax.random.split(key)
    law = sech_law(x)
    shape = (num_features, x.shape[1])
    z = law.locations(jax.random.uniform(z_key, shape, x.dtype, minval=jnp.finfo(x.dtype).tiny))
    return feature_test(
        functools.partial(law.features, z),
        x,
        s,
        key=null_key,
        num_draws=num_draws,
        exponent=2,
        model_samples=model_samples,
    )


def median_l1_distance(x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Median L1 distance between (thinned) samples."""
    x = thin(x)
    i, j = np.triu_indices(x.shape[0], 1)
    return jnp.median(lax.map(lambda row: jnp.sum(jnp.abs(x - row), axis=1), x)[i, j])


def _log_cosh(u: Array) -> Array:
    return jnp.logaddexp(u, -u) - math.log(2)


# --- random Fourier features -------------------------------------------------------------------


def fourier_features(frequencies: Float[Array, "m d"], phases: Float[Array, " m"], x: Array, s: Array) -> Features:
    r"""Stein features of $F = \sqrt{2} \cos(\omega^\top x + b)$, with weights $M^{-1/2}$."""
    angle = x @ frequencies.T + phases
    wave = s[:, :, None] * jnp.cos(angle)[:, None, :] - frequencies.T * jnp.sin(angle)[:, None, :]
    return Features(jnp.zeros((1, 1), x.dtype), math.sqrt(2 / phases.shape[0]) * wave)


@functools.partial(jax.jit, static_argnames=("num_draws", "num_features"))
def rff_gaussian_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    num_features: int = 10,
    model_samples: Sample | None = None,
) -> Outcome:
    """KSD test with M random Fourier features of the Gaussian kernel at the median distance.

    Parameters, result and cost as in :func:`rfsd_l1imq_test`.
    """
    frequency_key, *rest = jax.random.split(key, 3)
    frequencies = jax.random.normal(frequency_key, (num_features, x.shape[1]), x.dtype)
    return _fourier_test(x, s, frequencies, rest, num_draws, model_samples)


@functools.partial(jax.jit, static_argnames=("num_draws", "num_features"))
def rff_cauchy_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    num_features: int = 10,
    model_samples: Sample | None = None,
) -> Outcome:
    r"""KSD test with M random Fourier features of $\prod_d (1 + (x_d - y_d)^2 / med^2)^{-1}$.

    Parameters, result and cost as in :func:`rfsd_l1imq_test`.
    """
    frequency_key, *rest = jax.random.split(key, 3)
    frequencies = jax.random.laplace(frequency_key, (num_features, x.shape[1]), x.dtype)
    return _fourier_test(x, s, frequencies, rest, num_draws, model_samples)


def _fourier_test(
    x: Array, s: Array, unit_frequencies: Array, keys: list[Array], num_draws: int, model: Sample | None
) -> Outcome:
    phase_key, null_key = keys
    phases = jax.random.uniform(phase_key, unit_frequencies.shape[:1], x.dtype, maxval=2 * jnp.pi)
    frequencies = unit_frequencies / median_distance(x)
    return feature_test(
        functools.partial(fourier_features, frequencies, phases),
        x,
        s,
        key=null_key,
        num_draws=num_draws,
        exponent=2,
        model_samples=model,
    )
