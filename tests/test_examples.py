"""The examples run, and say what the documentation says they do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_demo_names_the_wrong_parameter_and_writes_a_report(tmp_path):
    run = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py"],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    good, wrong = run.stdout.split("== ")[1:]
    assert "no evidence against the model" in good
    assert "do NOT fit" in wrong
    assert "carried by beta[17]" in wrong
    report = (tmp_path / "demo" / "report.html").read_text()
    assert report.count("<img") == 4
