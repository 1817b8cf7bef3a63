"""The notebooks run from top to bottom, as scripts, and come to the conclusions that their words draw."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
# What each must print.
STORIES = {
    "pymc-gone-wrong": ["cannot be told", "transitions diverged", "no evidence against", "tau_log__ is too"],
    "step-size": ["best step: 0.003", "is too wide", "no evidence against the model"],
    "two-samplers": ["Metropolis: undecided", "Hamiltonian: fits", "in a hurry: wrong", "1. exact draws"],
}


def cells(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))["cells"]


def test_every_notebook_has_a_story_and_no_outputs():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(STORIES)
    for name in STORIES:
        assert all(not cell["outputs"] for cell in cells(name) if cell["cell_type"] == "code"), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.packages] * name.startswith("pymc")) for name in STORIES]
)
def test_a_notebook_comes_to_its_conclusions(name, tmp_path):
    if name.startswith("pymc") and importlib.util.find_spec("pymc") is None:
        pytest.skip("needs pymc")
    script = tmp_path / f"{name}.py"
    script.write_text("\n".join("".join(c["source"]) for c in cells(name) if c["cell_type"] == "code"), "utf-8")
    environment = os.environ | {"MPLBACKEND": "Agg"}
    run = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    where = [run.stdout.find(words) for words in STORIES[name]]
    assert -1 not in where, run.stdout
