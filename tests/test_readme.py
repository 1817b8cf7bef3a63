"""Numbers in the README are those of the committed benchmark."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def claims(text: str) -> list[str]:
    lines = text.splitlines()
    start = lines.index("| claim | bar | measured |")
    return lines[start : start + next(i for i, line in enumerate(lines[start:]) if not line.startswith("|"))]


def test_the_table_is_that_of_the_benchmark():
    assert claims((ROOT / "README.md").read_text()) == claims((ROOT / "benchmarks/results/core.md").read_text())


def test_the_times_are_those_of_the_benchmark():
    assert (ROOT / "benchmarks/results/methods.md").read_text() in (ROOT / "README.md").read_text()


def test_the_experiments_page_is_that_of_the_results():
    from experiments import summary

    assert summary.PAGE.read_text() == summary.page()


@pytest.mark.parametrize("name", ["peers", "first_call"])
def test_the_page_on_scale_has_the_tables_of_the_result_files(name):
    assert (ROOT / f"benchmarks/results/{name}.md").read_text() in (ROOT / "docs/scale.md").read_text()


def test_the_best_results_are_those_of_the_result_files():
    from experiments import highlights

    text = (ROOT / "README.md").read_text()
    assert highlights.BEGIN + highlights.table() + highlights.END in text
    for name in highlights.RESULTS:
        assert (ROOT / f"docs/figures/highlight-{name}.png").exists()
