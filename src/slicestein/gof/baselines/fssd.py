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

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from slicestein._stein.bandwidths import median_distance
from slicestein._stein.full_space import squared_distances
from slicestein.gof.null import Outcome, gaussian_draws, pvalue
from slicestein.kernels import RBF

# Optimisation, as in the comparison of Huggins and Mackey (2018).
BANDWIDTH_GRID = 2.0 ** np.array([-1.5, -0.75, 0.0, 0.75, 1.5])  # times the median distance
MAX_ITERATIONS = 40
TOLERANCE = 1e-4
REGULARISER = 1e-2
LOCATION_MARGIN = 10.0  # locations stay within the range of the data and this many standard deviations
BANDWIDTH_MARGIN = 10.0  # the bandwidth within this factor of the median


def fssd_features(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    locations: Float[Array, "j d"],
    bandwidth: Float[Array, ""],
) -> Float[Array, "n d*j"]:
    r"""Features $\tau$ of every sample, flattened. Cost: O(N D J)."""
    centre = x.mean(0)
    q = squared_distances((x - centre) / bandwidth, (locations - centre) / bandwidth)
    k, k1, _ = RBF().derivatives(q)
    gradient = k1[:, None, :] * (x[:, :, None] - locations.T) / bandwidth**2
    tau = s[:, :, None] * k[:, None, :] + gradient
    return tau.reshape(x.shape[0], -1) / math.sqrt(locations.size)


def fssd_statistic(tau: Float[Array, "n f"]) -> Float[Array, ""]:
    """F, the unbiased estimate of the squared discrepancy; the test uses N F."""
    count = tau.shape[0]
    return (count * jnp.sum(tau.mean(0) ** 2) - jnp.mean(jnp.sum(tau**2, axis=1))) / (count - 1)


def fssd_variance(tau: Float[Array, "n f"]) -> Float[Array, ""]:
    r"""Variance of $\sqrt N F$ under the alternative: $4 \overline{(\tau \bar\tau)^2} - 4 |\bar\tau|^4$."""
    mean = tau.mean(0)
    return 4 * jnp.mean((tau @ mean - mean @ mean) ** 2)


def power_criterion(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    locations: Float[Array, "j d"],
    bandwidth: Float[Array, ""],
) -> Float[Array, ""]:
    r"""$F / \sqrt{\sigma^2 + 0.01}$: the power of the test grows with it. The constant forbids 0 / 0."""
    tau = fssd_features(x, s, locations, bandwidth)
    return fssd_statistic(tau) / jnp.sqrt(fssd_variance(tau) + REGULARISER)


@functools.partial(jax.jit, static_argnames="num_draws")
def fssd_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    locations: Float[Array, "j d"],
    bandwidth: float | Float[Array, ""],
    num_draws: int = 1000,
) -> Outcome:
    """FSSD test at given locations: N F against its limit with the covariance of the observed features.

    Parameters
    ----------
    x, s
        Samples and scores, (N, D).
    locations
        Test locations, (J, D), chosen without a look at x.
    bandwidth
        Bandwidth of the Gaussian kernel.

    Notes
    -----
    Cost: O(B F min(N, F)) with F = D J features; no eigenvalues are needed to draw from the limit.
    """
    tau = fssd_features(x, s, locations, jnp.asarray(bandwidth, x.dtype))
    statistic = x.shape[0] * fssd_statistic(tau)
    noise = gaussian_draws(tau, key, num_draws, centred=True)
    draws = jnp.sum(noise**2, axis=1) - jnp.sum(jnp.var(tau, axis=0, ddof=1))
    return Outcome(statistic, draws, pvalue(statistic, draws))


def fssd_rand_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    num_locations: int = 5,
) -> Outcome:
    """FSSD test at locations drawn from a normal distribution with the mean and covariance of the samples.

    Parameters
    ----------
    x, s
        Samples and scores, (N, D). The bandwidth is their median distance.
    num_locations
        J; 5 in the authors' experiments.

    Notes
    -----
    Cost: as :func:`fssd_test`.
    """
    location_key, null_key = jax.random.split(key)
    locations = initial_locations(x, location_key, num_locations)
    return fssd_test(x, s, key=null_key, locations=locations, bandwidth=median_distance(x), num_draws=num_draws)


def fssd_opt_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    train: tuple[Float[Array, "k d"], Float[Array, "k d"]],
    num_draws: int = 1000,
    num_locations: int = 5,
) -> Outcome:
    """FSSD test at the locations and the bandwidth that :func:`fit_locations` finds on other samples.

    Parameters
    ----------
    x, s
        Samples and scores of the test, (N, D).
    train
        Samples and scores to optimise on, none of them in x.
    num_locations
        J; 5 in the authors' experiments.

    Notes
    -----
    Cost: about 50 gradients of the criterion, O(N D J) each, then as :func:`fssd_test`. Not for use under
    ``jit`` or ``vmap``: the optimiser is SciPy's.
    """
    location_key, null_key = jax.random.split(key)
    locations, bandwidth = fit_locations(*train, key=location_key, num_locations=num_locations)
    return fssd_test(x, s, key=null_key, locations=locations, bandwidth=bandwidth, num_draws=num_draws)


@functools.partial(jax.jit, static_argnames="num_locations")
def initial_locations(x: Float[Array, "n d"], key: PRNGKeyArray, num_locations: int) -> Float[Array, "j d"]:
    """Draws from a normal distribution with the mean and covariance of x."""
    return x.mean(0) + gaussian_draws(x, key, num_locations, centred=True)


def fit_locations(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    *,
    key: PRNGKeyArray,
    num_locations: int = 5,
) -> tuple[Float[Array, "j d"], Float[Array, ""]]:
    """Locations and bandwidth that maximise :func:`power_criterion`, by L-BFGS in a box.

    Starts from :func:`initial_locations` and the best of five bandwidths around the median distance.

    Differs from the released code: the stopping rule is relative to the criterion at the start (in absolute
    terms it is met after one step, the criterion being small), and the box of the bandwidth follows the scale of
    the data.
    """
    start, low, high, unit = (np.asarray(part, float) for part in _start_and_box(x, s, key, num_locations))

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _loss_and_gradient(jnp.asarray(parameters, x.dtype), x, s)
        return float(value / unit), np.asarray(gradient, float) / unit

    import scipy.optimize  # half a second, which others need not wait for

    best = scipy.optimize.minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(low, high),
        options={"maxiter": MAX_ITERATIONS, "ftol": TOLERANCE},
    ).x
    fitted = jnp.asarray(best, x.dtype)
    return fitted[:-1].reshape(num_locations, -1), fitted[-1]


@functools.partial(jax.jit, static_argnames="num_locations")
def _start_and_box(x: Array, s: Array, key: PRNGKeyArray, num_locations: int) -> tuple[Array, Array, Array, Array]:
    """Where to start, both ends of the box, and the size of the criterion."""
    locations, median = initial_locations(x, key, num_locations), median_distance(x)
    widths = median * jnp.asarray(BANDWIDTH_GRID, x.dtype)
    on_grid = jax.lax.map(lambda width: power_criterion(x, s, locations, width), widths)
    start = jnp.append(locations, widths[jnp.argmax(on_grid)])
    margin = LOCATION_MARGIN * jnp.std(x, axis=0)
    low = jnp.append(jnp.tile(x.min(0) - margin, num_locations), median / BANDWIDTH_MARGIN)
    high = jnp.append(jnp.tile(x.max(0) + margin, num_locations), median * BANDWIDTH_MARGIN)
    return jnp.clip(start, low, high), low, high, jnp.maximum(jnp.abs(on_grid).max(), jnp.finfo(x.dtype).tiny)


@jax.jit
@jax.value_and_grad
def _loss_and_gradient(parameters: Float[Array, " p"], x: Array, s: Array) -> Float[Array, ""]:
    return -power_criterion(x, s, parameters[:-1].reshape(-1, x.shape[1]), parameters[-1])
