import json

import jax
import numpy as np
import pytest

import slicestein as ss
from slicestein.gof import outcomes
from slicestein.gof import test as gof

RNG = np.random.default_rng(0)
GOOD = RNG.standard_normal((400, 10))
BAD = GOOD * np.where(np.arange(10) == 4, 1.5, 1.0)
BASELINES = sorted(gof.BASELINES)


@pytest.mark.parametrize("method", ["auto", "maxsksd-g", "maxsksd-rg", *BASELINES])
def test_every_method_runs_and_reports(method):
    model_samples = np.random.default_rng(1).standard_normal((400, 10)) if method == "mmd" else None
    result = ss.gof_test(BAD, lambda x: -x, key=0, method=method, model_samples=model_samples)
    assert 0 < result.pvalue <= 1
    assert result.null_distribution.shape == (1000,)
    assert result.reject == (result.pvalue <= 0.05)
    assert result.num_test + result.num_train == 400
    assert json.loads(json.dumps(result.to_dict()))["pvalue"] == result.pvalue
    assert result.method in str(result)


@pytest.mark.parametrize("method", ["maxsksd-g", "maxsksd-rg"])
def test_the_wrong_coordinate_is_named(method):
    names = [f"<b>{i}</b>" for i in range(10)]
    result = ss.gof_test(BAD, -BAD, key=0, method=method, names=names)
    assert result.reject
    assert result.worst(1)[0][0] == names[4]
    assert np.isclose(result.per_dimension.sum(), 1)
    assert "&lt;b&gt;4" in result._repr_html_()
    assert not ss.gof_test(GOOD, -GOOD, key=0, method=method).reject


def test_the_pvalue_counts_the_statistic_itself():
    result = ss.gof_test(BAD, -BAD, key=0)
    assert result.pvalue == (1 + np.sum(result.null_distribution >= result.statistic)) / 1001


@pytest.mark.parametrize("bootstrap", ["wild", "multinomial", "dependent"])
def test_the_linear_null_is_that_of_the_matrix(bootstrap, monkeypatch):
    """Same statistic; null draws of the same distribution (they use their keys differently)."""
    x = BAD if bootstrap != "dependent" else BAD[None]
    slices = ss.Slices.basis(10)
    run = lambda: ss.gof_test(x, -x, key=0, slices=slices, bootstrap=bootstrap, num_bootstrap=4000)
    matrix = run()
    monkeypatch.setattr(outcomes, "MATRIX_SAMPLES", 0)
    linear = run()
    np.testing.assert_allclose(linear.statistic, matrix.statistic, rtol=1e-8)
    levels = [0.1, 0.5, 0.9]
    spread = np.std(matrix.null_distribution)
    np.testing.assert_allclose(
        np.quantile(linear.null_distribution, levels), np.quantile(matrix.null_distribution, levels), atol=0.15 * spread
    )


def test_given_slices_use_every_sample_and_the_statistic_is_sksd():
    slices = ss.Slices.random(0, 5, 10)
    result = ss.gof_test(BAD, -BAD, key=0, slices=slices)
    assert (result.num_train, result.num_test) == (0, 400)
    np.testing.assert_allclose(result.statistic, ss.sksd(BAD, -BAD, slices), rtol=1e-9)
    np.testing.assert_allclose(result.per_slice.sum(), result.statistic, rtol=1e-9)


def test_the_largest_component_is_the_statistic_and_no_slice_is_listed_twice():
    result = ss.gof_test(BAD, -BAD, key=0)
    assert set(result.components) == {"fitted slices", "coordinates", "shift", "covariance"}
    assert result.statistic == max(result.components.values())
    both = np.concatenate([result.slices.r, result.slices.g], axis=1)
    assert len(np.unique(np.round(np.abs(both), 4), axis=0)) == len(both)
    alone = ss.gof_test(BAD, -BAD, key=0, omnibus=False)
    assert alone.components is None
    np.testing.assert_allclose(alone.per_slice.sum(), alone.statistic, rtol=1e-6)


def test_many_samples_in_single_precision():
    """N^2 does not fit a 32-bit integer."""
    x = np.random.default_rng(0).standard_normal((60_000, 2)).astype(np.float32)
    with jax.enable_x64(False):
        result = ss.gof_test(x, -x, key=0, alpha=0.001, num_bootstrap=999)
    assert not result.reject
    assert np.isfinite(result.null_distribution).all()


def test_a_kernel_without_a_spectrum_builds_its_matrix(monkeypatch):
    """All pairs for every bootstrap draw would take forever."""
    monkeypatch.setattr(outcomes, "MATRIX_SAMPLES", 100)
    monkeypatch.setattr(outcomes, "_linear_outcomes", None)
    assert ss.gof_test(BAD, -BAD, key=0, kernel=ss.IMQ()).reject


def test_a_little_shift_everywhere_is_seen_as_a_shift():
    x = np.random.default_rng(8).standard_normal((600, 12)) + 0.08
    result = ss.gof_test(x, -x, key=0)
    assert result.reject
    assert max(result.components, key=result.components.get) == "shift"


def test_wrong_correlations_are_seen_by_the_covariance():
    x = np.random.default_rng(8).standard_normal((600, 12))
    x = 0.9 * x + np.sqrt(1 - 0.9**2) * np.roll(x, 1, axis=1)  # each coordinate is right
    result = ss.gof_test(x, -x, key=0)
    assert result.components["covariance"] > 5
    assert abs(result.components["coordinates"]) < 3


def test_slices_can_be_chosen_on_other_samples():
    other = np.random.default_rng(7).standard_normal((300, 10))
    other[:, 4] *= 1.5
    result = ss.gof_test(BAD, -BAD, key=0, train=(other, lambda x: -x))
    assert (result.num_train, result.num_test) == (300, 400)
    assert result.worst(1)[0][0] == "x[4]"


def test_fitted_slices_are_in_the_coordinates_of_the_samples():
    """Along the reported g the samples look as they did to the test: same median rule, same witness."""
    units = np.logspace(-3, 3, 10)
    result = ss.gof_test(BAD * units, -BAD / units, key=0, method="maxsksd-rg")
    plain = ss.gof_test(BAD, -BAD, key=0, method="maxsksd-rg")
    best, same = int(np.argmax(result.per_slice)), int(np.argmax(plain.per_slice))
    seen = ss.Slices(result.slices.r * units**-1, result.slices.g * units)  # back to the units of BAD
    np.testing.assert_allclose(abs(seen.g[best] @ plain.slices.g[same]), 1, rtol=1e-4)
    np.testing.assert_allclose(abs(seen.r[best] @ plain.slices.r[same]), 1, rtol=1e-4)


@pytest.mark.parametrize("method", ["maxsksd-g", "maxsksd-rg"])
def test_units_and_origin_of_the_parameters_do_not_matter(method):
    units, origin = np.logspace(-3, 3, 10), np.linspace(-5, 5, 10)
    one = ss.gof_test(BAD, -BAD, key=0, method=method)
    other = ss.gof_test(BAD * units + origin, -BAD / units, key=0, method=method)
    np.testing.assert_allclose(other.statistic, one.statistic, rtol=1e-5)
    assert other.pvalue == one.pvalue


def test_closed_form_slices_are_invariant_under_affine_maps():
    matrix = np.random.default_rng(5).standard_normal((10, 10)) + 2 * np.eye(10)
    moved, moved_score = BAD @ matrix.T, -BAD @ np.linalg.inv(matrix)
    one = ss.gof_test(BAD, -BAD, key=0, init="moments")
    other = ss.gof_test(moved, moved_score, key=0, init="moments")
    np.testing.assert_allclose(other.statistic, one.statistic, rtol=0.02)


def test_chains_are_split_in_time_and_correlation_is_noticed():
    rng = np.random.default_rng(2)
    chain = np.zeros((2, 1000, 3))
    for t in range(1, 1000):
        chain[:, t] = 0.95 * chain[:, t - 1] + np.sqrt(1 - 0.95**2) * rng.standard_normal((2, 3))
    result = ss.gof_test(chain, -chain, key=0)
    assert (result.bootstrap, result.num_train, result.num_test) == ("dependent", 400, 1600)
    rows = np.arange(2000)
    (train, _), (test, _) = gof._split(jax.random.key(0), rows, rows, 0.2, 2, True)
    np.testing.assert_array_equal(train, np.r_[0:200, 1000:1200])
    np.testing.assert_array_equal(test, np.r_[200:1000, 1200:2000])
    with pytest.warns(UserWarning, match="serially correlated"):
        ss.gof_test(chain[0], -chain[0], key=0)


def test_a_first_call_compiles_few_programs():
    """Each costs some 50 ms, and a user waits for all of them: stages are compiled as a whole."""
    compiled, listening = [], True
    jax.monitoring.register_event_duration_secs_listener(  # for good: there is no public way to take it back
        lambda name, _, **__: compiled.append(name) if listening and name.endswith("backend_compile_duration") else None
    )
    x = RNG.standard_normal((487, 6))  # a size that no other test has
    ss.gof_test(x, -x, key=0)
    listening = False
    assert 5 < len(compiled) < 45


def test_a_constant_column_is_named():
    x = GOOD.copy()
    x[:, 3] = 1.5
    with pytest.raises(ValueError, match="column 3 of x does not vary: drop it, or mend the sampler"):
        ss.gof_test(x, -x, key=0)


def test_faults_are_named():
    for options, message in [
        ({"method": "best"}, "method must be one of"),
        ({"bootstrap": "parametric"}, "bootstrap must be one of"),
        ({"alpha": 0.0}, "alpha must lie between"),
        ({"num_bootstrap": 10}, "num_bootstrap = 10 cannot reach level 0.05: use at least 19"),
        ({"train_fraction": 1.0}, "train_fraction must lie between"),
        ({"names": ["a"]}, "names must hold 10 names"),
        ({"method": "mmd"}, "pass model_samples"),
        ({"method": "fssd-rand", "bootstrap": "dependent"}, "no null for dependent samples"),
    ]:
        with pytest.raises(ValueError, match=message):
            ss.gof_test(GOOD, -GOOD, key=0, **options)
    with pytest.raises(ValueError, match="too few samples"):
        ss.gof_test(GOOD[:6], -GOOD[:6], key=0)
    with pytest.raises(ValueError, match="score must have the shape of x"):
        ss.gof_test(GOOD[None], -GOOD, key=0)
