import dataclasses
import json

import jax
import numpy as np
import pytest
from scipy import stats

import slicestein as ss
from slicestein._checks import InputError
from slicestein.gof import FSSD, KSD, MMD, RFF, RFSD, LinearKSD, MaxSKSD, chains, verdict
from slicestein.gof.measure import Sums
from slicestein.gof.methods import METHODS

RNG = np.random.default_rng(0)
GOOD = RNG.standard_normal((400, 10))
BAD = GOOD * np.where(np.arange(10) == 4, 1.5, 1.0)
EVERY = [*(m for m in METHODS if m != "auto"), MMD(np.random.default_rng(1).standard_normal((400, 10)))]


def autoregression(seed, chains=4, draws=300, dim=3, coefficient=0.8):
    """Chains whose every draw is N(0, I)."""
    noise = np.random.default_rng(seed).standard_normal((chains, draws, dim))
    x = noise.copy()
    for t in range(1, draws):
        x[:, t] = coefficient * x[:, t - 1] + np.sqrt(1 - coefficient**2) * noise[:, t]
    return x


# --- the door ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EVERY, ids=lambda m: m if isinstance(m, str) else m.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_method_runs_reports_and_rejects_at_its_level(method, dtype):
    result = ss.gof_test(BAD.astype(dtype), lambda x: -x, key=0, method=method)
    assert 0 < result.pvalue <= 1
    assert result.null_distribution.shape == (1000,)
    assert result.num_test in (400, 400 - result.num_train)  # what chooses may be tested too
    assert json.loads(json.dumps(result.to_dict()))["pvalue"] == result.pvalue
    assert result.method in str(result)
    lenient, strict = (dataclasses.replace(result, alpha=result.pvalue * factor) for factor in (1.001, 0.999))
    assert (lenient.reject, strict.reject) == (True, False)


def test_names_are_shortcuts_for_objects_and_an_object_keeps_its_options():
    one, other = (ss.gof_test(BAD, -BAD, key=0, method=m) for m in ("maxsksd-g", MaxSKSD("g")))
    assert one.pvalue == other.pvalue
    assert (
        ss.gof_test(BAD, -BAD, key=0, method=KSD(ss.RBF(1.0))).statistic
        != ss.gof_test(BAD, -BAD, key=0, method="ksd").statistic
    )


def test_what_an_adapter_returns_is_enough():
    draws = ss.adapters.Draws(BAD[None], -BAD[None], tuple("abcdefghij"))
    result = ss.gof_test(draws, key=0)
    assert result.parameters[0].name == "e"
    with pytest.raises(ss.InputError, match="score is missing"):
        ss.gof_test(BAD, key=0)


def test_results_can_be_compared():
    result = ss.gof_test(GOOD, -GOOD, key=0)
    assert result == result
    assert result != ss.gof_test(GOOD, -GOOD, key=0)


def test_nothing_is_compiled():
    """A first answer comes at once: no XLA program, in any default test."""
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(  # for good: there is no public way to take it back
        lambda name, _, **__: compiled.append(name) if name.endswith("backend_compile_duration") else None
    )
    x = RNG.standard_normal((487, 6))  # a size that no other test has
    ss.gof_test(x, -x, key=0)
    assert compiled == []


def test_faults_are_named():
    for options, message in [
        ({"method": "best"}, "method must be an object of slicestein.gof or one of"),
        ({"alpha": 0.0}, "alpha must lie between"),
        ({"num_bootstrap": 18}, "num_bootstrap = 18 cannot reach level 0.05: use at least 19"),
        ({"num_bootstrap": 13, "alpha": 0.07}, "num_bootstrap = 13 cannot reach level 0.07: use at least 14"),
        ({"train_fraction": 1.0}, "train_fraction must lie between"),
        ({"names": ["a"]}, "names must hold 10 names"),
        ({"method": "mmd"}, "pass method=slicestein.gof.MMD"),
    ]:
        with pytest.raises(ss.InputError, match=message):
            ss.gof_test(GOOD, -GOOD, key=0, **options)
    with pytest.raises(ss.InputError, match="too few samples to split"):
        ss.gof_test(GOOD[:6], -GOOD[:6], key=0)
    with pytest.raises(ss.InputError, match="score must have the shape of x"):
        ss.gof_test(GOOD[None], -GOOD, key=0)
    with pytest.raises(ss.InputError, match="column 3 of x does not vary: drop it, or mend the sampler"):
        ss.gof_test(GOOD * (np.arange(10) != 3), -GOOD, key=0)


@pytest.mark.parametrize("method", ["auto", "maxsksd-g", "ksd", "linear-ksd", "fssd-opt", "rfsd-l2sech"])
def test_a_score_that_is_zero_is_told_at_once(method):
    with pytest.raises(ss.InputError, match=r"^score is zero at every sample"):
        ss.gof_test(GOOD, 0 * GOOD, key=0, method=method)
    with pytest.raises(ss.InputError, match=r"^column 3 of score is zero at every sample"):
        ss.gof_test(GOOD, -GOOD * (np.arange(10) != 3), key=0, method=method)


@pytest.mark.parametrize(("unit", "dtype"), [(1e-25, np.float32), (1e25, np.float32), (1e-200, float), (1e200, float)])
def test_units_that_a_method_cannot_square_are_told(unit, dtype):
    x, s = (GOOD * unit).astype(dtype), (-GOOD / unit).astype(dtype)
    size = "large" if unit > 1 else "small"
    message = f"^x has values of about .*, too {size} for {np.dtype(dtype)}: change the units"
    calls = [lambda method=method: ss.gof_test(x, s, key=0, method=method) for method in ("ksd", "fssd-rand")]
    for call in (*calls, lambda: ss.fit_slices(x, s, key=0), lambda: ss.active_slices(x, s, 2)):
        with pytest.raises(ss.InputError, match=message):
            call()


def test_no_option_is_ignored():
    """What a method does not use it does not take."""
    for make, message in [
        (lambda: MaxSKSD(bootstrap="parametric", slices=ss.Slices.basis(10)), "bootstrap must be one of"),
        (lambda: MaxSKSD(slices=ss.Slices.basis(10), steps=5), "slices are given: leave steps out"),
        (lambda: MaxSKSD("g", omnibus=False), 'omnibus is for optimize="rg"'),
        (lambda: MaxSKSD(init="everything"), "init must be one of"),
        (lambda: MaxSKSD(kernel=ss.RBF(np.ones(3))), "bandwidth must be a number or have shape"),
        (lambda: FSSD("rand", train=(GOOD, -GOOD)), 'train is for locations="opt"'),
        (lambda: RFSD("l2sech", scale=3.0), 'scale and df are for features="l1imq"'),
        (lambda: MMD(GOOD, bootstrap="dependent"), "bootstrap must be one of"),
        (lambda: RFF("laplace"), "kernel must be one of"),
    ]:
        with pytest.raises(ss.InputError, match=message):
            ss.gof_test(GOOD, -GOOD, key=0, method=make())
    for method in (LinearKSD(), FSSD("rand"), FSSD("opt"), RFSD(), RFF(), MMD(GOOD)):
        with pytest.raises(ss.InputError, match=f"{method.name} has no null for dependent samples"):
            ss.gof_test(GOOD[None], -GOOD[None], key=0, method=method)


def test_the_null_that_is_named_is_the_one_that_was_used():
    nulls = {name: ss.gof_test(GOOD, lambda x: -x, key=0, method=name).bootstrap for name in METHODS}
    assert {nulls[name] for name in ("auto", "maxsksd-g", "ksd")} == {"wild"}
    assert {nulls[name] for name in ("linear-ksd", "fssd-opt", "rfsd-l2sech", "rff-cauchy")} == {"normal limit"}
    assert ss.gof_test(GOOD[None], -GOOD[None], key=0).bootstrap == "dependent"


# --- precision and range -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "maxsksd-g", "ksd"])
def test_samples_far_from_the_origin(method):
    """Rows keep their precision until they are centred: at 2.459e6 single precision has steps of 0.25."""
    origin = 2.459e6
    with jax.enable_x64(False):
        x = origin + 0.1 * np.random.default_rng(3).standard_normal((500, 3))
        far = ss.gof_test(x, -(x - origin) / 0.01, key=0, method=method)
        near = ss.gof_test(x - origin, -(x - origin) / 0.01, key=0, method=method)
    np.testing.assert_allclose(far.statistic, near.statistic, rtol=1e-4, atol=1e-6)
    assert far.pvalue == near.pvalue


@pytest.mark.parametrize(("unit", "dtype"), [(1e-25, np.float32), (1e25, np.float32), (1e-150, float), (1e150, float)])
def test_units_do_not_matter_however_small_or_large(unit, dtype):
    x, s = BAD.astype(dtype), (-BAD / unit).astype(dtype)
    scaled = ss.gof_test(x * dtype(unit), s, key=0)
    np.testing.assert_allclose(scaled.statistic, ss.gof_test(BAD, -BAD, key=0).statistic, rtol=0.02)
    assert scaled.parameters[0].name == "x[4]"


def test_outliers_ties_and_discrete_parts_have_no_slow_path():
    x = np.random.default_rng(0).standard_normal((2000, 4))
    x[::500] = 1e12  # some rows are far away
    x[:, 1] = np.round(x[:, 1])  # a discrete parameter
    x[:700, 2] = 0.0  # and one that is often the same
    result = ss.gof_test(x, -np.clip(x, -3, 3), key=0)
    assert np.isfinite(result.statistic)
    assert result.reject


def test_heavy_tails_of_the_model_are_no_evidence():
    """Exact draws of a Cauchy model, whose tails are beyond every Fourier range."""
    x = np.random.default_rng(4).standard_cauchy((2000, 5))
    assert ss.gof_test(x, -2 * x / (1 + x**2), key=0).pvalue > 0.01


@pytest.mark.parametrize("method", ["maxsksd-g", "maxsksd-rg"])
def test_units_and_origin_of_the_parameters_do_not_matter(method):
    units, origin = np.logspace(-3, 3, 10), np.linspace(-5, 5, 10)
    one = ss.gof_test(BAD, -BAD, key=0, method=method)
    other = ss.gof_test(BAD * units + origin, -BAD / units, key=0, method=method)
    np.testing.assert_allclose(other.statistic, one.statistic, rtol=1e-4)
    assert other.pvalue == one.pvalue


# --- what is found -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["maxsksd-g", "maxsksd-rg"])
def test_the_wrong_coordinate_is_named(method):
    names = [f"<b>{i}</b>" for i in range(10)]
    result = ss.gof_test(BAD, -BAD, key=0, method=method, names=names)
    assert result.reject
    assert result.worst(1)[0][0] == names[4]
    assert np.isclose(result.per_dimension.sum(), 1)
    assert "&lt;b&gt;4" in result._repr_html_()
    assert not ss.gof_test(GOOD, -GOOD, key=0, method=method).reject


@pytest.mark.parametrize("bootstrap", ["wild", "multinomial", "dependent", "eigenvalues"])
@pytest.mark.parametrize("kernel", [ss.RBF(1.2), ss.IMQ(1.2)], ids=["RBF", "IMQ"])
def test_given_slices_use_every_sample_and_the_statistic_is_sksd(bootstrap, kernel):
    slices = ss.Slices.random(0, 5, 10)
    result = ss.gof_test(BAD, -BAD, key=0, method=MaxSKSD(slices=slices, bootstrap=bootstrap, kernel=kernel))
    assert (result.num_train, result.num_test) == (0, 400)
    expected = ss.sksd(BAD, -BAD, slices, kernel=kernel, statistic="v" if bootstrap == "dependent" else "u")
    # The kernel is cut at 1e-5, and IMQ is what its nodes span.
    np.testing.assert_allclose(result.statistic, expected, rtol=1e-3 if isinstance(kernel, ss.RBF) else 0.05)
    if bootstrap != "dependent":
        np.testing.assert_allclose(result.per_slice.sum(), result.statistic, rtol=1e-4)


def test_bandwidths_are_those_of_the_training_rows():
    """A test row far away does not change how the others are seen: only what is chosen on training rows does."""
    train = (np.random.default_rng(5).standard_normal((300, 10)), lambda x: -x)
    method = MaxSKSD(train=train, omnibus=False)
    wide = np.concatenate([GOOD, 3 * GOOD])
    plan = method._plan(_problem(wide))[1]
    np.testing.assert_array_equal(plan.lines.g, method._plan(_problem(GOOD))[1].lines.g)


def _problem(x):
    from slicestein.gof.method import Problem
    from slicestein.rows.arrays import as_chains

    return Problem(as_chains(x, -x), None, np.random.default_rng(0), 0.05, 99, 0.2, None, notes=[])


def test_the_statistic_is_the_harmonic_mean_of_the_entries_by_their_share_of_the_level():
    result = ss.gof_test(BAD, -BAD, key=0)
    assert set(result.components) == {"fitted slices", "parameters", "radius", "shift", "covariance", "largest"}
    shares = np.array([verdict.LEVEL_SHARES[name] for name in result.components])
    pvalues = stats.norm.sf(list(result.components.values()))
    expected = shares.sum() / np.sum(shares / pvalues)
    np.testing.assert_allclose(stats.norm.sf(result.statistic), expected, rtol=1e-9)
    alone = ss.gof_test(BAD, -BAD, key=0, method=MaxSKSD(omnibus=False))
    assert alone.components is None
    np.testing.assert_allclose(alone.per_slice.sum(), alone.statistic, rtol=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [1, 2])
def test_level_in_one_and_two_dimensions(dim):
    """The radius, whose field is not smooth there, is not looked at."""
    trials, rng = 300, np.random.default_rng(5)
    samples = (rng.standard_normal((200, dim)) for _ in range(trials))
    hits = sum(ss.gof_test(x, -x, key=i, num_bootstrap=99).reject for i, x in enumerate(samples))
    assert stats.binomtest(hits, trials, 0.05).pvalue > 1e-3
    assert "radius" not in ss.gof_test(GOOD[:, :dim], -GOOD[:, :dim], key=0).components


def test_tables_are_matched_by_the_names_of_their_columns():
    pd = pytest.importorskip("pandas")
    x = pd.DataFrame(BAD, columns=[f"b{i}" for i in range(10)])
    score = -x[x.columns[::-1]]
    result = ss.gof_test(x, score, key=0)
    assert result.pvalue == ss.gof_test(BAD, -BAD, key=0).pvalue
    assert result.parameters[0].name == "b4"
    with pytest.raises(InputError, match="x has a column 'b0', which score has not"):
        ss.gof_test(x, score.rename(columns={"b0": "c"}), key=0)


def test_masked_and_far_values_are_refused():
    with pytest.raises(InputError, match="masked"):
        ss.gof_test(np.ma.masked_greater(GOOD, 2), -GOOD, key=0)
    far = GOOD.copy()
    far[3] = 1e200
    with pytest.raises(InputError, match=r"too large|so far out"):
        ss.gof_test(far, -far, key=0)


def test_a_little_shift_everywhere_is_seen_as_a_shift():
    x = np.random.default_rng(8).standard_normal((600, 12)) + 0.08
    result = ss.gof_test(x, -x, key=0)
    assert result.reject
    assert max(result.components, key=result.components.get) == "shift"


def test_wrong_correlations_are_seen_by_the_covariance_and_no_parameter_is_blamed():
    blamed = 0
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((600, 12))
        x = 0.9 * x + np.sqrt(1 - 0.9**2) * np.roll(x, 1, axis=1)  # each coordinate is right
        result = ss.gof_test(x, -x, key=seed)
        assert result.reject
        assert result.components["covariance"] > max(4, result.components["shift"], result.components["parameters"])
        blamed += "no single parameter is to blame" not in str(result)
    assert blamed <= 2  # by chance, in one of twenty


def test_tails_that_a_rotation_hides_are_seen_along_the_radius():
    rng = np.random.default_rng(9)
    turn = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    x = rng.laplace(scale=np.sqrt(0.5), size=(1000, 30)) @ turn
    result = ss.gof_test(x, -x, key=0)
    assert result.reject
    assert max(result.components, key=result.components.get) == "radius"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_chain_that_is_stuck_where_scores_are_huge_is_elsewhere(dtype):
    """Squares of the sums would overflow in single precision."""
    x = np.random.default_rng(1).standard_normal((4, 250, 8)).astype(dtype)
    score = -x
    x[2], score[2] = 48, 7e16
    result = ss.gof_test(x, score, key=0)
    assert result.reason == "chain 3 is elsewhere"
    assert all(np.isfinite([p.spread_error, p.shift_error]).all() for p in result.parameters)


def test_slices_can_be_chosen_on_other_samples():
    other = np.random.default_rng(7).standard_normal((300, 10))
    other[:, 4] *= 1.5
    result = ss.gof_test(BAD, -BAD, key=0, method=MaxSKSD(train=(other, lambda x: -x)))
    assert (result.num_train, result.num_test) == (300, 400)
    assert result.worst(1)[0][0] == "x[4]"


def test_slices_fitted_on_samples_brought_for_it_get_most_of_the_level(monkeypatch):
    """A weak correlation, which nothing but the slices fitted on many samples sees well."""
    mix = np.eye(20)
    mix[0, 1] = 0.2
    rng = np.random.default_rng(3)
    train, x = (rng.standard_normal((count, 20)) @ mix for count in (20_000, 500))
    method = MaxSKSD(train=(train, -train))
    brought = ss.gof_test(x, -x, key=0, method=method)
    assert max(brought.components, key=brought.components.get) == "fitted slices"
    monkeypatch.setattr(verdict, "FITTED_ON_ROWS_BROUGHT", verdict.LEVEL_SHARES["fitted slices"])
    assert brought.pvalue < 0.5 * ss.gof_test(x, -x, key=0, method=method).pvalue


def test_slices_to_start_from_are_in_the_coordinates_of_the_samples():
    """With units of their own whitening turns and stretches them; what comes back is what went in."""
    units = np.logspace(-3, 3, 10)
    mix = np.eye(10) + 0.3 * np.eye(10, k=1)
    x, s = (BAD @ mix.T) * units, (-BAD @ np.linalg.inv(mix)) / units
    start = ss.Slices.random(1, 4, 10)
    found = ss.gof_test(x, s, key=0, method=MaxSKSD(init=start, omnibus=False)).slices
    np.testing.assert_allclose(found.r, start.r, atol=1e-5)
    np.testing.assert_allclose(found.g, start.g, atol=1e-5)


def test_fitted_slices_are_in_the_coordinates_of_the_samples():
    units = np.logspace(-3, 3, 10)
    result, plain = (ss.gof_test(BAD * u, -BAD / u, key=0) for u in (units, np.ones(10)))
    best, same = int(np.argmax(result.per_slice)), int(np.argmax(plain.per_slice))
    seen = ss.Slices(result.slices.r * units**-1, result.slices.g * units)  # back to the units of BAD
    np.testing.assert_allclose(abs(seen.g[best] @ plain.slices.g[same]), 1, rtol=1e-3)
    np.testing.assert_allclose(abs(seen.r[best] @ plain.slices.r[same]), 1, rtol=1e-3)


# --- parameters --------------------------------------------------------------------------------


def correlated(count, narrow=1.0, shift=0.0, seed=0, dim=8):
    """Draws of a Gaussian with strong correlations, wrong in parameter 2; samples, scores, standard deviations."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.8 * np.ones((dim, dim)) + 0.2 * np.eye(dim)) * np.linspace(1, 5, dim)[:, None]
    covariance = root @ root.T
    x = rng.standard_normal((count, dim)) @ root.T
    x[:, 2] = narrow * x[:, 2] + shift * np.sqrt(covariance[2, 2])
    return x, -np.linalg.solve(covariance, x.T).T, np.sqrt(np.diag(covariance))


@pytest.mark.parametrize(
    ("wrong", "finding"),
    [
        ({"narrow": 0.8}, "too narrow"),
        ({"narrow": 1.25}, "too wide"),
        ({"shift": 0.3}, "too high"),
        ({"shift": -0.3}, "too low"),
    ],
)
def test_the_wrong_parameter_is_named_with_its_error(wrong, finding):
    x, s, spread = correlated(3000, **wrong)
    first, *others = ss.gof_test(x, s, key=0).parameters
    assert (first.name, first.finding) == ("x[2]", finding)
    assert abs(first.shift - wrong.get("shift", 0)) < 3 * first.shift_error < 0.15
    assert abs(first.spread - wrong.get("narrow", 1)) < 3 * first.spread_error < 0.15
    np.testing.assert_allclose(first.unit, spread[2], rtol=0.05)
    assert all(other.pvalue > first.pvalue for other in others)


def test_errors_of_the_estimates_are_right():
    """Over repetitions the estimates spread as their standard errors say, and they are centred."""
    found = [ss.gof_test(*correlated(400, seed=seed)[:2], key=seed, num_bootstrap=200) for seed in range(60)]
    for name, truth in (("shift", 0.0), ("spread", 1.0)):
        z = [
            (getattr(p, name) - truth) / getattr(p, f"{name}_error")
            for r in found
            for p in r.parameters
            if p.name == "x[5]"
        ]
        assert 0.75 < np.std(z) < 1.3  # the chi-square of 60, at 0.005 on both sides
        assert abs(np.mean(z)) < 3 / np.sqrt(60) * 1.3


def test_words_say_what_could_have_been_missed():
    text = str(ss.gof_test(GOOD, -GOOD, key=0))
    assert "no evidence against the model" in text
    assert "would most likely have been seen" in text


# --- chains ------------------------------------------------------------------------------------


def test_chains_are_split_in_time():
    chain = autoregression(2, chains=2, draws=1000, coefficient=0.95)
    result = ss.gof_test(chain, -chain, key=0)
    assert (result.bootstrap, result.num_train, result.num_test) == ("dependent", 400, 2000)
    np.testing.assert_array_equal(result.ess, chains.ess(chain))  # of all draws, as others count them
    for method in ("auto", "fssd-rand"):
        with pytest.warns(UserWarning, match="serially correlated"):
            taken_as_independent = ss.gof_test(chain[0], -chain[0], key=0, method=method)
        assert "serially correlated" in taken_as_independent.summary()


def test_rows_of_one_chain_keep_their_order_for_the_dependent_bootstrap():
    """Exact draws of a slow chain, given as (N, D): shuffled, nearly all of them would be rejected."""
    chains = [autoregression(seed, chains=1, draws=800, dim=2, coefficient=0.9)[0] for seed in range(20)]
    method = MaxSKSD(bootstrap="dependent")
    rejected = [ss.gof_test(x, -x, key=0, method=method, num_bootstrap=199).reject for x in chains]
    assert sum(rejected) <= 4  # 20 at level 0.05: 5 or more have probability 0.003


@pytest.mark.parametrize("dim", [2, 10])
@pytest.mark.parametrize("distance", [1, 3])
def test_a_chain_that_is_elsewhere_is_found_and_named(dim, distance):
    x = np.random.default_rng(3).standard_normal((4, 300, dim))
    x[2] += distance
    result = ss.gof_test(x, -x, key=0)
    assert (result.verdict, result.reason) == ("wrong", "chain 3 is elsewhere")


def test_too_few_independent_draws_are_not_a_fit():
    x = autoregression(1, chains=1, draws=400, dim=2, coefficient=0.99)
    result = ss.gof_test(x, -x, key=0)
    assert result.verdict in ("undecided", "wrong")
    assert result.ess.min() < 50
    assert result.verdict == "wrong" or "too few independent draws" in str(result)


def test_few_samples_that_show_nothing_are_not_called_right():
    x = np.random.default_rng(0).standard_normal((30, 3))
    result = ss.gof_test(x, -x, key=0)
    assert result.verdict == "undecided"
    assert "too few samples to tell: 30" in str(result)
    assert "would most likely have been seen" not in str(result)


def test_an_absurd_size_is_a_bound():
    x = np.random.default_rng(0).exponential(size=(1000, 2))
    result = ss.gof_test(x, lambda x: -np.ones_like(x), key=0)
    assert abs(result.parameters[0].shift) > 1000
    assert "its mean is beyond 1000 standard deviations too" in str(result)


@pytest.mark.parametrize(("chains", "draws"), [(600, 4), (300, 1)])
def test_chains_of_one_block_each_are_not_rejected(chains, draws):
    rng = np.random.default_rng(0)
    train, x = rng.standard_normal((500, 3)), rng.standard_normal((chains, draws, 3))
    method = ss.gof.MaxSKSD(train=(train, -train))
    assert ss.gof_test(x, -x, key=0, method=method, num_bootstrap=99).pvalue > 0.05
    assert ss.gof_test(1.3 * x, -1.3 * x, key=0, method=method, num_bootstrap=99).pvalue <= 0.05


def test_per_slice_counts_the_pairs_that_were_looked_at():
    """Fitted slices are zero in blocks that they were fitted on."""
    slices = np.ones((3, 2, 4))
    slices[0, 0] = 0
    pairs = verdict._pairs_seen(Sums(np.array([2, 3, 4]), slices))
    np.testing.assert_array_equal(pairs, [7**2 - 3**2 - 4**2, 9**2 - 2**2 - 3**2 - 4**2])


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e15), (np.float64, 1e18)])
def test_one_sample_far_out_is_always_seen(dtype, far):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((1000, 3)).astype(dtype)
        x[rng.integers(1000), 1] = far
        assert ss.gof_test(x, -x, key=seed).verdict == "wrong"


def test_what_fits_names_no_parameter():
    would_be_called_wrong = 0  # alone
    for seed in range(40):
        x = np.random.default_rng(seed).standard_normal((200, 6)) * [1, 1, 0.88, 1, 1, 1]
        result = ss.gof_test(x, -x, key=seed, num_bootstrap=99)
        if not result.reject:
            would_be_called_wrong += result.parameters[0].pvalue <= result.alpha
            assert not any(parameter.finding for parameter in result.parameters)
    assert would_be_called_wrong


def test_mmd_needs_no_score():
    x, y = np.random.default_rng(0).standard_normal((2, 300, 4))
    assert ss.gof_test(x, key=0, method=ss.gof.MMD(y)).pvalue == ss.gof_test(x, -x, key=0, method=ss.gof.MMD(y)).pvalue


def test_all_pairs_of_too_many_samples_are_refused_before_they_are_held():
    x = np.random.default_rng(0).standard_normal((2**15 + 1, 1))
    for method in ("ksd", "ksdagg", ss.gof.MMD(x)):
        with pytest.raises(ss.InputError, match="holds a matrix of all pairs of samples"):
            ss.gof_test(x, -x, key=0, method=method)


def test_a_result_is_ready_for_json():
    x = np.random.default_rng(0).standard_normal((200, 2))
    result = ss.gof_test(x, -x, key=0, alpha=np.float64(0.05))
    result = dataclasses.replace(result, components={"shift": -np.inf})
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["components"] == {"shift": None}
