"""Thinning and weights: against double loops over pairs, by conditions of optimality, and on chains that are wrong."""

import numpy as np
import pytest

import slicestein as ss
from slicestein import thinning
from slicestein._directions.whitening import find_whitening
from slicestein.rows.arrays import as_chains

KINDS = ("both", "sksd", "ksd")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def correlated(rng, n, d):
    """Draws of a Gaussian with correlations, and their scores."""
    covariance = 0.6 ** np.abs(np.arange(d)[:, None] - np.arange(d))
    x = rng.standard_normal((n, d)) @ np.linalg.cholesky(covariance).T
    return x, -x @ np.linalg.inv(covariance)


def median_gap(points):
    gaps = [np.linalg.norm(points[i] - points[j]) for i in range(len(points)) for j in range(i)]
    return np.median(gaps)


def imq_pair(y, z, sy, sz, bandwidth):
    """Stein kernel of an inverse multiquadric between two points, written out (label "eq: KSD")."""
    gap, h2 = y - z, bandwidth**2
    base = 1 + gap @ gap / h2
    k, slope = base**-0.5, -(base**-1.5) / h2  # the gradient in y is slope * gap
    trace = -len(y) * slope - 3 * base**-2.5 * (gap @ gap) / h2**2
    return k * (sy @ sz) + slope * (gap @ sz) - slope * (gap @ sy) + trace


def brute_kernel(x, s, kind):
    """h_ij by a double loop over draws and slices: parameters, then axes of the whitened space, then the full space."""
    x = x - x.mean(0)
    whitening = find_whitening(x, s)
    y, sy = whitening(x, s)
    deviation = np.sqrt(np.diag(whitening.covariance))
    t = np.column_stack([x / deviation, y])
    a = np.column_stack([s @ whitening.covariance / deviation, sy])
    n = len(x)
    h = np.zeros((n, n))
    if kind != "ksd":
        for m in range(t.shape[1]):
            bandwidth = median_gap(t[:, m : m + 1])
            for i in range(n):
                for j in range(n):
                    h[i, j] += imq_pair(t[i, m : m + 1], t[j, m : m + 1], a[i, m : m + 1], a[j, m : m + 1], bandwidth)
    if kind != "sksd":
        bandwidth = median_gap(y)
        for i in range(n):
            for j in range(n):
                h[i, j] += imq_pair(y[i], y[j], sy[i], sy[j], bandwidth)
    return h


@pytest.mark.parametrize("kind", KINDS)
def test_choices_are_those_of_a_double_loop(rng, kind):
    x, s = correlated(rng, 40, 3)
    h = brute_kernel(x, s, kind)
    chosen = []
    for _ in range(15):
        objective = [h[n, n] / 2 + sum(h[n, i] for i in chosen) for n in range(len(x))]
        chosen.append(int(np.argmin(objective)))
    np.testing.assert_array_equal(ss.thin(x, s, 15, discrepancy=kind), chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_and_diagonal_are_those_of_a_double_loop(rng, kind):
    x, s = correlated(rng, 30, 2)
    columns = thinning._columns(as_chains(x, s), kind)
    h = brute_kernel(x, s, kind)
    np.testing.assert_allclose(np.stack([columns.column(i) for i in range(30)]), h, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(columns.diagonal(), np.diag(h), rtol=1e-9)


def test_fewer_draws_are_the_first_of_more(rng):
    x, s = correlated(rng, 300, 4)
    np.testing.assert_array_equal(ss.thin(x, s, 20), ss.thin(x, s, 50)[:20])


@pytest.mark.parametrize("what", [ss.thin, lambda x, s, num: ss.weights(x, s).weights], ids=["thin", "weights"])
def test_units_and_origins_do_not_matter(rng, what):
    x, s = correlated(rng, 200, 3)
    scale, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -2.0, 1e5])
    np.testing.assert_allclose(what(x, s, 30), what(x * scale + shift, s / scale, 30), atol=1e-6)


def test_chains_are_laid_one_after_the_other(rng):
    x, s = correlated(rng, 200, 3)
    chains, scores = x.reshape(4, 50, 3), s.reshape(4, 50, 3)
    np.testing.assert_array_equal(ss.thin(chains, scores, 30), ss.thin(x, s, 30))
    found = ss.weights(chains, scores).weights
    assert found.shape == (4, 50)
    np.testing.assert_array_equal(found.ravel(), ss.weights(x, s).weights)


def test_what_an_adapter_returns_is_enough(rng):
    x = rng.standard_normal((2, 100, 3))
    draws = ss.adapters.Draws(x, -x, ("a", "b", "c"))
    np.testing.assert_array_equal(ss.thin(draws, num=20), ss.thin(x, -x, 20))
    np.testing.assert_array_equal(ss.weights(draws).weights, ss.weights(x, -x).weights)


def test_a_score_function_gives_what_its_values_give(rng):
    x = rng.standard_normal((100, 2))
    np.testing.assert_array_equal(ss.thin(x, lambda x: -x, 10), ss.thin(x, -x, 10))


def test_single_precision_chooses_as_well_as_double(rng):
    """Also far from the origin, where single precision is centred before it is cut."""
    x, s = correlated(rng, 500, 5)
    h = brute_scores(x, s)
    double = ss.thin(x, s, 30)
    single = ss.thin((x + 100).astype(np.float32), s.astype(np.float32), 30)
    assert h(single) < 1.02 * h(double)
    assert ss.weights(x.astype(np.float32), s.astype(np.float32)).weights.sum() == pytest.approx(1)


def brute_scores(x, s):
    """The discrepancy of some of the draws."""
    columns = thinning._columns(as_chains(x, s), "both")
    return lambda kept: np.mean([columns.column(i)[kept] for i in kept])


def test_burn_in_is_left_out(rng):
    x = rng.standard_normal((2000, 5))
    x[:400] += np.linspace(10, 2, 400)[:, None]
    kept = ss.thin(x, -x, 50)
    assert np.mean(kept < 400) < 0.05
    assert np.abs(x[kept].mean(0)).max() < 0.1


def test_a_wide_sampler_is_narrowed_and_a_right_one_keeps_its_spread(rng):
    """In 30 dimensions, where the full-space kernel alone shrinks draws to the mode."""
    z = rng.standard_normal((5000, 30))
    wide, right = 1.2 * z, z
    spread = lambda x, kind: x[ss.thin(x, -x, 60, discrepancy=kind)].var(0).mean()
    assert spread(wide, "both") == pytest.approx(1, abs=0.1)
    assert spread(right, "both") > 0.9
    assert spread(right, "ksd") < 0.8


def energy_distance(x, reference):
    gaps = lambda a, b: np.mean([np.linalg.norm(b - row, axis=1).mean() for row in a])
    return 2 * gaps(x, reference) - gaps(x, x) - gaps(reference, reference)


def test_draws_are_closer_to_the_model_than_every_kth(rng):
    x, s = correlated(rng, 4000, 20)
    reference, _ = correlated(rng, 2000, 20)
    thinned, every_80th = (energy_distance(some, reference) for some in (x[ss.thin(x, s, 50)], x[::80]))
    assert thinned < 0.7 * every_80th


# --- weights -----------------------------------------------------------------------------------


def test_weights_meet_the_conditions_of_optimality(rng, monkeypatch):
    """All draws are landmarks: the gradient is constant where weights are positive, and nowhere smaller."""
    monkeypatch.setattr(thinning, "GAIN", 1e-7)
    monkeypatch.setattr(thinning, "MOST_STEPS", 100_000)
    x, s = correlated(rng, 60, 2)
    found = ss.weights(0.7 * x, 0.7 * s)
    h = brute_kernel(0.7 * x, 0.7 * s, "both")
    slope, w = h @ found.weights, found.weights
    scale = h.mean()
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1)
    assert 0 < np.sum(w == 0) < 60
    np.testing.assert_allclose(slope[w > 1e-3], w @ slope, atol=1e-4 * scale)
    assert slope.min() > w @ slope - 1e-5 * scale
    assert found.discrepancy == pytest.approx(w @ h @ w, rel=1e-6)
    assert found.discrepancy_before == pytest.approx(h.mean(), rel=1e-6)
    assert found.effective_sample_size == pytest.approx(1 / np.sum(w**2))


def test_landmarks_keep_the_diagonal_and_come_close(rng, monkeypatch):
    x, s = (0.8 * z for z in correlated(rng, 400, 3))
    columns = thinning._columns(as_chains(x, s), "both")
    exact = ss.weights(x, s)
    monkeypatch.setattr(thinning, "LANDMARKS", 150)
    low_rank, rest = thinning._factors(columns)
    np.testing.assert_allclose(np.sum(low_rank**2, axis=1) + rest, columns.diagonal(), rtol=1e-9)
    h = np.stack([columns.column(i) for i in range(400)])
    near = ss.weights(x, s).weights
    assert near @ h @ near < exact.discrepancy + 0.1 * (exact.discrepancy_before - exact.discrepancy)


def test_weights_mend_a_mean_field_fit(rng):
    """Draws without the correlation of the model, 0.6, and too narrow for the lack of it."""
    precision = np.linalg.inv([[1, 0.6], [0.6, 1]])
    x = rng.standard_normal((1000, 2)) / np.sqrt(np.diag(precision))
    found = ss.weights(x, -x @ precision)
    covariance = np.cov(x.T, aweights=found.weights)
    np.testing.assert_allclose(covariance, [[1, 0.6], [0.6, 1]], atol=0.1)
    assert found.effective_sample_size > 100


def test_projection_is_the_nearest_point_of_the_simplex(rng):
    v = rng.standard_normal(20)
    nearest = thinning.project(v)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(1)
    for other in rng.dirichlet(np.ones(20), 500):
        assert (v - nearest) @ (other - nearest) <= 1e-12  # the angle of a nearest point


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num": 0}, "num must lie between 1 and the number of draws, 20, got 0"),
        ({"num": 21}, "num must lie between 1 and the number of draws, 20, got 21"),
        ({"num": None}, r"num is missing: say how many draws to keep, as in thin\(x, score, num=100\)"),
        ({"score": None}, "score is missing: .* got ndarray"),
        ({"num": 2.5}, "num must be a whole number of draws, got 2.5"),
        ({"discrepancy": "mmd"}, "discrepancy must be one of .*'mmd'"),
        ({"score": np.zeros((20, 2))}, "score must have the shape of x"),
        ({"x": np.zeros((20, 3))}, "column 0 of x does not vary"),
        ({"x": np.full((20, 3), np.nan)}, "x has 60 values that are NaN"),
    ],
)
def test_bad_input_is_told(rng, change, message):
    x = rng.standard_normal((20, 3))
    arguments = {"x": x, "score": -x, "num": 5} | change
    with pytest.raises(ss.InputError, match=message):
        ss.thin(arguments.pop("x"), arguments.pop("score"), arguments.pop("num"), **arguments)


def test_bad_input_of_weights_is_told(rng):
    x = rng.standard_normal((20, 3))
    with pytest.raises(ss.InputError, match="discrepancy must be one of"):
        ss.weights(x, -x, discrepancy="full")
    with pytest.raises(ss.InputError, match="score has 60 values"):
        ss.weights(x, np.inf * x)


@pytest.mark.parametrize("far", [1e4, 1e6, 1e12])
def test_a_draw_far_out_gets_no_weight_and_does_not_stop_the_others(far):
    x = 0.8 * np.random.default_rng(1).standard_normal((1000, 2))
    x[7, 0] = far
    found = ss.weights(x, -x).weights
    assert found[7] == 0
    others = np.arange(1000) != 7
    np.testing.assert_allclose(np.sqrt(found[others] @ x[others] ** 2), 1, atol=0.05)
