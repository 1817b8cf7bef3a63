r"""Finite set Stein discrepancy (Jitkrittum et al. 2017): the Stein witness at J test locations.

$$
\tau_{dj}(x) = \frac{1}{\sqrt{D J}} \Big( s_d(x) k(x, v_j) + \frac{\partial k(x, v_j)}{\partial x_d} \Big),
\qquad FSSD^2 = | E \tau(x) |^2,
$$

with a Gaussian kernel of bandwidth $\sigma$. The unbiased estimate is
$F = (N |\bar\tau|^2 - \overline{|\tau|^2}) / (N - 1)$, and under the null
$N F \to \sum_i w_i (Z_i^2 - 1)$ with w the eigenvalues of the covariance of $\tau$.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from slicestein import _checks
from slicestein._stein.numpy_bandwidths import median_distance
from slicestein.gof.method import Method, Problem, independent, split
from slicestein.gof.null import Outcome, gaussian_draws, outcome
from slicestein.gof.result import GofResult
from slicestein.rows.arrays import as_rows

AnyArray = Any  # of NumPy, or of JAX where the criterion is differentiated

# Optimisation, as in the comparison of Huggins and Mackey (2018).
BANDWIDTH_GRID = 2.0 ** np.array([-1.5, -0.75, 0.0, 0.75, 1.5])  # times the median distance
MAX_ITERATIONS = 40
TOLERANCE = 1e-4
REGULARISER = 1e-2
LOCATION_MARGIN = 10.0  # locations stay within the range of the data and this many standard deviations
BANDWIDTH_MARGIN = 10.0  # the bandwidth within this factor of the median


def fssd_features(x: AnyArray, s: AnyArray, locations: AnyArray, bandwidth: Any) -> Float[AnyArray, "n f"]:
    r"""Features $\tau$ of every sample, flattened. Cost: O(N D J)."""
    gap = x[:, :, None] - locations.T[None]
    q = (gap**2).sum(1) / bandwidth**2
    k = (jnp if isinstance(q, jax.Array) else np).exp(-0.5 * q)[:, None, :]
    tau = s[:, :, None] * k - k * gap / bandwidth**2
    return tau.reshape(x.shape[0], -1) / math.sqrt(locations.size)


def fssd_statistic(tau: AnyArray) -> Any:
    """F, the unbiased estimate of the squared discrepancy; the test uses N F."""
    count = tau.shape[0]
    return (count * (tau.mean(0) ** 2).sum() - (tau**2).sum(1).mean()) / (count - 1)


def fssd_variance(tau: AnyArray) -> Any:
    r"""Variance of $\sqrt N F$ under the alternative: $4 \overline{(\tau \bar\tau)^2} - 4 |\bar\tau|^4$."""
    mean = tau.mean(0)
    return 4 * ((tau @ mean - mean @ mean) ** 2).mean()


def power_criterion(x: AnyArray, s: AnyArray, locations: AnyArray, bandwidth: Any) -> Any:
    r"""$F / \sqrt{\sigma^2 + 0.01}$: the power of the test grows with it. The constant forbids 0 / 0."""
    tau = fssd_features(x, s, locations, bandwidth)
    return fssd_statistic(tau) / (fssd_variance(tau) + REGULARISER) ** 0.5


def fssd_outcome(
    x: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
    locations: Float[np.ndarray, "j d"],
    bandwidth: float,
    rng: np.random.Generator,
    num_bootstrap: int = 1000,
) -> Outcome:
    """N F at given locations against its limit with the covariance of the observed features.

    Cost: O(B F min(N, F)) with F = D J features; no eigenvalues are needed to draw from the limit.
    """
    tau = fssd_features(x, s, locations, bandwidth)
    noise = gaussian_draws(tau, rng, num_bootstrap, centred=True)
    draws = np.sum(noise**2, axis=1) - np.sum(np.var(tau, axis=0, ddof=1))
    return outcome(len(x) * fssd_statistic(tau), draws)


def initial_locations(
    x: Float[np.ndarray, "n d"], rng: np.random.Generator, num_locations: int
) -> Float[np.ndarray, "j d"]:
    """Draws from a normal distribution with the mean and covariance of x."""
    return x.mean(0) + gaussian_draws(x, rng, num_locations, centred=True)


def fit_locations(
    x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"], rng: np.random.Generator, num_locations: int = 5
) -> tuple[Float[np.ndarray, "j d"], float]:
    """Locations and bandwidth that maximise :func:`power_criterion`, by L-BFGS in a box.

    Starts from :func:`initial_locations` and the best of five bandwidths around the median distance.

    Differs from the released code: the stopping rule is relative to the criterion at the start (in absolute
    terms it is met after one step, the criterion being small), and the box of the bandwidth follows the scale of
    the data.
    """
    import scipy.optimize  # half a second, which others need not wait for

    locations, median = initial_locations(x, rng, num_locations), median_distance(x)
    on_grid = [power_criterion(x, s, locations, bandwidth) for bandwidth in median * BANDWIDTH_GRID]
    margin = LOCATION_MARGIN * np.std(x, axis=0)
    low = np.append(np.tile(x.min(0) - margin, num_locations), median / BANDWIDTH_MARGIN)
    high = np.append(np.tile(x.max(0) + margin, num_locations), median * BANDWIDTH_MARGIN)
    start = np.clip(np.append(locations, median * BANDWIDTH_GRID[np.argmax(on_grid)]), low, high)
    unit = max(np.abs(on_grid).max(), np.finfo(x.dtype).tiny)
    rows = jnp.asarray(x), jnp.asarray(s)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _loss_and_gradient(jnp.asarray(parameters, rows[0].dtype), *rows)
        return float(value / unit), np.asarray(gradient, float) / unit

    options = {"maxiter": MAX_ITERATIONS, "ftol": TOLERANCE}
    bounds = scipy.optimize.Bounds(low, high)
    best = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return best[:-1].reshape(num_locations, -1).astype(x.dtype), float(best[-1])


@jax.jit
@jax.value_and_grad
def _loss_and_gradient(parameters: Float[jax.Array, " p"], x: jax.Array, s: jax.Array) -> Float[jax.Array, ""]:
    return -power_criterion(x, s, parameters[:-1].reshape(-1, x.shape[1]), parameters[-1])


@dataclasses.dataclass(frozen=True)
class FSSD(Method):
    """FSSD test at J locations.

    Parameters
    ----------
    locations
        ``"rand"``: drawn from a normal distribution with the mean and covariance of the samples, at the median
        bandwidth; ``"opt"``: those, and the bandwidth, that :func:`fit_locations` finds on the training part.
    num_locations
        J; 5 in the authors' experiments.
    train
        For ``"opt"``: other samples, and their scores or a score function, to optimise on; then all of x is tested.

    Notes
    -----
    Cost: O(B F min(N, F)) with F = D J features; ``"opt"`` adds about 50 gradients of the criterion, O(N D J) each.
    """

    locations: Literal["rand", "opt"] = "opt"
    num_locations: int = 5
    train: tuple[Any, Any] | None = None
    label: ClassVar[str] = "fssd"

    def __post_init__(self) -> None:
        _checks.one_of("locations", self.locations, ("rand", "opt"))
        _checks.positive(num_locations=self.num_locations)
        if self.locations == "rand" and self.train is not None:
            raise _checks.InputError('train is for locations="opt": leave it out')

    @property
    def name(self) -> str:
        """``"fssd-rand"`` or ``"fssd-opt"``."""
        return f"{self.label}-{self.locations}"

    def test(self, problem: Problem) -> GofResult:
        """Choose locations, test the other rows."""
        tested = independent(problem, self.name)
        rng, num_train = problem.rng, 0
        if self.locations == "rand":
            x, s = tested.flat
            _checks.rows_differ(x)
            locations, bandwidth = initial_locations(x, rng, self.num_locations), median_distance(x)
        else:
            if self.train is None:
                train, tested = split(tested, problem)
                fit = train.flat
            else:
                fit = as_rows(*self.train, "train")
                _checks.as_wide_as(tested.x, train=fit[0])
            _checks.rows_differ(fit[0])
            locations, bandwidth = fit_locations(*fit, rng, self.num_locations)
            num_train = len(fit[0])
        x, s = tested.flat
        found = fssd_outcome(x, s, locations, bandwidth, rng, problem.num_bootstrap)
        return self.result(problem, found, null="normal limit", num_train=num_train, num_test=len(x))
