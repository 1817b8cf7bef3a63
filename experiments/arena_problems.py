r"""Ways for samples to be wrong, with the score of the model and the likelihood ratio.

Samples are x = A y. Under the model y is standard normal; the first k coordinates of y, one or all, have another law.
A leaves the parameters alone (*axes*, in random order), rotates them, or correlates them: x is then an AR(1) process of
coefficient 0.95, parameters in random order, and A its Cholesky factor with the wrong parameter first, so that the
marginal of this parameter is wrong and all others are right given it.

The likelihood ratio of two known densities is the most powerful test there is, and knows what to look for.
"""

import functools
import zlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import gammaln

NULL_DRAWS = 399  # of the likelihood ratio
COEFFICIENT = 0.95


class Law(Protocol):
    """Another law than the standard normal one."""

    def draw(self, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        """Samples (n, k)."""

    def log_ratio(self, y: np.ndarray) -> np.ndarray:
        """Log-density of the rows less that of the standard normal law."""


class Coordinates(NamedTuple):
    """Independent coordinates of one law."""

    sample: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    log_density: Callable[[np.ndarray], np.ndarray]

    def draw(self, rng, n, k):
        return self.sample(rng, (n, k))

    def log_ratio(self, y):
        return np.sum(self.log_density(y) - log_normal(y), axis=1)


class Pairs(NamedTuple):
    """Neighbours with the correlation rho or -rho, by chance: normal each, not correlated, and dependent."""

    rho: float

    def draw(self, rng, n, k):
        y = rng.standard_normal((n, k // 2, 2))
        sign = rng.choice([-1, 1], (n, k // 2))
        y[..., 1] = sign * self.rho * y[..., 0] + np.sqrt(1 - self.rho**2) * y[..., 1]
        return y.reshape(n, k)

    def log_ratio(self, y):
        one, two = np.moveaxis(y.reshape(len(y), -1, 2), -1, 0)
        rest = 1 - self.rho**2
        even = -(self.rho**2) * (one**2 + two**2) / (2 * rest) - 0.5 * np.log(rest)
        odd = self.rho * one * two / rest
        return np.sum(even + np.logaddexp(odd, -odd) - np.log(2), axis=1)


class Rows(NamedTuple):
    """A share of the rows is too wide by a factor, in all coordinates at once."""

    share: float
    factor: float

    def draw(self, rng, n, k):
        return rng.standard_normal((n, k)) * np.where(rng.random((n, 1)) < self.share, self.factor, 1)

    def log_ratio(self, y):
        wide = 0.5 * (1 - self.factor**-2) * np.sum(y**2, axis=1) - y.shape[1] * np.log(self.factor)
        return np.logaddexp(np.log1p(-self.share), np.log(self.share) + wide)


# --- laws of mean zero and variance one, but for the first two ---------------------------------


def log_normal(y, mean=0.0, deviation=1.0):
    return -0.5 * ((y - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)


def shift(mean):
    return Coordinates(lambda rng, shape: rng.normal(mean, 1, shape), lambda y: log_normal(y, mean))


def variance(value):
    root = np.sqrt(value)
    return Coordinates(lambda rng, shape: rng.normal(0, root, shape), lambda y: log_normal(y, 0, root))


def skewed(skewness):
    """Gamma law."""
    shape = 4 / skewness**2
    root = np.sqrt(shape)

    def log_density(y):
        g = np.maximum(shape + root * y, 0)
        with np.errstate(divide="ignore"):
            return (shape - 1) * np.log(g) - g - gammaln(shape) + np.log(root)

    return Coordinates(lambda rng, size: (rng.gamma(shape, size=size) - shape) / root, log_density)


def modes(at):
    """Two normal laws at +-at."""
    deviation = np.sqrt(1 - at**2)
    return Coordinates(
        lambda rng, shape: rng.choice([-at, at], shape) + rng.normal(0, deviation, shape),
        lambda y: np.logaddexp(log_normal(y, at, deviation), log_normal(y, -at, deviation)) - np.log(2),
    )


def student(df):
    scale = np.sqrt((df - 2) / df)
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi) - np.log(scale)
    return Coordinates(
        lambda rng, shape: scale * rng.standard_t(df, shape),
        lambda y: constant - (df + 1) / 2 * np.log1p((y / scale) ** 2 / df),
    )


def power(exponent):
    """Density proportional to exp(-|x / scale|^exponent): Laplace 1, normal 2, light tails beyond."""
    scale = np.exp(0.5 * (gammaln(1 / exponent) - gammaln(3 / exponent)))
    constant = np.log(exponent / (2 * scale)) - gammaln(1 / exponent)
    return Coordinates(
        lambda rng, shape: scale * rng.choice([-1, 1], shape) * rng.gamma(1 / exponent, size=shape) ** (1 / exponent),
        lambda y: constant - np.abs(y / scale) ** exponent,
    )


def logistic(_):
    scale = np.sqrt(3) / np.pi

    def log_density(y):
        z = np.abs(y / scale)
        return -z - 2 * np.log1p(np.exp(-z)) - np.log(scale)

    return Coordinates(lambda rng, shape: rng.logistic(0, scale, shape), log_density)


def strays(factor):
    """3% of the values are too far out by a factor."""
    return Coordinates(
        lambda rng, shape: rng.standard_normal(shape) * np.where(rng.random(shape) < 0.03, factor, 1),
        lambda y: np.logaddexp(log_normal(y) + np.log(0.97), log_normal(y, 0, factor) + np.log(0.03)),
    )


def stray_rows(factor):
    return Rows(0.03, factor)


class Problem(NamedTuple):
    """A way to be wrong: the law of y, of how many of its coordinates (None: all), and A."""

    law: object  # a function of the size
    size: float
    width: int | None
    space: str = "axes"

    def coordinates(self, d: int) -> int:
        return d if self.width is None else self.width


def _problems() -> dict[str, Problem]:
    found = {"null": Problem(shift, 0.0, 1), "null, correlated": Problem(shift, 0.0, 1, "correlated")}
    kinds = {  # law, and its size: in one parameter, in one direction, in all parameters, in all of them mixed
        "shifted": (shift, 0.25, 0.2, 0.025, None),
        "narrow": (variance, 0.75, 0.5, 0.975, None),
        "wide": (variance, 1.2, 1.8, 1.03, None),
        "skewed": (skewed, 0.4, 1.8, 0.15, 0.45),
        "two modes": (modes, 0.75, 0.97, 0.6, 0.65),
        "heavy": (student, 7.0, 3.0, 20.0, 9.0),
        "light": (power, 3.0, 8.0, 2.2, 3.0),
    }
    for space in ("axes", "rotated", "correlated"):
        more = "" if space == "axes" else f", {space}"
        for kind, (law, one, direction, _, _) in kinds.items():
            found[f"one {kind}{more}"] = Problem(law, direction if space == "rotated" else one, 1, space)
        for kind, (law, _, _, each, mixed) in kinds.items():
            size = each if space == "axes" else mixed
            if size is not None:  # else a rotation of the same problem
                found[f"all {kind}{more}"] = Problem(law, size, None, space)
    return found | {
        "all laplace": Problem(power, 1.0, None),
        "all laplace, rotated": Problem(power, 1.0, None, "rotated"),
        "all logistic, rotated": Problem(logistic, 0.0, None, "rotated"),
        "all t(5)": Problem(student, 5.0, None, "scaled"),
        "diffusion": Problem(variance, 0.3, 1),
        "one pair dependent": Problem(Pairs, 0.95, 2),
        "all pairs dependent": Problem(Pairs, 0.45, None),
        "one contaminated": Problem(strays, 1.8, 1),
        "all contaminated": Problem(stray_rows, 1.8, None),
    }


PROBLEMS = _problems()


class Data(NamedTuple):
    """Samples, score function and draws of the model, the parameter that is wrong, and what samples were made of."""

    x: np.ndarray
    score_fn: Callable[[np.ndarray], np.ndarray]
    model: np.ndarray
    wrong: int | None
    y: np.ndarray


def draw(name: str, seed: int, n: int, d: int) -> Data:
    """One trial of a problem, in single precision."""
    problem = PROBLEMS[name]
    rng = np.random.default_rng([seed, d, zlib.crc32(name.encode())])
    width = problem.coordinates(d)
    y, model = rng.standard_normal((2, n, d))
    y[:, :width] = problem.law(problem.size).draw(rng, n, width)
    matrix, first = mixing(problem.space, rng, d)
    precision = np.linalg.inv(matrix @ matrix.T)
    wrong = first if problem.width == 1 and problem.space != "rotated" and not name.startswith("null") else None
    x, model = ((z @ matrix.T).astype(np.float32) for z in (y, model))
    return Data(x, lambda x: (-x @ precision).astype(x.dtype), model, wrong, y)


def likelihood_ratio(name: str, y: np.ndarray) -> float:
    """p-value of the likelihood ratio test."""
    problem = PROBLEMS[name]
    statistic = np.sum(problem.law(problem.size).log_ratio(y[:, : problem.coordinates(y.shape[1])]))
    return (1 + int(np.sum(null_ratios(name, *y.shape) >= statistic))) / (1 + NULL_DRAWS)


def mixing(space: str, rng: np.random.Generator, d: int) -> tuple[np.ndarray, int]:
    """A, and the parameter that the first coordinate becomes."""
    order = rng.permutation(d)
    if space == "rotated":
        return np.linalg.qr(rng.standard_normal((d, d)))[0], -1
    if space == "scaled":  # t(5) in its own units
        return np.sqrt(5 / 3) * np.eye(d), 0
    if space == "axes":
        return np.eye(d)[:, order], int(order[0])
    places = rng.permutation(d)  # in time
    covariance = COEFFICIENT ** np.abs(places[:, None] - places[None])
    matrix = np.empty((d, d))
    matrix[order] = np.linalg.cholesky(covariance[np.ix_(order, order)])
    return matrix, int(order[0])


@functools.cache
def null_ratios(name: str, n: int, d: int) -> np.ndarray:
    """Log-likelihood ratios of samples of the model."""
    problem = PROBLEMS[name]
    rng = np.random.default_rng([n, d, zlib.crc32(name.encode())])
    width, law = problem.coordinates(d), problem.law(problem.size)
    return np.array([np.sum(law.log_ratio(rng.standard_normal((n, width)))) for _ in range(NULL_DRAWS)])
