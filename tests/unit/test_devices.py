"""Rows that are spread over two devices give the numbers of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "sharded_rows.py"


@pytest.mark.parametrize("portable", ["0", "1"])
def test_rows_on_two_devices(portable):
    flags = "--xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "SLICESTEIN_PORTABLE": portable, "JAX_ENABLE_X64": "0"}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["devices"] == 2
    one, two = found["values"]
    assert abs(one - two) < 1e-6 * one
    assert found["gradient"] < 1e-5
    assert found["particles"] < 1e-5
    if portable == "1":  # sums travel, rows stay where they are
        assert found["stays_spread"]
        assert found["gathered"] < 2048 * 6
