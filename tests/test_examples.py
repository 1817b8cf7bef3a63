"""The demonstration says what the documentation says it does, from Python and from the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize("command", [[ROOT / "examples" / "demo.py"], ["-m", "slicestein._cli", "demo"]])
def test_demo_names_the_wrong_parameter_and_writes_reports(tmp_path, command):
    run = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    exact, timid = run.stdout.split("== ")[1:]
    assert "maxsksd-rg: no evidence against the model" in exact
    assert "ksd: no evidence against the model" in timid  # plain KSD sees nothing
    assert "maxsksd-rg: the samples do NOT fit" in timid
    assert "beta[17] is too narrow" in timid
    assert "No evidence against the model" in (tmp_path / "demo" / "exact.html").read_text()
    assert "<b>beta[17]</b> is too narrow" in (tmp_path / "demo" / "report.html").read_text()


@pytest.mark.slow
def test_energy_model_learns_the_moons(tmp_path):
    """The true density has -1.18, a kernel density estimate -1.21; with a bridge between the moons it was -1.30."""
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / "energy_model.py"],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(run.stdout.rsplit(maxsplit=1)[-1]) > -1.27
    assert (tmp_path / "energy_model.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.packages
def test_a_run_that_is_watched_is_stopped_when_it_is_wrong(tmp_path):
    pytest.importorskip("blackjax")
    command = [sys.executable, ROOT / "examples" / "watch_a_run.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    wrong, right = run.stdout.split("== ")[1:]
    assert "narrow is too wide" in wrong
    assert "wrong (p" not in right
    assert "31000 draws: fits" in right
