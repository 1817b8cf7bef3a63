"""Tests of other packages, written anew in NumPy with the array operations that those packages do.

kernel-gof (KSD and FSSD-opt, Jitkrittum et al. 2017) and ksdagg (KSDAgg, Schrab et al. 2022) are not on PyPI. Here are
their sums in their order, with their settings: what is computed twice there is computed twice here, and matrices are as
many and as large. `tests/unit/test_peers.py` compares the statistics with those of this package. The gradient of
FSSD-opt is that of autograd, as in kernel-gof (`pip install autograd`).
"""

import math

import numpy as np

LEVEL = 0.05
KSD_DRAWS = 500  # of kernel-gof
LOCATIONS, TRAIN_SHARE, FSSD_DRAWS, REGULARISER = 5, 0.2, 1000, 1e-2
KERNELS, AGGREGATED_DRAWS, BISECTIONS = 10, 2000, 50  # of ksdagg; as many draws again for the level
MEDIAN_ROWS = 1000


def median_distance(x: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    return float(np.median(pdist(x[:MEDIAN_ROWS])))


def squared_distances(x, y):
    return (x**2).sum(1)[:, None] - 2 * x @ y.T + (y**2).sum(1)


# --- KSD of kernel-gof: O(N^2 D^2) time, some seven matrices N x N -----------------------------


def ksd_matrix(x: np.ndarray, s: np.ndarray, variance: float) -> np.ndarray:
    """The Stein kernel between all samples; the Gaussian kernel is evaluated anew for every derivative."""

    def kernel():
        return np.exp(-squared_distances(x, x) / (2 * variance))

    def slope(d):
        return -kernel() * (x[:, [d]] - x[:, [d]].T) / variance

    n, dim = x.shape
    scores, k = s @ s.T, kernel()
    first, second = np.zeros((n, n)), np.zeros((n, n))
    for d in range(dim):
        first += slope(d) * s[:, d]
        second += -slope(d) * s[:, [d]]
    q = squared_distances(x, x)
    return k * scores + first + second + np.exp(-q / (2 * variance)) / variance * (dim - q / variance)


def ksd(x: np.ndarray, score_fn, seed: int) -> float:
    """p-value: V-statistic against signs, one draw at a time."""
    rng, n = np.random.default_rng(seed), len(x)
    h = ksd_matrix(x, score_fn(x), median_distance(x) ** 2)
    draws = []
    for _ in range(KSD_DRAWS):
        signs = rng.choice([-1.0, 1.0], n)
        draws.append(signs @ (h @ (signs / n)))
    return float(np.mean(np.array(draws) > n * h.mean()))


# --- FSSD-opt of kernel-gof: O(N D J) time a step -----------------------------------------------


def fssd_features(xp, x, s, locations, variance):
    """(N, D, J): the Stein feature of every location."""
    k = xp.exp(-squared_distances(x, locations) / (2 * variance))[:, None, :]
    return s[:, :, None] * k - (x[:, :, None] - locations.T[None]) * k / variance


def fssd_statistic(xp, tau):
    """N times the unbiased estimate of the sum over features."""
    n = tau.shape[0]
    return xp.sum(xp.sum(tau, axis=0) ** 2) / (n - 1) - xp.sum(tau**2) / (n - 1)


def fssd_opt(x: np.ndarray, score_fn, seed: int) -> float:
    """p-value: locations and bandwidth are fitted on a fifth of the samples, the others are tested."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(x))
    train, test = np.split(x[rows], [round(TRAIN_SHARE * len(x))])
    locations, variance = fitted_locations(train, score_fn(train), rng)
    tau = fssd_features(np, test, score_fn(test), locations, variance).reshape(len(test), -1)
    values = np.real(np.linalg.eig(tau.T @ (tau / len(tau)))[0])
    draws = (rng.standard_normal((FSSD_DRAWS, len(values))) ** 2 - 1) @ values
    return float(np.mean(draws > fssd_statistic(np, tau)))


def fitted_locations(x: np.ndarray, s: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    import autograd.numpy as anp
    from autograd import value_and_grad
    from scipy.optimize import minimize

    dim = x.shape[1]

    def loss(z):
        tau = fssd_features(anp, x, s, z[1:].reshape(LOCATIONS, dim), z[0] ** 2).reshape(len(x), -1)
        mean = anp.mean(tau, axis=0)
        variance = 4 * anp.mean(anp.dot(tau, mean) ** 2) + 4 * anp.sum(mean**2) ** 2
        return -fssd_statistic(anp, tau) / anp.sqrt(variance + REGULARISER)

    covariance = np.cov(x.T) + 1e-6 * np.eye(dim)
    start = rng.multivariate_normal(x.mean(0), covariance, LOCATIONS).ravel()
    median = median_distance(x)
    widths = median * 2.0 ** (np.linspace(-3, 3, 5) / 2)
    best = min(widths, key=lambda width: loss(np.append(width, start)))
    low, high = (np.tile(edge, LOCATIONS) for edge in (x.min(0) - 0.5 * x.std(0), x.max(0) + 0.5 * x.std(0)))
    bounds = [(0.1 * median, math.sqrt(500) * median), *zip(low, high, strict=True)]
    options = {"maxiter": 100, "ftol": 1e-3, "gtol": 1e-4}
    found = minimize(
        value_and_grad(loss), np.append(best, start), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return found.x[1:].reshape(LOCATIONS, dim), float(found.x[0] ** 2)


# --- KSDAgg of ksdagg: O(K N^2 (D + B)) time, some seven matrices N x N ------------------------


def aggregated_matrix(q, slopes, scores, dim: int, bandwidth: float) -> np.ndarray:
    """The Stein kernel of one inverse multiquadric kernel, without its diagonal."""
    g = 1 / bandwidth**2
    base = 1 + g * q
    h = scores * base**-0.5 + g * base**-1.5 * slopes + 2 * (0.5 * g * base**-1.5 * dim - 1.5 * g**2 * q * base**-2.5)
    np.fill_diagonal(h, 0)
    return h


def ksdagg(x: np.ndarray, score_fn, seed: int) -> float:
    """0 where the test rejects at its level and 1 where it does not: there is no p-value."""
    rng, (n, dim), s = np.random.default_rng(seed), x.shape, score_fn(x)
    largest = max(2.0, math.sqrt(squared_distances(x[:500], x[:500]).max()))
    signs = rng.choice([-1.0, 1.0], (2 * AGGREGATED_DRAWS + 1, n))
    signs[AGGREGATED_DRAWS] = 1
    signs = signs.T
    q = squared_distances(x, x)
    slopes = (x * s).sum(1)[:, None] - x @ s.T
    slopes = slopes + slopes.T
    forms = []
    for bandwidth in largest ** np.linspace(0, 1, KERNELS) / dim:
        h = aggregated_matrix(q, slopes, s @ s.T, dim, bandwidth)
        forms.append((signs * (h @ signs)).sum(0) / (n * (n - 1)))
    return 0.0 if rejects(np.array(forms)) else 1.0


def rejects(forms: np.ndarray) -> bool:
    """The largest level of the single tests at which all together keep theirs, by bisection; then their verdicts."""
    first, others = np.sort(forms[:, : AGGREGATED_DRAWS + 1]), forms[:, AGGREGATED_DRAWS + 1 :]

    def quantiles(u):
        return first[:, [math.ceil((AGGREGATED_DRAWS + 1) * (1 - u / KERNELS)) - 1]]

    low, high = 0.0, float(KERNELS)
    for _ in range(BISECTIONS):
        u = (low + high) / 2
        keeps = np.mean((others - quantiles(u)).max(0) > 0) <= LEVEL
        low, high = (u, high) if keeps else (low, u)
    return bool(np.any(forms[:, [AGGREGATED_DRAWS]] > quantiles(low)))
