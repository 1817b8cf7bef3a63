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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_slices_and_uneven_blocks(dtype):
    """More slices than a thread takes at a time; blocks of no, few and many rows side by side."""
    t, a, c, line = problem(dtype, num=70, count=120)
    ends = np.array([0, 1, 1, 3, 40, 41, 63, 110, 110, 112, 120, 120])
    expected = by_the_formula(t, a, c, ends, **line)
    np.testing.assert_allclose(native.block_sums(t, a, c, ends, **line), expected, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("block", [1, 50])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["t", "a", "c"])
def test_what_is_no_number_spoils_its_block_and_no_other(block, bad, where):
    t, a, c, line = problem("float32", count=100)
    ends = np.arange(block, 101, block)
    clean = native.block_sums(t, a, c, ends, **line)
    {"t": t, "a": a, "c": c}[where][1, 7] = bad
    spoilt = native.block_sums(t, a, c, ends, **line)
    assert np.isnan(spoilt[7 // block, 1]).all()
    clean[7 // block, 1] = spoilt[7 // block, 1] = 0
    np.testing.assert_array_equal(spoilt, clean)


@pytest.mark.parametrize("far", [1e10, 1e30, 3e38])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_line_is_bounded(far, sign):
    """However far away, a row lies at the end of the line, and its Jacobian term has vanished."""
    line = {"centre": np.zeros(1, np.float32), "bulk": np.full(1, 3.0, np.float32), **LINE}
    one = np.ones((1, 1), np.float32)
    sums = native.block_sums(sign * far * one, 2 * one, one, np.array([1]), **line)
    angle = sign * LINE["spacing"] * np.arange(5) * (3.0 + LINE["tail"])
    np.testing.assert_allclose(
        sums[0, 0], np.concatenate([ROOTS * 2 * np.cos(angle), ROOTS * 2 * np.sin(angle)]), atol=3e-6
    )


def test_long_blocks_are_summed_in_double_precision():
    """A million equal terms: single precision alone would be off by a thousandth."""
    t = np.zeros((1, 1_000_000), np.float32)
    line = {"centre": np.zeros(1), "bulk": np.ones(1), **LINE}
    sums = native.block_sums(t, np.full_like(t, 0.1), np.zeros((1, 1), np.float32), np.array([t.shape[1]]), **line)
    np.testing.assert_allclose(sums[0, 0, :5], ROOTS * np.float32(0.1) * t.shape[1], rtol=1e-6)


def test_no_rows():
    _, _, _, line = problem("float32")
    nothing = np.zeros((3, 0), np.float32)
    np.testing.assert_array_equal(
        native.block_sums(nothing, nothing, nothing, np.array([0, 0]), **line), np.zeros((2, 3, 10))
    )


def test_arrays_of_any_layout():
    t, a, c, line = problem("float32")
    ends = np.array([100, 700])
    expected = native.block_sums(t, a, c, ends, **line)
    other = native.block_sums(np.asfortranarray(t), a.astype(np.float64), c, ends.astype(np.int32), **line)
    np.testing.assert_array_equal(other, expected)


# ---- median gaps ---------------------------------------------------------------------------------------------------


def median_of_all_pairs(t):
    gaps = np.sort(np.abs(t[:, None] - t)[np.triu_indices(len(t), 1)])
    middle = (gaps[(len(gaps) - 1) // 2].astype(float) + gaps[len(gaps) // 2]) / 2
    return middle if middle > 0 else gaps.mean(dtype=float)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [2, 3, 4, 9, 60, 301])
def test_median_gap_is_that_of_all_pairs(dtype, count):
    rng = np.random.default_rng(count)
    normal, integers = rng.standard_normal(count), rng.integers(0, 4, count)
    clusters = np.repeat([0.0, 10.0], [count // 2, count - count // 2])
    scales = 10 ** rng.uniform(-30, 30, count)
    t = np.array([normal, normal + 1e3, integers, clusters, scales, np.eye(count)[0]]).astype(dtype)
    before = t.copy()
    np.testing.assert_allclose(
        native.median_gap(t), [median_of_all_pairs(row) for row in t], rtol=4e-7 if dtype == "float32" else 1e-15
    )
    np.testing.assert_array_equal(t, before)


def test_median_gap_without_numbers():
    assert np.isnan(native.median_gap(np.zeros((2, 1)))).all()
    assert np.isnan(native.median_gap(np.zeros((2, 0)))).all()
    t = np.array([[1.0, 2.0, np.nan], [1.0, 2.0, np.inf], [1.0, -np.inf, 3.0], [1.0, 2.0, 4.0]], np.float32)
    np.testing.assert_array_equal(native.median_gap(t), [np.nan, np.nan, np.nan, 2.0])


def test_many_tied_gaps():
    """Of five billion gaps with five values none is listed."""
    t = np.random.default_rng(0).integers(0, 5, (1, 100_000)).astype(np.float32)
    assert native.median_gap(t) == [1.0]
