"""Every code block of README and docs runs, page by page, and prints what the page says.

A page with blocks under ``<!-- needs: PACKAGE ... -->`` runs without them, and, marked ``packages``, once more with
those of every package that is there.
"""

import doctest
import importlib.util
import re
import warnings
from pathlib import Path

import matplotlib
import pytest

from slicestein.gof.verdict import LEVEL_SHARES
from slicestein.gof.words import SEES

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in (ROOT / "docs").glob("*.md") if "```python" in p.read_text())
BLOCK = re.compile(r"(?:<!-- needs: ([^>]*) -->\n)?```python\n(.*?)```", re.DOTALL)
# Pages, with what some of their blocks need.
NEEDING = [(page, needs) for page in PAGES for needs in dict(BLOCK.findall(page.read_text())) if needs]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def here(needs):
    return all(importlib.util.find_spec(package) for package in needs.split())


def run_blocks(page, wanted, tmp_path, monkeypatch):
    """Run the blocks of a page that are ``wanted``, by what they need. Later ones use the names of earlier ones."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    namespace = {}
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for number, (needs, code) in enumerate(BLOCK.findall(page.read_text())):
        if not wanted(needs):
            continue
        test = doctest.DocTestParser().get_doctest(code, namespace, f"{page.name}, block {number}", str(page), 0)
        assert test.examples, f"{page.name}, block {number} has no >>> lines: it would not be run"
        test.globs = namespace
        said = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner.run(test, out=said.append, clear_globs=False)
        assert not runner.failures, "".join(said)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of other packages are theirs
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_every_block_runs(page, tmp_path, monkeypatch):
    run_blocks(page, lambda needs: not needs, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.packages
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("page", "package"), NEEDING, ids=lambda item: getattr(item, "name", item))
def test_every_block_runs_with_its_packages(page, package, tmp_path, monkeypatch):
    """One family of packages at a time: all of them at once take more memory than a worker may."""
    if not here(package):
        pytest.skip(f"needs {package}")
    run_blocks(page, lambda needs: not needs or needs == package, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_the_site_copies_without_prompts(page):
    """Every block of the site is Python as it stands, with what is printed in comments."""
    spec = importlib.util.spec_from_file_location("prompts", ROOT / "docs" / "_prompts.py")
    prompts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prompts)
    for _, code in BLOCK.findall(prompts.on_page_markdown(page.read_text())):
        assert ">>>" not in code
        compile(code, page.name, "exec")


def test_every_part_of_the_test_is_explained():
    assert SEES.keys() == LEVEL_SHARES.keys()
    page = (ROOT / "docs" / "mcmc.md").read_text()
    for name, sees in SEES.items():
        assert f"\n| {name} | {sees} |\n" in page
