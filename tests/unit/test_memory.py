"""Peak memory in a process of its own: the large array of pairs is never built."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import jax, jax.numpy as jnp, numpy as np
import slicestein as ss
from slicestein._stein import tiles as _tiles
n, d, m, engine, derivative = {n}, {d}, {m}, {engine!r}, {derivative}
_tiles.BLOCK_BYTES = 2**24
x = jnp.asarray(np.random.default_rng(0).standard_normal((n, d), dtype=np.float32))
s, slices = -x, ss.Slices.random(0, m, d)
def value(slices, x, s):
    return ss.sksd(x, s, slices, engine=engine)
run = jax.jit(jax.grad(value) if derivative else value)
small = run(slices, x[:64], s[:64])
jax.block_until_ready(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
jax.block_until_ready(run(slices, x, s))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "m", "engine", "derivative", "megabytes", "avoided"),
    [
        (12_000, 2, 2, "exact", False, 120, "N x N is 576 MB"),
        (12_000, 2, 2, "exact", True, 160, "N x N is 576 MB"),
        (400_000, 20, 100, "fourier", False, 120, "N x M is 160 MB, twice"),
    ],
)
def test_peak_memory(n, d, m, engine, derivative, megabytes, avoided):
    program = PROGRAM.format(n=n, d=d, m=m, engine=engine, derivative=derivative)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(run.stdout) / 1024 < megabytes, avoided
