"""Null distributions: check values, moments, and the level of the tests they give."""

import itertools

import jax
import numpy as np
import pytest

import slicestein as ss
from slicestein._checks import InputError
from slicestein.gof import dependence, null
from slicestein.gof.baselines.ksd import ksd_matrix
from tests.unit.standard_input import RTOL, SINGLE, S, X, assert_calibrated, autoregression, normal, rejections


@pytest.fixture(autouse=True)
def _default_precision():
    """Null distributions are NumPy: what JAX is set to does not matter."""
    with jax.enable_x64(False):
        yield


H = ksd_matrix(X, S)
N = len(X)
HOLLOW = H * (1 - np.eye(N))
PAIRS = N * (N - 1)
CENTRE = np.eye(N) - 1 / N
U, V = 0.7106674503, 1.046311360
MULTINOMIAL = np.random.default_rng(7).multinomial(N, np.full(N, 1 / N), size=4)
SIGNS = 2 * np.random.default_rng(8).integers(0, 2, size=(4, N)) - 1.0


def flipped_signs():
    flips = np.random.default_rng(9).random((4, N)) < 0.1
    flips[:, 0] = False
    return null.sign_chains(np.logical_xor.accumulate(flips, axis=1))


def ar_multipliers():
    eps, rho = np.random.default_rng(10).standard_normal((4, N)), np.exp(-1 / 5)
    w = eps.copy()
    for t in range(1, N):
        w[:, t] = rho * w[:, t - 1] + np.sqrt(1 - rho**2) * eps[:, t]
    return w


# --- quadratic forms ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("weights", "diagonal", "expected"),
    [
        ((MULTINOMIAL - 1) / N, False, [-0.1393094920, -0.2367691063, 0.1281419513, -0.1415579894]),
        (SIGNS / np.sqrt(PAIRS), False, [-0.1139080824, -0.1759417189, -0.04430116982, 0.08006725965]),
        (np.full((1, N), 1 / np.sqrt(PAIRS)), False, [U]),
        (SIGNS / N, True, [0.2629646037, 0.2040326490, 0.3290911706, 0.4472411786]),
        (flipped_signs() / np.float64(N), True, [0.2572303201, 0.6323553648, 0.5039777589, 0.2293617797]),
        (ar_multipliers() / N, True, [0.3255089347, 0.6282198730, 0.2271166192, 2.309721737]),
        (np.full((1, N), 1 / N), True, [V]),
    ],
    ids=["multinomial", "wild-u", "u", "wild-v", "sign-chain", "ar-multipliers", "v"],
)
def test_quadratic_forms_have_the_check_values(weights, diagonal, expected, dtype):
    forms = null.quadratic_forms(H.astype(dtype), weights.astype(dtype), diagonal=diagonal)
    assert forms.dtype == dtype
    np.testing.assert_allclose(forms, expected, **({"rtol": RTOL} if dtype == "float64" else {"atol": SINGLE}))


@pytest.mark.parametrize("diagonal", [True, False])
def test_quadratic_forms_in_blocks_of_rows_are_those_of_the_whole_matrix(diagonal):
    rows = normal(2 * null.FORM_ROWS + 7, 3)
    matrix, weights = rows @ rows.T, normal(5, len(rows))
    expected = np.einsum("bi,ij,bj->b", weights, matrix, weights)
    if not diagonal:
        expected -= weights**2 @ np.diag(matrix)
    np.testing.assert_allclose(null.quadratic_forms(matrix, weights, diagonal=diagonal), expected, rtol=1e-12)


def test_signs_give_u_and_v_the_same_pvalue():
    forms = [
        null.quadratic_forms(H, np.concatenate([np.ones((1, N)), signs]), diagonal=diagonal)
        for signs in [null.draw_weights("wild", np.random.default_rng(1), 500, (N,))]
        for diagonal in (True, False)
    ]
    u, v = (null.pvalue(form[0], form[1:]) for form in forms)
    assert 1 / 501 < u == v


def test_a_diagonal_that_is_all_there_is_leaves_no_rounding():
    """A kernel so narrow that no two samples meet: U and all its draws are 0. Subtracted, the diagonal left 3e-6."""
    x = normal(200, 20).astype(np.float32)
    found = null.matrix_test(ksd_matrix(x, -x, ss.RBF(0.05)), np.random.default_rng(0), 50)
    assert found.statistic == 0
    assert found.pvalue == 1
    np.testing.assert_array_equal(found.null_distribution, 0)


# --- p-values ----------------------------------------------------------------------------------


def test_pvalue_counts_the_statistic_itself():
    draws = np.arange(9.0)
    assert null.pvalue(9.0, draws) == 0.1
    assert null.pvalue(8.0, draws) == 0.2  # a tie counts against rejection
    assert null.pvalue(-1.0, draws) == 1.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nineteen_draws_are_enough_for_level_one_in_twenty(dtype):
    """In single precision 1 / 20 is larger than 0.05: a p-value in the precision of the draws rejects nothing."""
    far = (X + 3).astype(dtype)
    found = null.matrix_test(ksd_matrix(far, -far), np.random.default_rng(0), 19)
    assert type(found.pvalue) is float
    assert found.pvalue == 0.05
    assert ss.gof_test(far, -far, key=0, method="ksd", num_bootstrap=19).reject


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [33, 500])
def test_draws_with_the_weights_of_the_statistic_are_ties(dtype, count):
    """Signs that never flip: every draw *is* the statistic, whatever rounding makes of their sums."""
    x = normal(count, 3).astype(dtype)
    found = null.matrix_test(
        ksd_matrix(x, -x), np.random.default_rng(0), 200, kind="dependent", lengths=(count,), flip_probability=1e-9
    )
    assert found.pvalue == 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ties_are_relative_to_the_precision(dtype):
    """What rounding can do counts as a tie, in the precision of the draws, and no more."""
    eps = np.finfo(dtype).eps
    draws = np.full(19, 0.7, dtype)
    assert null.pvalue(0.7 * (1 + 10 * eps), draws) == 1
    assert null.pvalue(0.7 * (1 + 1e-4), draws) == 0.05
    assert null.pvalue(-0.7 * (1 - 10 * eps), -draws) == 1
    assert null.pvalue(-0.7 * (1 - 1e-4), -draws) == 0.05


@pytest.mark.parametrize(("alpha", "num_bootstrap"), [(0.05, 999), (0.05, 1000), (0.01, 50), (0.5, 19), (0.99, 19)])
def test_critical_value_and_pvalue_reject_the_same(alpha, num_bootstrap):
    draws = normal(num_bootstrap)
    critical = null.critical_value(draws, alpha)
    candidates = np.concatenate([draws, draws + 1e-9, draws - 1e-9, [10.0]])
    pvalues = np.array([null.pvalue(candidate, draws) for candidate in candidates])
    np.testing.assert_array_equal(candidates > critical, pvalues <= alpha)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_is_not_finite_is_no_evidence(bad, dtype):
    """Comparisons with NaN are all false: p would be 1 / (B + 1), the strongest rejection there is."""
    draws = np.arange(9, dtype=dtype)
    spoilt = draws.copy()
    spoilt[4] = bad
    for statistic, null_draws in ((np.dtype(dtype).type(bad), draws), (1.0, spoilt)):
        with pytest.raises(InputError, match="too large to be squared"):
            null.outcome(statistic, null_draws)


@pytest.mark.parametrize("method", ["ksd", "linear-ksd"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_samples_that_overflow_are_not_judged(method):
    x = normal(50, 2).astype(np.float32)
    x[0, 0] = 1e30
    with pytest.raises(InputError, match=r"^x has values of about 1e.30, too large for float32"):
        ss.gof_test(x, -x, key=0, method=method, num_bootstrap=19)


# --- weights -----------------------------------------------------------------------------------


def weights_of(kind, num_bootstrap, lengths=(N,), **more):
    weights = null.draw_weights(kind, np.random.default_rng(3), num_bootstrap, lengths, **more)
    assert weights.dtype == np.float32
    assert weights.shape == (num_bootstrap, sum(lengths))
    return weights.astype(float)


def test_multinomial_weights_are_counts_less_their_mean():
    counts = weights_of("multinomial", 2000) + 1
    np.testing.assert_array_equal(counts, np.round(counts))
    np.testing.assert_array_equal(counts.sum(1), N)
    np.testing.assert_allclose(counts.var(), 1 - 1 / N, rtol=0.03)


def test_multinomial_draws_have_the_conditional_moments():
    num_bootstrap = 50_000
    draws = null.quadratic_forms(H, weights_of("multinomial", num_bootstrap), diagonal=False) / PAIRS
    variance = 2 * np.sum((CENTRE @ HOLLOW @ CENTRE) ** 2) / PAIRS**2
    np.testing.assert_allclose(draws.mean(), -U / N, atol=4 * np.sqrt(variance / num_bootstrap))
    np.testing.assert_allclose(draws.var(), variance, rtol=0.1)  # the formula is for large N


@pytest.mark.parametrize("kind", ["wild", "eigenvalues"])
def test_draws_have_the_conditional_moments(kind):
    num_bootstrap = 50_000
    draws = null.quadratic_forms(H, weights_of(kind, num_bootstrap), diagonal=False) / PAIRS
    variance = 2 * np.sum(HOLLOW**2) / PAIRS**2
    np.testing.assert_allclose(draws.mean(), 0, atol=4 * np.sqrt(variance / num_bootstrap))
    np.testing.assert_allclose(draws.var(), variance, rtol=0.05)


def test_wild_weights_are_signs_of_which_half_are_negative():
    signs = weights_of("wild", 5000)
    np.testing.assert_array_equal(np.abs(signs), 1)
    np.testing.assert_allclose(signs.mean(0), 0, atol=4.5 / np.sqrt(5000))  # 20 columns
    np.testing.assert_allclose(signs.T @ signs / 5000, np.eye(N), atol=5 / np.sqrt(5000))  # 190 pairs


def test_sign_chains_forget_at_the_flip_probability_and_do_not_see_each_other():
    num_bootstrap, lengths, a = 4000, (10, 7, 13), 0.1
    signs = weights_of("dependent", num_bootstrap, lengths, flip_probability=a)
    np.testing.assert_array_equal(np.abs(signs), 1)
    tolerance = 4 / np.sqrt(num_bootstrap)
    begins = np.cumsum([0, *lengths])
    chains = [signs[:, begin:end] for begin, end in itertools.pairwise(begins)]
    for chain in chains:
        np.testing.assert_allclose(chain[:, 0].mean(), 0, atol=tolerance)
        for lag in (1, 2, 5):
            products = (chain[:, lag:] * chain[:, :-lag]).mean()
            np.testing.assert_allclose(products, (1 - 2 * a) ** lag, atol=tolerance)
    for one, other in itertools.pairwise(chains):
        np.testing.assert_allclose((one[:, -1] * other[:, 0]).mean(), 0, atol=tolerance)


def test_signs_that_flip_every_other_time_are_independent():
    signs = weights_of("dependent", 4000, flip_probability=0.5)
    np.testing.assert_allclose(signs.T @ signs / 4000, np.eye(N), atol=5 / np.sqrt(4000))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", null.KINDS)
def test_each_bootstrap_has_its_form(kind, dtype):
    rng = np.random.default_rng(0)
    found = null.matrix_test(H.astype(dtype), rng, 4000, kind=kind)
    v = kind == "dependent"
    np.testing.assert_allclose(found.statistic, V if v else U, rtol=RTOL if dtype == "float64" else SINGLE)
    # Without the diagonal draws are around zero, with it around its share of V; multinomial ones around -U / N.
    centre = np.trace(H) / N**2 if v else -U / N if kind == "multinomial" else 0
    seen = CENTRE @ HOLLOW @ CENTRE if kind == "multinomial" else HOLLOW
    spread = np.sqrt(2 * np.sum(seen**2)) / (N**2 if v else PAIRS)
    np.testing.assert_allclose(found.null_distribution.mean(), centre, atol=4 * spread / np.sqrt(4000))
    np.testing.assert_allclose(found.null_distribution.std(), spread, rtol=0.15)
    assert found.null_distribution.dtype == dtype
    assert found.pvalue == null.pvalue(found.statistic, found.null_distribution)


# --- several statistics ------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scores", [null.standardized, null.normal_scores])
def test_the_largest_of_several_has_the_level_at_every_number_of_draws(scores, dtype):
    """At B = 19, mean and spread of the draws alone would reject 0.11 and not 0.05."""
    values = np.random.default_rng(0).chisquare([1, 2, 5, 20, 50], (4000, 20, 5)).astype(dtype)

    def pvalue(_, forms):
        top = scores(forms).max(1)
        return null.pvalue(top[0], top[1:])

    assert_calibrated(rejections(pvalue, values), 4000)


def test_standardized_columns_have_mean_zero_and_spread_one_over_statistic_and_draws():
    values = 5 + 3 * normal(20, 4)
    scores = null.standardized(values)
    np.testing.assert_allclose(scores.mean(0), 0, atol=1e-13)
    np.testing.assert_allclose(scores.std(0), 1, rtol=1e-13)
    np.testing.assert_allclose(null.standardized(7 * values - 2), scores, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e4 / 3])
def test_a_null_without_spread_says_nothing(dtype, value):
    values = normal(1001, 3).astype(dtype)
    values[:, 1] = value
    scores = null.standardized(values)
    np.testing.assert_array_equal(scores[:, 1], 0)
    assert np.abs(scores[:, [0, 2]]).max() > 1
    assert np.isfinite(null.normal_scores(np.full((20, 2), value, dtype))).all()


def test_rounding_is_no_spread():
    """A null that is constant but for rounding must not be blown up to standard deviations."""
    rng = np.random.default_rng(0)
    for dtype in ("float64", "float32"):
        eps = np.finfo(dtype).eps
        forms = (1 + eps * rng.integers(-3, 4, (1000, 1))).astype(dtype)
        forms[0] = 1 + 8 * eps
        assert np.abs(null.standardized(forms)).max() == 0


def test_normal_scores_make_long_tails_and_short_ones_alike():
    """Chi-square forms: the skewness of the scores is near zero whatever the degrees of freedom."""
    forms = np.random.default_rng(0).chisquare([3, 10, 100], (20_000, 3))
    assert np.all(np.abs(np.mean(null.normal_scores(forms) ** 3, axis=0)) < 0.15)
    assert np.mean(null.standardized(forms) ** 3, axis=0)[0] > 1.4


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wild", "eigenvalues", "multinomial"])
def test_eigenvalue_null_has_the_quantiles_of_the_bootstrap(kind):
    x = normal(150, 2)
    h = ksd_matrix(x, -x)
    chi_square = null.eigenvalue_null(h, np.random.default_rng(4), 10_000)
    draws = null.matrix_test(h, np.random.default_rng(5), 10_000, kind=kind).null_distribution
    # 10,000 draws fix the 99% quantile to 3% and the median to 0.01 standard deviations.
    for level in (0.5, 0.9, 0.95, 0.99):
        quantiles = np.quantile(chi_square, level), np.quantile(draws, level)
        np.testing.assert_allclose(*quantiles, rtol=0.1, atol=0.05 * np.std(draws))


def test_eigenvalue_null_has_the_conditional_variance():
    draws = null.eigenvalue_null(H, np.random.default_rng(4), 50_000)
    variance = 2 * np.sum(HOLLOW**2) / PAIRS**2
    np.testing.assert_allclose(draws.mean(), 0, atol=4 * np.sqrt(variance / 50_000))
    np.testing.assert_allclose(draws.var(), variance, rtol=0.05)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(7, 30), (30, 7)])
@pytest.mark.parametrize("centred", [True, False])
def test_gaussian_draws_have_the_covariance_of_the_features(shape, centred, dtype):
    features = 1 + np.random.default_rng(0).standard_normal(shape)
    draws = null.gaussian_draws(features.astype(dtype), np.random.default_rng(0), 50_000, centred=centred)
    assert draws.dtype == dtype
    expected = np.cov(features.T) if centred else features.T @ features / shape[0]
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose((draws.T @ draws) / 50_000 / scale, expected / scale, atol=0.025)
    np.testing.assert_allclose(draws.mean(0) / np.sqrt(np.diag(expected)), 0, atol=0.02)


def test_power_is_that_of_repeated_experiments():
    shift, count, trials, threshold = 0.3, 100, 500, 0.06
    matrices = [ksd_matrix(x, -(x - shift), ss.RBF(1.0)) for x in normal(trials, count, 1)]
    us = np.array([(h.sum() - np.trace(h)) / (count * (count - 1)) for h in matrices])
    sigmas = [null.sigma_h(h) for h in matrices]
    powers = [null.power_h1(h, threshold) for h in matrices]
    # The factor 4: without it sigma would be half of this.
    np.testing.assert_allclose(np.mean(sigmas), us.std() * np.sqrt(count), rtol=0.15)
    np.testing.assert_allclose(np.median(powers), np.mean(us > threshold), atol=0.1)


# --- level and power ---------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["wild", "multinomial", "eigenvalues"])
def test_level_and_power_with_independent_samples(kind, dtype):
    def pvalue(seed, x, shift=0.0):
        h = ksd_matrix(x, -(x - x.dtype.type(shift)), ss.RBF(1.5))
        return null.matrix_test(h, np.random.default_rng(seed), 99, kind=kind).pvalue

    assert_calibrated(rejections(pvalue, normal(1000, 100, 2).astype(dtype)), 1000)
    wrong = normal(50, 100, 2, seed=1).astype(dtype)
    assert rejections(lambda seed, x: pvalue(seed, x, 0.5), wrong) >= 45


@pytest.mark.statistical
@pytest.mark.parametrize(("coefficient", "chains"), [(0.8, 1), (0.8, 4), (0.5, 1)])
def test_level_and_power_with_markov_chains(coefficient, chains):
    """Independent signs reject 0.99 and 0.69 of these."""

    def pvalue(seed, x, shift=0.0):
        flat = x.reshape(-1, x.shape[-1])
        options = {"lengths": x.shape[1:2] * chains, "flip_probability": dependence.flip_probability(x)}
        h = ksd_matrix(flat, -(flat - np.float32(shift)), ss.RBF(3.0))
        return null.matrix_test(h, np.random.default_rng(seed), 99, kind="dependent", **options).pvalue

    x = autoregression(coefficient, chains, {1: 400, 4: 200}[chains], 5, trials=(440,)).astype(np.float32)
    assert_calibrated(rejections(pvalue, x[:400]), 400)
    assert rejections(lambda seed, x: pvalue(seed, x, 1.0), x[400:]) >= 36
