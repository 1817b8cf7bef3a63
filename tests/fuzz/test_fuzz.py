"""A short run of the fuzzer; ``make fuzz`` is the long one."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("make") and shutil.which("g++")), reason="needs make and g++")
def test_random_calls_under_sanitizers():
    root = Path(__file__).parents[2]
    run = subprocess.run(["make", "fuzz", "CALLS=30000", "CXX=g++"], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "30000 calls" in run.stdout
