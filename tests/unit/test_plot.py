"""Pictures show the numbers they are given."""

import sys

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import slicestein as ss
from slicestein import plot

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    plot.plt.close("all")


def result(names):
    x = np.random.default_rng(0).standard_normal((600, 4)) * [0.5, 1, 1, 1]
    return ss.gof_test(x, -x, key=0, names=names)


def test_attribution_keeps_names_that_are_equal_or_look_like_formulas():
    found = result(("$a$", "b", "b", "x^{"))
    ax = plot.attribution(found)
    bars = sorted(((bar.get_y(), bar.get_width()) for bar in ax.patches), reverse=True)
    np.testing.assert_allclose([width for _, width in bars], [100 * share for _, share in found.worst(10)])
    ax.figure.canvas.draw()  # a formula would be parsed here
    assert ax.get_yticklabels()[0].get_text() == "$a$"


def parameter(name, shift=0.0, spread=1.0, finding=""):
    return ss.gof.result.Parameter(name, 0.5, shift, 0.1, spread, 0.05, 2.0, finding)


def made(statistic=1.0, parameters=None):
    null = np.random.default_rng(0).standard_normal(500)
    return ss.GofResult(statistic, 0.5, null, 0.05, "maxsksd-rg", 0, 500, parameters=parameters)


def test_forest_shows_the_worst_on_top_with_two_standard_errors():
    ones = (parameter("bad", 0.5, 0.5, "too high"), parameter("good"), parameter("left out"))
    shift, spread = plot.forest(made(parameters=ones), num=2)
    worst, best = shift.containers
    assert worst.lines[0].get_ydata() > best.lines[0].get_ydata()
    np.testing.assert_allclose(worst.lines[2][0].get_segments()[0][:, 0], [0.3, 0.7])
    np.testing.assert_allclose(spread.containers[0].lines[2][0].get_segments()[0][:, 0], 0.5 * np.exp([-0.2, 0.2]))
    assert worst.lines[0].get_color() == plot.ORANGE
    assert best.lines[0].get_color() == plot.GREY
    assert [label.get_text() for label in shift.get_yticklabels()] == ["bad", "good"]


def test_long_names_leave_room_for_the_picture():
    ax, _ = plot.forest(made(parameters=(parameter("group<&$" * 8 + "[17]"),)))
    ax.figure.canvas.draw()
    assert ax.get_position().width > 0.3
    assert ax.get_yticklabels()[0].get_text().endswith("[17]")


@pytest.mark.parametrize("spread", [1e-3, 0.5, 0.9, 1.0, 1.3, 40.0, 1e4])
def test_ratios_have_ticks_at_round_numbers(spread):
    _, ax = plot.forest(made(parameters=(parameter("a", spread=spread),)))
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    ticks = [label.get_text() for label in ax.get_xticklabels() if low <= label.get_position()[0] <= high]
    assert 2 <= len(ticks) <= 7
    assert "1" in ticks
    assert all(len(tick) <= 6 for tick in ticks)


@pytest.mark.parametrize("statistic", [0.0, 3.0, 1e3, 1e9])
def test_the_null_is_not_squeezed_by_a_large_statistic(statistic):
    found = made(statistic)
    ax = plot.null_distribution(found)
    low, high = ax.get_xlim()
    assert np.ptp(found.null_distribution) > 0.5 * (high - low)
    assert (low < statistic < high) or f"{statistic:.3g}" in [text.get_text() for text in ax.texts]


def test_a_null_without_spread_or_with_few_draws_is_drawn():
    plot.null_distribution(ss.GofResult(1.0, 0.5, np.zeros(3), 0.05, "ksd", 0, 10)).figure.canvas.draw()


def test_the_overview_shows_parameters_where_there_are_some():
    titles = lambda found: [ax.get_title() for ax in found.plot().axes]
    assert titles(result(None)) == ["Null distribution", "Mean", "Spread"]
    assert titles(made()) == ["Null distribution"]


def test_without_matplotlib_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("matplotlib.pyplot", "slicestein.plot"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(ss, "plot")
    found = ss.GofResult(1.0, 0.5, np.zeros(10), 0.05, "ksd", 0, 10)
    with pytest.raises(ModuleNotFoundError, match=r"^pictures need matplotlib: pip install matplotlib$"):
        found.plot()


def test_a_table_has_one_row_for_every_parameter_worst_first():
    pytest.importorskip("pandas")
    frame = made(parameters=(parameter("bad", 0.5, finding="too high"), parameter("good"))).to_frame()
    assert list(frame.index) == ["bad", "good"]
    assert frame.loc["bad", "shift"] == 0.5
    assert tuple(frame.columns) == ss.gof.result.Parameter._fields[1:]


def test_without_pandas_or_parameters_the_remedy_is_told(monkeypatch):
    with pytest.raises(ss.InputError, match="test with the default method"):
        made().to_frame()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ss.InputError, match=r"^a table needs pandas: pip install pandas$"):
        made(parameters=(parameter("a"),)).to_frame()


def test_a_notebook_shows_a_table_in_which_no_name_is_markup():
    shown = made(parameters=(parameter("<b>&td>", 0.5, finding="too high"),))._repr_html_()
    assert "<td>&lt;b&gt;&amp;td&gt;</td><td>too high</td><td>0.5</td><td>0.50 ± 0.10</td><td>1.00 ± 0.05</td>" in shown
    assert shown.count("<th>") == 5


def witness_and_error(x):
    first, x = np.eye(x.shape[1])[:1], jnp.asarray(x)
    return plot._witness_with_error(x, -x, ss.Slices(first, first), np.linspace(-1, 1, 21), ss.RBF(1.0))


@pytest.mark.parametrize(("factor", "seen"), [(1.0, False), (0.5, True)])
def test_a_witness_is_beyond_its_noise_only_where_the_model_is_wrong(factor, seen):
    values, error = witness_and_error(factor * np.random.default_rng(1).standard_normal((2000, 2)))
    assert (np.abs(values / error).max() > 4) == seen


def test_the_noise_of_a_witness_is_its_scatter_over_samples():
    rng = np.random.default_rng(0)
    values, errors = np.moveaxis([witness_and_error(rng.standard_normal((200, 1))) for _ in range(30)], 1, 0)
    ratio = np.sqrt(np.mean(errors**2) / np.mean(values.var(0, ddof=1)))
    assert 0.6 < ratio < 1.6  # a variance from 30 values is right within 26%: two of these, and their square root


def test_the_noise_of_a_witness_counts_that_neighbours_depend_on_each_other():
    rng = np.random.default_rng(0)
    slow, fast = np.repeat(rng.standard_normal((200, 1)), 10, axis=0), rng.standard_normal((2000, 1))
    ratio = witness_and_error(slow)[1].mean() / witness_and_error(fast)[1].mean()
    assert 2.2 < ratio < 4.5  # sqrt(10), with the error of 20 blocks


def test_a_witness_is_drawn_with_its_noise_and_the_name_of_its_axis():
    x = np.random.default_rng(1).standard_normal((100, 2))
    ax = plot.witness_along(x, -x, ss.Slices.basis(2), label="$a^{")
    ax.figure.canvas.draw()  # a formula would be parsed here
    assert ax.get_xlabel() == "$a^{"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["noise", "witness", "samples"]


@pytest.mark.parametrize("num", [2, 3, 4, 30])
def test_a_witness_of_few_samples_is_drawn(num):
    x = np.random.default_rng(1).standard_normal((num, 2))
    plot.witness_along(x, -x, ss.Slices.basis(2)).figure.canvas.draw()
