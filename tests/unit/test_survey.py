"""One pass over rows: which are early and late, sums of parts of blocks, and answers that no chunk size changes."""

import numpy as np
import pytest

import slicestein as ss
from slicestein import RBF
from slicestein.gof import MaxSKSD, chains, measure, method, survey
from slicestein.gof.plan import exchange, make_plan
from slicestein.gof.survey import Layout
from slicestein.rows import source
from slicestein.rows.arrays import as_chains
from tests.unit.standard_input import autoregression, normal

LAYOUTS = {
    "chains": Layout(3, 10, 4),
    "all late": Layout(3, 10),
    "scattered": Layout(1, 30, 5, np.array([0, 3, 4, 17, 29])),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_early_and_late_rows_row_by_row(name):
    layout = LAYOUTS[name]
    early = np.array(
        [r in layout.scattered for r in range(30)] if name == "scattered" else np.arange(30) % 10 < layout.cut
    )
    for start in range(31):
        assert layout.early_before(start) == early[:start].sum()
        for stop in range(start, 31):
            np.testing.assert_array_equal(layout.are_early(start, stop), early[start:stop])
    every = np.arange(30)
    np.testing.assert_array_equal(layout.early_rows(np.arange(layout.early[1])), every[early])
    np.testing.assert_array_equal(layout.late_rows(np.arange(layout.late[1])), every[~early])


def test_spans_add_block_by_block():
    def span(first, values):
        return measure.Span(first, measure.Sums(np.ones(len(values), int), np.array(values, float)[:, None, None]))

    found = span(2, [1, 2]) + span(3, [10, 20, 30])
    assert found.first == 2
    np.testing.assert_array_equal(found.sums.slices[:, 0, 0], [1, 12, 20, 30])
    apart = span(5, [7]) + span(1, [3])
    np.testing.assert_array_equal(apart.sums.slices[:, 0, 0], [3, 0, 0, 0, 7])
    assert apart.sums.radius is None


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 13])
def test_terms_are_added_in_order_and_in_a_tree(count):
    assert source.in_pairs(str(i) for i in range(count)) == "".join(map(str, range(count)))

    class Depth(int):
        def __add__(self, other):
            return Depth(max(int(self), int(other)) + 1)

    assert source.in_pairs([Depth(0)] * count) <= np.ceil(np.log2(count)) + (count & (count - 1) != 0)


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (normal(3000, 4), {}),
        (autoregression(0.5, 3, 900, 4), {}),
        (normal(3000, 4), {"method": MaxSKSD(slices=ss.Slices.random(0, 3, 4))}),
        (normal(3000, 4), {"method": MaxSKSD("g")}),
        (normal(3000, 4).astype(np.float32), {"method": MaxSKSD(kernel=ss.IMQ())}),
    ],
    ids=["independent", "chains", "given slices", "maxsksd-g", "nodes, single precision"],
)
def test_chunks_change_nothing_but_rounding(x, options, monkeypatch):
    whole = ss.gof_test(x, -x, key=0, **options)
    monkeypatch.setattr(source, "CHUNK_VALUES", 4 * 77)  # chunks end within blocks and across chains
    parts = ss.gof_test(x, -x, key=0, **options)
    tolerance = 1e-6 if x.dtype == float else 1e-4  # the covariance is summed in single precision
    spread = whole.null_distribution.std()  # the statistic itself may be next to nothing
    np.testing.assert_allclose(parts.statistic, whole.statistic, rtol=tolerance, atol=tolerance * spread)
    np.testing.assert_allclose(parts.per_slice, whole.per_slice, rtol=0, atol=tolerance * np.abs(whole.per_slice).max())
    assert parts.pvalue == whole.pvalue


def test_a_plan_of_many_rows_is_made_on_some_and_all_others_are_measured(monkeypatch):
    monkeypatch.setattr(survey, "PLAN_ROWS", 500)
    x = normal(20_000, 3)
    result = ss.gof_test(x, -x, key=0)
    assert (result.num_train, result.num_test) == (500, 20_000)
    result = ss.gof_test(autoregression(0.5, 4, 5000, 3), lambda x: -x, key=0)
    assert (result.num_train, result.num_test) == (500, 20_000)
    assert not result.reject


def test_what_is_looked_at_of_long_and_many_chains_is_bounded(monkeypatch):
    monkeypatch.setattr(method, "STRETCH_VALUES", 2**12)
    monkeypatch.setattr(method, "SHORTEST_STRETCH", 2**6)
    rows = as_chains(np.arange(100 * 1000.0).reshape(100, 1000, 1), lambda x: -x)
    begin, spread = method.stretch(rows), method.spread_out(rows, 200)
    assert begin.shape == spread.shape == (64, 64, 1)
    np.testing.assert_array_equal(begin[0, :, 0], np.arange(64))
    assert (spread[0, 0, 0], spread[-1, -1, 0]) == (200, 100 * 1000 - 1)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_effective_sample_size_of_long_chains(rho):
    """Chains that forget within the gaps: their effective share is that of a stretch."""
    x = autoregression(rho, 2, 20_000, 2)
    found = chains.long_ess(x[:, :4000], x[:, ::40], 40_000)
    np.testing.assert_allclose(found, 40_000 * (1 - rho) / (1 + rho), rtol=0.2)
    np.testing.assert_array_equal(chains.long_ess(x[:, :4000], x, 40_000), chains.ess(x))


def test_effective_sample_size_of_chains_that_remember_longer_than_a_stretch():
    """Two modes, visited for 4000 draws each: no stretch of 1000 sees that, and its share must not be believed."""
    x = normal(2, 40_000, 1) + 10 * (np.arange(40_000) // 4000 % 2)[:, None]
    found = chains.long_ess(x[:, :1000], x[:, ::100], 80_000)
    assert found[0] < 60


@pytest.mark.parametrize("bootstrap", ["wild", "multinomial", "dependent"])
def test_rows_that_are_blocks_of_their_own_need_no_features_of_their_covariance(bootstrap, monkeypatch):
    mixing = np.eye(4) + 0.3
    x = normal(400, 4) @ mixing
    score = -x @ np.linalg.inv(mixing.T @ mixing)
    found = []
    for apart in (True, False):
        monkeypatch.setattr(survey.Survey, "apart", apart)
        found.append(ss.gof_test(x, score, key=0, method=MaxSKSD(bootstrap=bootstrap), num_bootstrap=199))
    np.testing.assert_allclose(found[0].components["covariance"], found[1].components["covariance"], rtol=1e-3)
    assert found[0].pvalue == pytest.approx(found[1].pvalue, abs=0.011)


def test_rows_that_made_the_plan_are_not_looked_at_around_their_own_middle():
    """They would look narrow by one in n in every parameter, all of which add up: half a standard error here."""
    dim, early, late = 60, 40, 80
    made, errors = [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        first, others = (
            as_chains(x, -x) for x in (rng.standard_normal((early, dim)), rng.standard_normal((late, dim)))
        )
        options = {"optimize": "rg", "init": "best", "num_slices": None, "steps": 0, "standardize": True}
        plan = make_plan(first, rng, **options, omnibus=True, kernel=RBF())
        sums = measure.measure(exchange(plan, others), *first.flat, np.arange(1, early + 1))
        terms = sums.moments[:, 1, :-1].sum(1)  # of the spreads, over all parameters
        made.append(terms.sum())
        errors.append(np.sum(terms**2))
    z = np.sum(made) / np.sqrt(np.sum(errors))
    assert abs(z) < 3.5
