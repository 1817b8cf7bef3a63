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

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._stein.bandwidths import evenly_spread
from slicestein._stein.numpy_bandwidths import median_distance
from slicestein.gof.method import Method, Problem, independent
from slicestein.gof.null import Outcome, gaussian_draws, outcome
from slicestein.gof.result import GofResult
from slicestein.rows.arrays import as_rows

Sample = tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]
ModelSample = tuple[Float[np.ndarray, "k d"], Float[np.ndarray, "k d"]]

ORDER = 0.25  # gamma, the order of the approximation
ALPHA = ORDER / 3
XI = 4 * ALPHA / (2 + ALPHA)


class Features(NamedTuple):
    """Weighted Stein features $w_j T_{dj}$, as ``exp(log_size) * bracket``."""

    log_size: Float[np.ndarray, "n m"]  # log w_j F(x, Z_j)
    bracket: Float[np.ndarray, "n d m"]  # s + grad log F

    def values(self, log_scale: float) -> Float[np.ndarray, "n d m"]:
        """The features divided by ``exp(log_scale)``."""
        return np.exp(self.log_size - log_scale)[:, None, :] * self.bracket


def log_norm(mean: Float[np.ndarray, "... d m"], exponent: int) -> Any:
    r"""$\log \sum_d (\sum_j |\mu_{dj}|^r)^{2/r}$."""
    return np.log(np.sum(np.sum(np.abs(mean) ** exponent, axis=-1) ** (2 / exponent), axis=-1))


def log_discrepancy(features: Features, exponent: int) -> float:
    r"""$\log R^2$ of a sample from its features."""
    log_scale = features.log_size.max()
    return 2 * log_scale + log_norm(features.values(log_scale).mean(0), exponent)


def feature_outcome(
    features_of: Callable[[np.ndarray, np.ndarray], Features],
    sample: Sample,
    model: ModelSample | None,
    exponent: int,
    rng: np.random.Generator,
    num_bootstrap: int,
) -> Outcome:
    r"""$\log N R^2$ of the samples, against draws with the normal limit of the mean features.

    Cost: O((N + B) F min(N, F)) with F = D M features.
    """
    features = features_of(*sample)
    reference = features if model is None else features_of(*model)
    log_scale = max(features.log_size.max(), reference.log_size.max())
    mean = features.values(log_scale).mean(0)
    flat = reference.values(log_scale).reshape(len(reference.bracket), -1)
    noise = gaussian_draws(flat, rng, num_bootstrap, centred=model is None)
    draws = 2 * log_scale + log_norm(noise.reshape(num_bootstrap, *mean.shape), exponent)
    return outcome(2 * log_scale + math.log(len(sample[0])) + log_norm(mean, exponent), draws)


# --- L1 IMQ ------------------------------------------------------------------------------------


class IMQLaw(NamedTuple):
    r"""L1 IMQ: $F = (c^2 + |x - z|^2)^\beta$, and t-distributed locations around a centre."""

    centre: Float[np.ndarray, " d"]
    offset: float  # c
    df: float

    @property
    def power(self) -> float:
        r"""$\beta$; the density of locations is proportional to $(c^2 + |z|^2)^{\xi \beta}$."""
        return -(self.centre.shape[0] + self.df) / (2 * XI)

    def locations(
        self, normal: Float[np.ndarray, "m d"], chi_square: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m d"]:
        """Locations from normal and chi-square (df degrees) variables."""
        return self.centre + self.offset * normal / np.sqrt(chi_square)[:, None]

    def log_density(self, z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Logarithm of the density of the locations."""
        dim, df = z.shape[1], self.df
        q = np.sum(((z - self.centre) / self.offset) ** 2, axis=1)
        constant = gammaln((df + dim) / 2) - gammaln(df / 2) - dim / 2 * math.log(math.pi)
        return constant - dim * np.log(self.offset) - (df + dim) / 2 * np.log1p(q)

    def features(self, z: Float[np.ndarray, "m d"], x: np.ndarray, s: np.ndarray) -> Features:
        """Weighted Stein features at locations z. Cost: O(N D M)."""
        gap = x[:, :, None] - z.T
        base = self.offset**2 + np.sum(gap**2, axis=1)
        log_weights = -math.log(z.shape[0]) - self.log_density(z)
        bracket = s[:, :, None] + 2 * self.power * gap / base[:, None, :]
        return Features(log_weights + self.power * np.log(base), bracket)


def imq_law(x: Float[np.ndarray, "n d"], *, scale: float = 4.0, df: float = 0.5) -> IMQLaw:
    """The L1 IMQ law for a sample: centred at its mean, with offset in proportion to the median distance."""
    return IMQLaw(x.mean(0), (1 - ALPHA / 2) / 2 * scale * median_distance(x), df)


# --- L2 SechExp --------------------------------------------------------------------------------


class SechLaw(NamedTuple):
    r"""L2 SechExp: $F = A(x) A(z) \prod_d \operatorname{sech}(b (x_d - z_d))$, and sech locations.

    $b = \sqrt{2 \pi} a$, $\log A(y) = \frac{a}{25} \sum_d \sqrt{1 + (y_d - centre_d)^2}$.
    """

    centre: Float[np.ndarray, " d"]
    rate: float  # a

    @property
    def steepness(self) -> float:
        """b, the steepness of the features."""
        return math.sqrt(2 * math.pi) * self.rate

    @property
    def location_steepness(self) -> float:
        r"""$\kappa = 2 \xi b$: locations have the density $\prod_d (\kappa / \pi) sech(\kappa z_d)$."""
        return 2 * XI * self.steepness

    def locations(self, uniform: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        """Locations from uniform variables in (0, 1): centre + log tan(pi u / 2) / kappa."""
        # The cosine as a sine of 1 - u: pi / 2 rounds up in single precision, where the tangent is negative.
        log_tan = np.log(np.sin(np.pi / 2 * uniform)) - np.log(np.sin(np.pi / 2 * (1 - uniform)))
        return self.centre + log_tan / self.location_steepness

    def log_density(self, z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Logarithm of the density of the locations."""
        kappa = self.location_steepness
        return np.sum(np.log(kappa / np.pi) - _log_cosh(kappa * (z - self.centre)), axis=1)

    def features(self, z: Float[np.ndarray, "m d"], x: np.ndarray, s: np.ndarray) -> Features:
        """Weighted Stein features at locations z. Cost: O(N D M)."""
        tilt, b = self.rate / 25, self.steepness
        gap = x[:, :, None] - z.T
        length, length_z = np.sqrt(1 + (x - self.centre) ** 2), np.sqrt(1 + (z - self.centre) ** 2)
        log_tilt = tilt * (np.sum(length, axis=1)[:, None] + np.sum(length_z, axis=1))
        log_weights = -0.5 * (math.log(z.shape[0]) + self.log_density(z))
        slope = s + tilt * (x - self.centre) / length
        bracket = slope[:, :, None] - b * np.tanh(b * gap)
        return Features(log_weights + log_tilt - np.sum(_log_cosh(b * gap), axis=1), bracket)


def sech_law(x: Float[np.ndarray, "n d"]) -> SechLaw:
    """The L2 SechExp law for a sample: centred at its mean, with a rate from the median L1 distance."""
    rate = 1 / (median_l1_distance(x) * math.sqrt(math.pi / 2))
    return SechLaw(x.mean(0), rate / (2 * XI) if x.shape[1] > 1 else rate)


def median_l1_distance(x: Float[np.ndarray, "n d"]) -> float:
    """Median L1 distance between (some of the) samples."""
    x = evenly_spread(x)
    gaps = [np.sum(np.abs(x[i + 1 :] - row), axis=1) for i, row in enumerate(x)]
    return float(np.median(np.concatenate(gaps)))


def _log_cosh(u: np.ndarray) -> np.ndarray:
    return np.logaddexp(u, -u) - math.log(2)


# --- random Fourier features -------------------------------------------------------------------


def fourier_features(
    frequencies: Float[np.ndarray, "m d"], phases: Float[np.ndarray, " m"], x: np.ndarray, s: np.ndarray
) -> Features:
    r"""Stein features of $F = \sqrt{2} \cos(\omega^\top x + b)$, with weights $M^{-1/2}$."""
    angle = x @ frequencies.T + phases
    wave = s[:, :, None] * np.cos(angle)[:, None, :] - frequencies.T * np.sin(angle)[:, None, :]
    return Features(np.zeros((1, 1), x.dtype), math.sqrt(2 / phases.shape[0]) * wave)


# --- methods -----------------------------------------------------------------------------------


class _RandomFeatures(Method):
    """What the methods with random features share."""

    num_features: int
    model_samples: Any

    def __post_init__(self) -> None:
        _checks.positive(num_features=self.num_features)

    def _features(self, x: Float[np.ndarray, "n d"], rng: np.random.Generator) -> tuple[Callable[..., Features], int]:
        """The features for a sample, and the exponent of the norm."""
        raise NotImplementedError

    def test(self, problem: Problem) -> GofResult:
        """Test all rows."""
        x, s = independent(problem, self.name).flat
        _checks.rows_differ(x)
        model = None
        if self.model_samples is not None:
            if problem.score_fn is None:
                raise InputError(f"{self.name} evaluates the score at model_samples: pass score as a function")
            model = as_rows(self.model_samples, problem.score_fn, "model_samples")
            _checks.as_wide_as(x, model_samples=model[0])
        features_of, exponent = self._features(x, problem.rng)
        found = feature_outcome(features_of, (x, s), model, exponent, problem.rng, problem.num_bootstrap)
        return self.result(problem, found, null="normal limit", num_train=0, num_test=len(x))


@dataclasses.dataclass(frozen=True, eq=False)
class RFSD(_RandomFeatures):
    """Random feature Stein discrepancy; the statistic is log N R^2.

    With L1 IMQ features it rejects true models too often (module notes).

    Parameters
    ----------
    features
        ``"l1imq"`` or ``"l2sech"``.
    scale, df
        Of L1 IMQ: offset of the base kernel in median distances, and degrees of freedom of the locations: 4 and 0.5 in
        the authors' benchmarks, 100 and 2.6 for the restricted Boltzmann machine.
    num_features
        M.
    model_samples
        Draws from the model (K, D), for the covariance of the features under the null, with the score given as a
        function; without them it is that of the observed features.
    """

    features: Literal["l1imq", "l2sech"] = "l1imq"
    num_features: int = 10
    model_samples: Any = None
    scale: float = 4.0
    df: float = 0.5
    label: ClassVar[str] = "rfsd"

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.one_of("features", self.features, ("l1imq", "l2sech"))
        if self.features == "l2sech" and (self.scale, self.df) != (4.0, 0.5):
            raise InputError('scale and df are for features="l1imq": leave them out')

    @property
    def name(self) -> str:
        """``"rfsd-l1imq"`` or ``"rfsd-l2sech"``."""
        return f"{self.label}-{self.features}"

    def _features(self, x: Float[np.ndarray, "n d"], rng: np.random.Generator) -> tuple[Callable[..., Features], int]:
        shape = (self.num_features, x.shape[1])
        if self.features == "l2sech":
            sech = sech_law(x)
            return functools.partial(sech.features, sech.locations(rng.uniform(np.finfo(float).tiny, 1, shape))), 2
        imq = imq_law(x, scale=self.scale, df=self.df)
        normal, chi_square = rng.standard_normal(shape), rng.chisquare(self.df, self.num_features)
        # Below exp(-55), met once in a million draws, distances overflow in single precision.
        return functools.partial(imq.features, imq.locations(normal, np.maximum(chi_square, math.exp(-55)))), 1


@dataclasses.dataclass(frozen=True, eq=False)
class RFF(_RandomFeatures):
    r"""KSD test with M random Fourier features at the median distance; the statistic is log N R^2.

    Parameters
    ----------
    kernel
        ``"gaussian"``, or ``"cauchy"``: $\prod_d (1 + (x_d - y_d)^2 / med^2)^{-1}$.
    num_features, model_samples
        As in `RFSD`.
    """

    kernel: Literal["gaussian", "cauchy"] = "gaussian"
    num_features: int = 10
    model_samples: Any = None
    label: ClassVar[str] = "rff"

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.one_of("kernel", self.kernel, ("gaussian", "cauchy"))

    @property
    def name(self) -> str:
        """``"rff-gaussian"`` or ``"rff-cauchy"``."""
        return f"{self.label}-{self.kernel}"

    def _features(self, x: Float[np.ndarray, "n d"], rng: np.random.Generator) -> tuple[Callable[..., Features], int]:
        shape = (self.num_features, x.shape[1])
        unit = rng.standard_normal(shape) if self.kernel == "gaussian" else rng.laplace(size=shape)
        phases = rng.uniform(0, 2 * math.pi, self.num_features)
        return functools.partial(fourier_features, unit / median_distance(x), phases), 2
