r"""Ways for samples to be wrong, with the score of the model and the likelihood ratio.

Samples are x = A y. Under the model y is standard normal; the first k coordinates of y, one or all, have another law.
A leaves the parameters alone (*axes*, in random order), rotates them, or correlates them: x is then an AR(1) process of
coefficient 0.95, parameters in random order, and A its Cholesky factor with the wrong parameter first, so that the
marginal of this parameter is wrong and all others are right given it.

The likelihood ratio of two known densities is the most powerful test there is, and knows what to look for.
"""

import functools
import zlib
from typing import NamedTuple, Protocol

import numpy as np
from scipy import stats

NULL_DRAWS = 999  # of the likelihood ratio
COEFFICIENT = 0.95


class Law(Protocol):
    """Another law than the standard normal one."""

    def draw(self, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        """Samples (n, k)."""

    def log_ratio(self, y: np.ndarray) -> np.ndarray:
        """Log-density of the rows less that of the standard normal law."""


class Coordinates(NamedTuple):
    """Independent coordinates of one law, a mixture of ``parts`` of equal or given ``shares``."""

    parts: tuple
    shares: tuple[float, ...] = (1.0,)

    def draw(self, rng, n, k):
        drawn = np.stack([part.rvs((n, k), random_state=rng) for part in self.parts])
        which = rng.choice(len(self.parts), (n, k), p=self.shares)
        return np.take_along_axis(drawn, which[None], 0)[0]

    def log_ratio(self, y):
        terms = [part.logpdf(y) + np.log(share) for part, share in zip(self.parts, self.shares, strict=True)]
        return np.sum(np.logaddexp.reduce(terms, axis=0) - stats.norm.logpdf(y), axis=1)


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


def shift(mean):
    return Coordinates((stats.norm(mean),))


def variance(value):
    return Coordinates((stats.norm(scale=np.sqrt(value)),))


def skewed(skewness):
    shape = 4 / skewness**2
    return Coordinates((stats.gamma(shape, loc=-np.sqrt(shape), scale=1 / np.sqrt(shape)),))


def modes(at):
    deviation = np.sqrt(1 - at**2)
    return Coordinates((stats.norm(at, deviation), stats.norm(-at, deviation)), (0.5, 0.5))


def student(df):
    return Coordinates((stats.t(df, scale=np.sqrt((df - 2) / df)),))


def power(exponent):
    """Density proportional to exp(-|x / scale|^exponent): Laplace 1, normal 2, light tails beyond."""
    return Coordinates((stats.gennorm(exponent, scale=1 / stats.gennorm(exponent).std()),))


def logistic(_):
    return Coordinates((stats.logistic(scale=np.sqrt(3) / np.pi),))


def strays(factor):
    return Coordinates((stats.norm(), stats.norm(scale=factor)), (0.97, 0.03))


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
    """Samples, score function and draws of the model, the parameter that is wrong, and p of the likelihood ratio."""

    x: np.ndarray
    score_fn: object
    model: np.ndarray
    wrong: int | None
    likelihood_ratio: float


def draw(name: str, seed: int, n: int, d: int) -> Data:
    """One trial of a problem."""
    problem = PROBLEMS[name]
    rng = np.random.default_rng([seed, d, zlib.crc32(name.encode())])
    width, law = problem.coordinates(d), problem.law(problem.size)
    y = rng.standard_normal((n, d))
    y[:, :width] = law.draw(rng, n, width)
    matrix, first = mixing(problem.space, rng, d)
    precision = np.linalg.inv(matrix @ matrix.T)
    wrong = first if problem.width == 1 and problem.space != "rotated" and not name.startswith("null") else None
    statistic, null = float(np.sum(law.log_ratio(y[:, :width]))), null_ratios(name, n, d)
    pvalue = (1 + int(np.sum(null >= statistic))) / (1 + NULL_DRAWS)
    return Data(y @ matrix.T, lambda x: -x @ precision, rng.standard_normal((n, d)) @ matrix.T, wrong, pvalue)


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
