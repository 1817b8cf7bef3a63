"""The NumPy interface of the kernels against formulas written out, for the extension and for its stand-in."""

import math

import numpy as np
import pytest

from slicestein._stein import native

ROOTS = np.sqrt(np.array([0.4, 0.7, 0.5, 0.2, 0.05]))
LINE = {"spacing": 0.4, "roots": ROOTS, "tail": 2.5}


@pytest.fixture(params=["extension", "portable"], autouse=True)
def implementation(request, monkeypatch):
    if request.param == "portable":
        monkeypatch.setattr(native, "EXTENSION", None)
    elif native.EXTENSION is None:
        pytest.skip("the extension was not built")


def bent(y, bulk, tail):
    if abs(y) <= bulk:
        return y, 1.0
    z = (abs(y) - bulk) / tail
    return math.copysign(bulk + tail * z / math.hypot(1, z), y), math.hypot(1, z) ** -3


def by_the_formula(t, a, c, ends, spacing, roots, centre, bulk, tail):
    """Row by row in Python's own float64 and complex numbers."""
    out = np.zeros((len(ends), len(t), 2, len(roots)))
    for m in range(len(t)):
        for n in range(t.shape[1]):
            u, slope = bent(float(t[m, n]) - float(centre[m]), float(bulk[m]), tail)
            jacobian = float(np.broadcast_to(c, t.shape)[m, n]) * slope
            block = np.searchsorted(ends, n, side="right")
            for j, root in enumerate(roots):
                w = j * spacing
                feature = root * (float(a[m, n]) + 1j * w * jacobian) * np.exp(1j * w * u)
                out[block, m, :, j] += feature.real, feature.imag
    return out.reshape(len(ends), len(t), -1)


def problem(dtype, num=3, count=700, shared=False, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.standard_t(2, (num, count)).astype(dtype)
    c = rng.standard_normal((num, 1 if shared else count)).astype(dtype)
    line = {"centre": rng.standard_normal(num).astype(dtype), "bulk": rng.uniform(1, 4, num).astype(dtype), **LINE}
    return t, rng.standard_normal((num, count)).astype(dtype), c, line


# Every term is below about 4; rounding grows with the angle (up to 5 pi here) and with the rows of a block.
TOLERANCE = {"float32": 3e-5, "float64": 1e-13}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("block", [1, 2, 7, 31, 32, 257, 699, 700])
def test_block_sums_follow_the_formula(dtype, shared, block):
    t, a, c, line = problem(dtype, shared=shared)
    ends = np.append(np.arange(block, 700, block), 700)
    sums = native.block_sums(t, a, c, ends, **line)
    assert sums.dtype == dtype
    assert sums.shape == (len(ends), 3, 10)
    np.testing.assert_allclose(
        sums, by_the_formula(t, a, c, ends, **line), rtol=0, atol=TOLERANCE[dtype] * math.sqrt(block)
    )
