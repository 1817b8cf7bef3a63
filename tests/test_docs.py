"""Every code block of README and docs runs, page by page, and prints what the page says.

A block under ``<!-- needs: PACKAGE ... -->`` is left out where a package is missing.
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
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of other packages are theirs
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_every_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    blocks = BLOCK.findall(page.read_text())
    assert blocks
    namespace, ran = {}, 0
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for number, (needs, code) in enumerate(blocks):
        if any(importlib.util.find_spec(package) is None for package in needs.split()):
            continue
        test = doctest.DocTestParser().get_doctest(code, namespace, f"{page.name}, block {number}", str(page), 0)
        assert test.examples, f"{page.name}, block {number} has no >>> lines: it would not be run"
        test.globs = namespace  # later blocks of a page use the names of earlier ones
        said = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner.run(test, out=said.append, clear_globs=False)
        assert not runner.failures, "".join(said)
        ran += 1
    if not ran:
        pytest.skip(f"{page.name} needs packages that are not here")


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
