"""The report says what the result says, lets no name become markup, and is drawn by a browser at every width."""

import dataclasses
import functools
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import jax
import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

import slicestein as ss
from slicestein import plot, report
from slicestein._checks import InputError
from slicestein.gof import words
from slicestein.report import with_error, worst_slices, write_report

matplotlib.use("Agg")

HOSTILE = "<script>alert('&')</script>"
NAMES = (HOSTILE, "a$b$c^{", "beta[0]", "beta[1]")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def samples(factor):
    x = np.random.default_rng(0).standard_normal((600, 4))
    x[:, 0] *= factor
    return x


@functools.cache
def result(factor, method="auto"):
    x = samples(factor)
    return ss.gof_test(x, -x, key=0, names=NAMES, method=method)


def page(path, factor, **options):
    write_report(result(factor), path, **options)
    return path.read_text()


class Balanced(HTMLParser):
    """Fails on a tag that is closed but not open."""

    VOID = ("meta", "path", "use", "rect")

    def __init__(self):
        super().__init__()
        self.stack = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.stack.pop() == tag


def test_a_rejection_names_the_parameter(tmp_path):
    x = samples(0.5)
    text = page(tmp_path / "r.html", 0.5, x=x, score=-x, settings={"key": 0})
    assert "the samples do not fit the model" in text
    assert re.search(r"<li><b>&lt;script&gt;alert.*</b> is too narrow: its spread is 0\.5", text)
    assert text.count("<svg") == 2 + len(worst_slices(result(0.5), x))
    assert '<th scope="row">key</th><td>0</td>' in text
    assert ss.__version__ in text
    parser = Balanced()
    parser.feed(text)
    assert parser.stack == []


def test_no_rejection_is_not_called_a_proof(tmp_path):
    text = page(tmp_path / "r.html", 1.0)
    assert "No evidence against the model" in text
    assert "not a proof" in text
    assert text.count("<svg") == 2  # without samples there is no witness to draw
    assert "would most likely have been seen" in text


def test_too_few_draws_are_not_called_a_fit(tmp_path):
    undecided = dataclasses.replace(result(1.0), ess=np.array([7.0, 400.0, 300.0, 200.0]), names=None)
    assert undecided.verdict == "undecided"
    write_report(undecided, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "It cannot be told" in text
    assert "Too few independent draws to tell: x[0] has an effective sample size of 7" in text
    assert "No evidence" not in text


def test_names_and_titles_do_not_become_markup(tmp_path):
    x = samples(0.5)
    text = page(tmp_path / "r.html", 0.5, x=x, score=-x, title=HOSTILE, settings={HOSTILE: HOSTILE})
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 5  # title, heading, verdict, table, settings


def test_all_notes_are_on_the_page_and_none_becomes_markup(tmp_path):
    notes = ("12 of 200 transitions diverged", f"a note with {HOSTILE}")
    write_report(dataclasses.replace(result(1.0), notes=notes), tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "<p>12 of 200 transitions diverged.</p>" in text
    assert "<p>A note with &lt;script&gt;" in text
    assert "<script" not in text


def test_every_part_of_the_test_is_explained(tmp_path):
    text = page(tmp_path / "r.html", 0.5)
    for name, value in result(0.5).components.items():
        said = f"{value:.1f}".replace("-", "−")
        assert f'<td>{name}</td><td>{words.SEES[name]}</td><td class="number">{said}</td>' in text


def test_the_page_needs_nothing_from_elsewhere(tmp_path):
    x = samples(0.5)
    text = page(tmp_path / "r.html", 0.5, x=x, score=-x)
    links = set(re.findall(r"https?://[^\"' ]+", text))
    assert links <= {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|@import)\b", text)


def test_pictures_follow_the_colours_of_the_page(tmp_path):
    text = page(tmp_path / "r.html", 0.5)
    svg = text[text.index("<svg") : text.index("</svg>")]
    assert "var(--ink)" in svg
    assert not re.search(r"#[0-9a-f]{6}\b", svg)


def test_methods_without_slices_have_a_report(tmp_path):
    write_report(result(0.5, "ksd"), tmp_path / "r.html")
    assert "Which parameters" not in (tmp_path / "r.html").read_text()


def test_chains_are_drawn_as_one_sample(tmp_path):
    x = samples(0.5)
    flat = page(tmp_path / "flat.html", 0.5, x=x, score=-x)
    chains = page(tmp_path / "chains.html", 0.5, x=x.reshape(4, 150, 4), score=-x.reshape(4, 150, 4))
    assert chains == flat


def test_directions_in_words_are_in_units_of_the_samples():
    scales = np.array([1e-3, 1.0, 1.0, 1e3])
    x = samples(0.5) * scales
    scaled = ss.gof_test(x, -x / scales**2, key=0, names=("a", "b", "c", "d"))
    worst = worst_slices(scaled, x)[0]
    assert re.match(r"(− )?(1\.00|0\.9\d) a", worst.g)
    assert re.match(r"(− )?(1\.00|0\.9\d) a", worst.r)


def given_slices(r, g):
    x = samples(0.5)
    return x, ss.gof_test(x, -x, key=0, names=("a", "b", "c", "d"), method=ss.gof.MaxSKSD(slices=ss.Slices(r, g)))


def test_directions_in_words_have_the_signs_of_what_is_drawn():
    """The witness is drawn along g and speaks of r: a sign that was turned in one of them would turn its meaning."""
    (worst,) = worst_slices(given_slices([[-4.0, 3.0, 0.0, 0.0]], [[-1.0, 0.0, 0.0, 0.0]])[1])
    assert (worst.g, worst.r) == ("1.00 a", "0.80 a − 0.60 b")
    np.testing.assert_allclose(worst.directions.r, [[0.8, -0.6, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(worst.directions.g, [[1, 0, 0, 0]], rtol=1e-6)


def test_slices_that_see_the_same_are_listed_once_with_all_they_carry():
    first, second = np.eye(4)[:2]
    _, found = given_slices([first, -first, first, second], [first, first, -first, second])
    shares = np.maximum(found.per_slice, 0) / np.maximum(found.per_slice, 0).sum()
    worst = worst_slices(found)
    assert [one.g for one in worst] == ["1.00 a", "1.00 b"][: len(worst)]
    np.testing.assert_allclose(worst[0].share, shares[:3].sum())


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_a_witness_along_one_parameter_is_drawn_in_its_units(shift):
    scale = np.array([1e3, 1.0, 1e-3, 1.0])
    x = samples(0.5) * scale + shift
    _, found = given_slices([[1.0, 0, 0, 0], [1, 1, 0, 0]], [[-1.0, 0, 0, 0], [1, 1, 0, 0]])
    one = next(one for one in worst_slices(found, x) if one.parameter == 0)
    ax = report._witness(plot, x, -(x - shift) / scale**2, one, found)
    assert ax.get_xlabel() == "a, own units"
    grid, values = ax.lines[-1].get_xydata().T
    np.testing.assert_allclose(grid[[0, -1]], np.quantile(x[:, 0], [0.001, 0.999]), rtol=1e-4)
    assert values[20] < 0 < values[-20]  # too narrow: low ones should move down, high ones up


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.8031, 0.0123, "0.803 ± 0.012"),
        (-1.0, 0.5, "−1.00 ± 0.50"),
        (-0.0001, 0.024, "0.000 ± 0.024"),
        (37374.2, 5523.0, "37374 ± 5523"),
        (3.8e-8, 5.3e-9, "(3.80 ± 0.53) · 1e-8"),
        (-2e9, 1e8, "(−2.00 ± 0.10) · 1e9"),
        (0.0, 0.0, "0"),
    ],
)
def test_numbers_have_two_digits_of_their_error(value, error, text):
    assert with_error(value, error) == text


def test_the_table_has_the_error_in_the_units_of_the_parameter(tmp_path):
    parameter = ss.gof.result.Parameter(HOSTILE, 0.001, 0.5, 0.1, 1.0, 0.05, 20.0, "too high")
    found = dataclasses.replace(result(0.5), parameters=(parameter,))
    write_report(found, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert '<td data-label="mean off by, sd">0.50 ± 0.10</td><td data-label="in own units">10.0 ± 2.0</td>' in text
    assert "<script" not in text


def test_chains_that_disagree_are_told_of(tmp_path):
    found = dataclasses.replace(
        result(0.5), rhat=np.array([1, 1.5, 1, 1]), ess=np.array([900.0, 80, 900, 9]), stray_chain=2
    )
    write_report(found, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "Chain 3 is elsewhere." in text
    assert "<td>1.50 (a$b$c^{)</td>" in text
    assert "<td>9 (beta[1])</td>" in text


def test_slices_are_for_experts_and_not_in_the_way(tmp_path):
    text = page(tmp_path / "r.html", 0.5)
    assert text.index("In numbers") < text.index("<details>") < text.index("% of the discrepancy")


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    def full(_):
        raise OSError("No space left on device")

    path = tmp_path / "r.html"
    path.write_text("the old one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(result(0.5), path)
    assert path.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_its_packages_the_remedy_is_told(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"a report needs {package}: pip install jinja2 matplotlib"):
        write_report(result(0.5), tmp_path / "r.html")


def test_names_that_are_no_text_are_shown_as_bytes(tmp_path):
    """A file name of the file system may not be Unicode; the page always is."""
    assert "\\udcff.npz" in page(tmp_path / "r.html", 0.5, settings={"samples": "\udcff.npz"})


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize("width", [1200, 360])
def test_a_browser_draws_it_without_overflow(tmp_path, width):
    x = samples(0.5)
    long_names = [f"{'coefficient_of_' * 4}{name}" for name in NAMES]
    found = ss.gof_test(x, -x, key=0, names=long_names)
    write_report(found, tmp_path / "r.html", x=x, score=-x)
    text = (tmp_path / "r.html").read_text()
    # The right edge of the widest element, written where --dump-dom shows it. The window itself has a least width.
    probe = """<script>
document.body.style.width = "WIDTHpx"
document.title = Math.max(...[...document.querySelectorAll("body *")].map(e => e.getBoundingClientRect().right))
</script>""".replace("WIDTH", str(width))
    (tmp_path / "probe.html").write_text(text.replace("</body>", probe + "</body>"))
    common = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    common += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1600"]
    run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=120, check=True)
    dom = run([*common, "--dump-dom", (tmp_path / "probe.html").as_uri()]).stdout
    assert width - 100 < float(re.search(r"<title>([\d.]+)</title>", dom)[1]) <= width
    run([*common, f"--screenshot={tmp_path / 'r.png'}", (tmp_path / "r.html").as_uri()])
    pixels = imread(tmp_path / "r.png")
    assert pixels.shape[1] == width
    assert len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 50  # not a blank page


def test_samples_far_from_zero_are_drawn(tmp_path):
    x = 1e9 + np.random.default_rng(0).standard_normal((500, 2)) * [1.5, 1]
    with jax.enable_x64(False):
        result = ss.gof_test(x, 1e9 - x, key=0)
        ss.report.write_report(result, tmp_path / "far.html", x=x, score=1e9 - x)
    assert "Witness function along slice 1" in (tmp_path / "far.html").read_text()


def test_places_and_arguments_are_checked_first(tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 2))
    result = ss.gof_test(x, -x, key=0)
    for arguments, said in (
        ((result, tmp_path / "none" / "a.html"), "cannot be written there"),
        ((result, tmp_path / "a.pdf"), "a report is a web page"),
        (("a.html", result), "result must be what gof_test returned, got str"),
    ):
        with pytest.raises(ss.InputError, match=said):
            ss.report.write_report(*arguments)
