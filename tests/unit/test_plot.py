"""Pictures show the numbers they are given."""

import sys

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


def test_power_curve_shows_rates_with_their_error():
    rates = {"ours": [(50, 0.9, 100), (2, 1.0, 100)], "theirs": [(2, 0.05, 100), (50, 0.0, 100)]}
    ax = plot.power_curve(rates, xlabel="D")
    ours, theirs = (container for container in ax.containers)
    np.testing.assert_array_equal(ours.lines[0].get_xydata(), [[2, 1.0], [50, 0.9]])
    np.testing.assert_array_equal(theirs.lines[0].get_xydata(), [[2, 0.05], [50, 0.0]])
    assert ours.lines[0].get_marker() != theirs.lines[0].get_marker()
    (low, high), (_, top) = (segment[:, 1] for segment in theirs.lines[2][0].get_segments())
    assert low >= 0
    assert 0.08 < high < 0.12  # two standard errors of 5 in 100
    assert top > 0  # none in 100 is not certainty


def test_many_curves_differ_in_colour_or_marker():
    ax = plot.power_curve({str(i): [(1, 0.5, 10)] for i in range(20)})
    looks = {(line.lines[0].get_color(), line.lines[0].get_marker()) for line in ax.containers}
    assert len(looks) == 20


def test_without_matplotlib_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("matplotlib.pyplot", "slicestein.plot"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(ss, "plot")
    found = ss.GofResult(1.0, 0.5, np.zeros(10), 0.05, "ksd", 0, 10)
    with pytest.raises(ModuleNotFoundError, match=r"^pictures need matplotlib: pip install 'slicestein\[plot\]'$"):
        found.plot()
