"""Null distributions: check values, moments, and the level of the tests they give."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from slicestein import RBF
from slicestein.gof import dependence, null
from slicestein.gof.baselines import ksd_matrix, ksd_test
from tests.unit.standard_input import RTOL, S, X, assert_calibrated, normal, rejections

H = ksd_matrix(X, S)
N = len(X)
statistic_and_draws = jax.jit(null.statistic_and_draws, static_argnums=2)
bootstrap_weights = jax.jit(null.bootstrap_weights, static_argnums=(0, 2, 3), static_argnames="num_chains")
HOLLOW = np.asarray(H) * (1 - np.eye(N))
U = HOLLOW.sum() / (N * (N - 1))
MULTINOMIAL = np.random.default_rng(7).multinomial(N, np.full(N, 1 / N), size=4)
SIGNS = 2 * np.random.default_rng(8).integers(0, 2, size=(4, N)) - 1.0


def flipped_signs():
    flips = np.random.default_rng(9).random((4, 1, N)) < 0.1
    return null.sign_chains(jnp.zeros((4, 1), bool), jnp.asarray(flips))


def ar_multipliers():
    eps, rho = np.random.default_rng(10).standard_normal((4, N)), np.exp(-1 / 5)
    w = eps.copy()
    for t in range(1, N):
        w[:, t] = rho * w[:, t - 1] + np.sqrt(1 - rho**2) * eps[:, t]
    return w


@pytest.mark.parametrize(
    ("weights", "form", "expected"),
    [
        ((MULTINOMIAL - 1) / N, "u", [-0.1393094920, -0.2367691063, 0.1281419513, -0.1415579894]),
        (SIGNS / np.sqrt(N * (N - 1)), "u", [-0.1139080824, -0.1759417189, -0.04430116982, 0.08006725965]),
        (SIGNS / N, "v", [0.2629646037, 0.2040326490, 0.3290911706, 0.4472411786]),
        (flipped_signs() / N, "v", [0.2572303201, 0.6323553648, 0.5039777589, 0.2293617797]),
        (ar_multipliers() / N, "v", [0.3255089347, 0.6282198730, 0.2271166192, 2.309721737]),
    ],
    ids=["multinomial", "rademacher-u", "rademacher-v", "sign-chain", "ar-multipliers"],
)
def test_draws_have_the_check_values(weights, form, expected):
    statistic, draws = statistic_and_draws(H, jnp.asarray(weights), form)
    np.testing.assert_allclose(draws, expected, rtol=RTOL)
    np.testing.assert_allclose(statistic, {"u": 0.7106674503, "v": 1.046311360}[form], rtol=RTOL)


def test_pvalue_counts_the_statistic_itself():
    draws = jnp.arange(9.0)
    assert null.pvalue(jnp.array(9.0), draws) == 0.1
    assert null.pvalue(jnp.array(8.0), draws) == 0.2  # a tie counts against rejection
    assert null.pvalue(jnp.array(-1.0), draws) == 1.0


@pytest.mark.parametrize(("alpha", "num_draws"), [(0.05, 999), (0.05, 1000), (0.01, 50), (0.5, 19)])
def test_critical_value_and_pvalue_reject_the_same(alpha, num_draws):
    draws = jax.random.normal(jax.random.key(0), (num_draws,))
    critical = null.critical_value(draws, alpha)
    candidates = jnp.concatenate([draws, draws + 1e-9, draws - 1e-9, jnp.array([10.0])])
    pvalues = jax.jit(jax.vmap(null.pvalue, (0, None)))(candidates, draws)
    np.testing.assert_array_equal(np.asarray(candidates) > float(critical), np.asarray(pvalues) <= alpha)


def weights_of(kind, num_draws, num_samples=N, **more):
    return bootstrap_weights(kind, jax.random.key(3), num_draws, num_samples, **more)


def test_multinomial_weights_are_counts():
    weights = weights_of("multinomial", 200)
    counts = np.asarray(weights) * N + 1
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-12)
    np.testing.assert_allclose(counts.sum(1), N)
    np.testing.assert_allclose(counts.var(), 1 - 1 / N, rtol=0.1)


def test_multinomial_draws_have_the_conditional_moments():
    num_draws = 50_000
    _, draws = statistic_and_draws(H, weights_of("multinomial", num_draws), "u")
    centre = np.eye(N) - 1 / N
    variance = 2 * np.sum((centre @ HOLLOW @ centre) ** 2) / N**4
    np.testing.assert_allclose(draws.mean(), -(N - 1) * U / N**2, atol=4 * np.sqrt(variance / num_draws))
    np.testing.assert_allclose(draws.var(), variance, rtol=0.1)  # the formula is for large N


def test_rademacher_draws_have_the_conditional_moments():
    num_draws = 50_000
    _, draws = statistic_and_draws(H, weights_of("rademacher", num_draws), "u")
    variance = 2 * np.sum(HOLLOW**2) / (N * (N - 1)) ** 2
    np.testing.assert_allclose(draws.mean(), 0, atol=4 * np.sqrt(variance / num_draws))
    np.testing.assert_allclose(draws.var(), variance, rtol=0.03)


def test_signs_give_u_and_v_the_same_pvalue():
    signs = jax.random.rademacher(jax.random.key(1), (500, N), dtype=float)
    u = statistic_and_draws(H, signs / np.sqrt(N * (N - 1)), "u")
    v = statistic_and_draws(H, signs / N, "v")
    assert 1 / 501 < null.pvalue(*u) == null.pvalue(*v)


def test_sign_chains_forget_at_the_flip_probability_and_do_not_see_each_other():
    num_draws, length, a = 4000, 10, 0.1
    weights = weights_of("dependent", num_draws, 3 * length, num_chains=3, flip_probability=a)
    signs = np.asarray(weights).reshape(num_draws, 3, length) * 3 * length
    np.testing.assert_allclose(np.abs(signs), 1)
    tolerance = 4 / np.sqrt(num_draws)
    for lag in (1, 2, 5):
        products = (signs[:, :, lag:] * signs[:, :, :-lag]).mean((0, 2))
        np.testing.assert_allclose(products, (1 - 2 * a) ** lag, atol=tolerance)
    np.testing.assert_allclose((signs[:, 0, -1] * signs[:, 1, 0]).mean(), 0, atol=tolerance)
    np.testing.assert_allclose(signs[:, :, 0].mean(0), 0, atol=tolerance)


@pytest.mark.parametrize("kind", ["multinomial", "rademacher", "dependent"])
def test_each_bootstrap_has_its_form(kind):
    outcome = null.bootstrap_test(H, key=jax.random.key(0), kind=kind, num_draws=2000, flip_probability=0.5)
    form = {"multinomial": "u", "rademacher": "u", "dependent": "v"}[kind]
    np.testing.assert_allclose(outcome.statistic, {"u": 0.7106674503, "v": 1.046311360}[form], rtol=RTOL)
    # Without the diagonal draws are around zero, with it around trace / N^2 = 0.37.
    centre = np.trace(H) / N**2 if form == "v" else 0
    np.testing.assert_allclose(outcome.null_distribution.mean(), centre, atol=0.05)
    assert outcome.pvalue == null.pvalue(outcome.statistic, outcome.null_distribution)


def test_draws_keep_single_precision():
    outcome = null.bootstrap_test(H.astype(jnp.float32), key=jax.random.key(0), num_draws=10)
    assert {part.dtype for part in outcome} == {jnp.dtype("float32")}


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="kind must be one of"):
        weights_of("bootstrap", 10)
    with pytest.raises(ValueError, match="needs flip_probability"):
        weights_of("dependent", 10)
    with pytest.raises(ValueError, match="num_chains = 3 does not divide the 20 samples"):
        weights_of("dependent", 10, num_chains=3, flip_probability=0.1)


# --- limits ------------------------------------------------------------------------------------


def test_eigenvalue_null_has_the_quantiles_of_the_bootstrap():
    x = normal(150, 2)
    h = ksd_matrix(x, -x)
    chi_square = null.eigenvalue_null(h, jax.random.key(4), 10_000)
    signs = null.bootstrap_test(h, key=jax.random.key(5), num_draws=10_000).null_distribution
    # 10,000 draws fix the 99% quantile to 3% and the median to 0.01 standard deviations.
    for level in (0.5, 0.9, 0.95, 0.99):
        quantiles = np.quantile(chi_square, level), np.quantile(signs, level)
        np.testing.assert_allclose(*quantiles, rtol=0.1, atol=0.05 * np.std(signs))


def test_eigenvalue_null_has_the_conditional_variance():
    draws = null.eigenvalue_null(H, jax.random.key(4), 50_000)
    variance = 2 * np.sum(HOLLOW**2) / (N * (N - 1)) ** 2
    np.testing.assert_allclose(draws.mean(), 0, atol=4 * np.sqrt(variance / 50_000))
    np.testing.assert_allclose(draws.var(), variance, rtol=0.03)


@pytest.mark.parametrize("shape", [(7, 30), (30, 7)])
@pytest.mark.parametrize("centred", [True, False])
def test_gaussian_draws_have_the_covariance_of_the_features(shape, centred):
    features = 1 + np.random.default_rng(0).standard_normal(shape)
    draws = null.gaussian_draws(jnp.asarray(features), jax.random.key(0), 50_000, centred=centred)
    expected = np.cov(features.T) if centred else features.T @ features / shape[0]
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose((draws.T @ draws) / 50_000 / scale, expected / scale, atol=0.025)
    np.testing.assert_allclose(draws.mean(0) / np.sqrt(np.diag(expected)), 0, atol=0.02)


def test_power_is_that_of_repeated_experiments():
    shift, count, trials, threshold = 0.3, 100, 500, 0.06

    def experiment(x):
        h = ksd_matrix(x, -(x - shift), RBF(1.0))
        u = (h.sum() - jnp.trace(h)) / (count * (count - 1))
        return u, null.sigma_h(h), null.power_h1(h, threshold)

    samples = normal(trials, count, 1)
    us, sigmas, powers = map(np.asarray, jax.jit(lambda xs: lax.map(experiment, xs))(samples))
    # The factor 4: without it sigma would be half of this.
    np.testing.assert_allclose(sigmas.mean(), us.std() * np.sqrt(count), rtol=0.15)
    np.testing.assert_allclose(np.median(powers), np.mean(us > threshold), atol=0.1)


# --- dependence --------------------------------------------------------------------------------


def autoregression(coefficient, num_chains, length, dim, *, trials=(), seed=0):
    """Chains with normal margins, one after the other: (*trials, num_chains * length, dim)."""
    x = np.random.default_rng(seed).standard_normal((*trials, num_chains, length, dim))
    for t in range(1, length):
        x[..., t, :] = coefficient * x[..., t - 1, :] + np.sqrt(1 - coefficient**2) * x[..., t, :]
    return jnp.asarray(x.reshape(*trials, num_chains * length, dim))


@pytest.mark.parametrize("num_chains", [1, 4])
def test_autocorrelation_time_of_an_autoregression(num_chains):
    x = autoregression(np.array([0.0, 0.5, 0.8]), num_chains, 40_000 // num_chains, 3)
    tau = dependence.autocorrelation_times(x, num_chains)
    np.testing.assert_allclose(tau, [1.0, 3.0, 9.0], rtol=0.12)


def test_chains_that_disagree_are_slow():
    x = normal(4, 250, 1) + 10 * np.arange(4.0)[:, None, None]
    assert dependence.autocorrelation_times(x.reshape(1000, 1), 4)[0] > 50
    assert dependence.autocorrelation_times(x[0], 1)[0] < 2


def test_flip_probability_falls_with_dependence_and_stays_in_bounds():
    def of(coefficient, dim=5, num_chains=1):
        x = autoregression(coefficient, num_chains, 1000 // num_chains, dim)
        return float(dependence.flip_probability(x, num_chains))

    assert 0.5 >= of(0.0) > 0.1 > of(0.5) > of(0.8) > of(0.99) >= 5 / 1000
    one_slow = of(np.array([0.9, 0, 0, 0, 0]))
    assert one_slow < of(0.5)
    assert of(0.99, num_chains=4) < 5 / 1000  # each chain starts afresh: fewer flips are needed
    assert dependence.flip_probability(jnp.ones((1000, 5))) == 0.5


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["rademacher", "multinomial"])
def test_level_and_power_with_independent_samples(kind):
    def pvalue(key, shift, x):
        return ksd_test(x, -(x - shift), key=key, num_draws=199, kind=kind, kernel=RBF(1.5)).pvalue

    true, wrong = rejections(pvalue, 0.0, 0.5, normal(220, 100, 2))
    assert_calibrated(true, 200)
    assert wrong >= 18


@pytest.mark.statistical
@pytest.mark.parametrize(("coefficient", "num_chains"), [(0.8, 1), (0.8, 4), (0.5, 1)])
def test_level_and_power_with_markov_chains(coefficient, num_chains):
    """Independent signs reject 0.99 and 0.69 of these; 1000 trials at N = 1000, D = 5 gave 0.046 and 0.059."""
    x = autoregression(coefficient, num_chains, 400 // num_chains, 5, trials=(220,))
    true, wrong = rejections(DEPENDENT[num_chains], 0.0, 1.0, x)
    assert_calibrated(true, 200)
    assert wrong >= 18


def dependent_pvalue(num_chains, key, shift, x):
    options = {"num_chains": num_chains, "flip_probability": dependence.flip_probability(x, num_chains)}
    return ksd_test(x, -(x - shift), key=key, num_draws=199, kind="dependent", kernel=RBF(3.0), **options).pvalue


DEPENDENT = {num_chains: functools.partial(dependent_pvalue, num_chains) for num_chains in (1, 4)}


def test_alternating_draws_are_not_taken_for_independent_ones():
    """Draws of HMC swing around the mean: their autocorrelation time is 1, that of their squares is not."""
    noise = np.random.default_rng(0).standard_normal((4000, 2))
    x = np.zeros_like(noise)
    for t in range(1, len(x)):
        x[t] = -0.8 * x[t - 1] + 0.6 * noise[t]
    assert np.all(dependence.autocorrelation_times(jnp.asarray(x)) < 1.5)
    assert dependence.flip_probability(jnp.asarray(x)) < 0.5 * dependence.flip_probability(jnp.asarray(noise))
