"""Features whose sums are all that a test needs: against the Stein kernel by its definition, and on bent lines."""

import math
import tracemalloc

import jax
import numpy as np
import pytest
from scipy import stats

from slicestein import IMQ, RBF, Matern
from slicestein._stein import features, native
from slicestein._stein.features import FourierRule, NodeRule

DTYPES = ["float64", "float32"]


@pytest.fixture(autouse=True)
def _default_precision():
    """All of it is NumPy: what JAX is set to does not matter."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(params=["extension", "portable"])
def implementation(request, monkeypatch):
    if request.param == "portable":
        monkeypatch.setattr(native, "EXTENSION", None)
    elif native.EXTENSION is None:
        pytest.skip("the extension was not built")


def problem(count=60, dim=3, num=4, seed=0, dtype="float64"):
    """Samples that fit on a straight line, scores, and directions of length one."""
    rng = np.random.default_rng(seed)
    x, s = rng.standard_normal((2, count, dim))
    r, g = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in rng.standard_normal((2, num, dim)))
    return tuple(z.astype(dtype) for z in (x, s, r, g))


def sums_of(x, s, r, g, kernel, ends):
    lines = features.lay_lines(r, g, x, kernel)
    return features.sums(lines, features.rule_for(kernel, lines.bulk), x, s, np.asarray(ends))


# --- the definition ----------------------------------------------------------------------------


def rbf(d):
    k = math.exp(-0.5 * d * d)
    return k, -d * k, (d * d - 1) * k


def imq(d):
    base = 1 + d * d
    return base**-0.5, -d * base**-1.5, (2 * d * d - 1) * base**-2.5


def matern(d):
    rate = math.sqrt(5)
    v, sign = rate * abs(d), math.copysign(1, d)
    decay = math.exp(-v)
    return (1 + v + v * v / 3) * decay, -sign * rate * v * (1 + v) / 3 * decay, rate**2 * (v * v - v - 1) / 3 * decay


def by_the_definition(x, s, r, g, derivatives):
    """h_ij of one slice, pair by pair: k, k' and k'' written out, at the median gap."""
    x, s, r, g = (np.asarray(z, float) for z in (x, s, r, g))
    t, a, c = x @ g, s @ r, float(r @ g)
    count = len(t)
    bandwidth = float(np.median([abs(t[i] - t[j]) for i in range(count) for j in range(i)]))
    h = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            k, k1, k2 = derivatives((t[i] - t[j]) / bandwidth)
            k1, k2 = k1 / bandwidth, k2 / bandwidth**2
            h[i, j] = a[i] * a[j] * k + c * a[j] * k1 - c * a[i] * k1 - c * c * k2
    return h


def test_the_derivatives_written_out_here_are_derivatives():
    for function in (rbf, imq, matern):
        for d in (-2.3, -0.4, 0.7, 3.1):
            _, k1, k2 = function(d)
            assert (function(d + 1e-5)[0] - function(d - 1e-5)[0]) / 2e-5 == pytest.approx(k1, rel=1e-7)
            assert (function(d + 1e-5)[1] - function(d - 1e-5)[1]) / 2e-5 == pytest.approx(k2, rel=1e-7, abs=1e-9)


# Of V: the trapezoid rule ends where kernel and spectrum are 1e-5, which leaves 2e-6 of h(x, x) and less of a mean. The
# other kernels are projected on the span of the kernel at nodes 0.4 bandwidths apart: exact at the nodes, and short of
# h(x, x) in between by 0.02 for IMQ and by 0.06 for the rougher Matern, of which a mean over pairs keeps about a tenth.
CASES = [(RBF(), rbf, 2e-6), (IMQ(), imq, 0.005), (Matern(smoothness=2.5), matern, 0.02)]
ROUNDING = {"float64": 1e-10, "float32": 1e-4}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kernel", "derivatives", "rtol"), CASES, ids=["RBF", "IMQ", "Matern 5/2"])
def test_sums_of_all_rows_give_v(implementation, kernel, derivatives, rtol, dtype):
    x, s, r, g = problem(dtype=dtype)
    total = sums_of(x, s, r, g, kernel, [60])[0]
    assert total.dtype == dtype
    v = np.sum(total.astype(float) ** 2, axis=1) / 60**2
    for m in range(len(r)):
        h = by_the_definition(x, s, r[m], g[m], derivatives)
        assert v[m] == pytest.approx(h.mean(), rel=rtol + ROUNDING[dtype])
        if not isinstance(kernel, RBF):
            assert v[m] <= h.mean() * (1 + ROUNDING[dtype])  # a projection: never more


@pytest.mark.parametrize(("kernel", "derivatives"), [case[:2] for case in CASES], ids=["RBF", "IMQ", "Matern 5/2"])
def test_sums_of_single_rows_give_h(kernel, derivatives):
    """Not only V: every pair, relative to the size of h(x, x)."""
    x, s, r, g = problem(count=25)
    psi = sums_of(x, s, r, g, kernel, np.arange(1, 26))
    for m in range(len(r)):
        h = by_the_definition(x, s, r[m], g[m], derivatives)
        size = np.sqrt(np.outer(np.diag(h), np.diag(h)))
        atol = {RBF: 5e-6, IMQ: 0.03, Matern: 0.1}[type(kernel)]
        np.testing.assert_allclose(psi[:, m] @ psi[:, m].T / size, h / size, atol=atol)


@pytest.mark.parametrize("kernel", [RBF(), IMQ(), Matern(smoothness=2.5), Matern()], ids=repr)
def test_noise_is_the_mean_of_the_diagonal(kernel):
    x, s, r, g = problem(count=40)
    derivatives = {RBF: rbf, IMQ: imq, Matern: matern}[type(kernel)]
    found = features.noise(features.lay_lines(r, g, x, kernel), s, kernel)
    if kernel == Matern():
        bandwidth = features.lay_out(g @ x.T, kernel).bandwidth  # Matern 3/2: k(0) = 1, k''(0) = -3
        expected = np.mean((s @ r.T) ** 2, axis=0) + 3 * (np.sum(r * g, axis=1) / bandwidth) ** 2
    else:
        expected = [np.trace(by_the_definition(x, s, r[m], g[m], derivatives)) / 40 for m in range(len(r))]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_u_follows_from_the_sums_and_the_noise(dtype):
    x, s, r, g = problem(dtype=dtype)
    kernel = RBF()
    lines = features.lay_lines(r, g, x, kernel)
    total = features.sums(lines, features.rule_for(kernel, lines.bulk), x, s, np.array([60]))[0]
    u = features.u_statistic(total, features.noise(lines, s, kernel), 60)
    for m in range(len(r)):
        h = by_the_definition(x, s, r[m], g[m], rbf)
        expected = (h.sum() - np.trace(h)) / (60 * 59)
        np.testing.assert_allclose(u[m], expected, atol=1e-4 * np.trace(h) / 60)


def test_weights_multiply_the_kernel():
    x, s, r, g = problem()
    kernel, weights = RBF(), np.array([0.5, 1.0, 2.0, 7.0])
    lines = features.lay_lines(r, g, x, kernel)
    rule = features.rule_for(kernel, lines.bulk)
    plain, weighted = (
        np.sum(features.sums(z, rule, x, s, np.array([60]))[0] ** 2, axis=1) for z in (lines, lines.weighted(weights))
    )
    np.testing.assert_allclose(weighted, weights * plain, rtol=1e-10)
    noise = features.noise(lines.weighted(weights), s, kernel)
    np.testing.assert_allclose(noise, weights * features.noise(lines, s, kernel), rtol=1e-10)


def test_some_of_the_lines_are_lines():
    x, s, r, g = problem()
    lines = features.lay_lines(r, g, x, RBF())
    rule = features.rule_for(RBF(), lines.bulk)
    every, some = (features.sums(z, rule, x, s, np.array([60])) for z in (lines, lines[1:3]))
    np.testing.assert_allclose(some, every[:, 1:3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(), IMQ()], ids=repr)
def test_units_and_origin_of_the_samples_do_not_matter(kernel):
    """x -> b x + origin and s -> s / b: the median bandwidth follows, and the statistic is divided by b^2."""
    x, s, r, g = problem()
    plain = np.sum(sums_of(x, s, r, g, kernel, [60])[0] ** 2, axis=1)
    moved = np.sum(sums_of(100 * x + 7, s / 100, r, g, kernel, [60])[0] ** 2, axis=1)
    np.testing.assert_allclose(moved, plain / 100**2, rtol=1e-3)  # the frequencies are laid out anew


# --- additive ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [RBF(), IMQ()], ids=repr)
def test_blocks_add_up(implementation, kernel, dtype):
    x, s, r, g = problem(count=200, dtype=dtype)
    whole = sums_of(x, s, r, g, kernel, [200])
    atol = {"float64": 1e-11, "float32": 3e-4}[dtype]  # terms are of order one
    for ends in ([1, 200], [50, 51, 120, 200], np.arange(1, 201)):
        np.testing.assert_allclose(sums_of(x, s, r, g, kernel, ends).sum(0), whole[0], atol=atol)
    lines = features.lay_lines(r, g, x, kernel)
    rule = features.rule_for(kernel, lines.bulk)
    parts = [features.sums(lines, rule, x[i:j], s[i:j], np.array([j - i])) for i, j in ((0, 70), (70, 200))]
    np.testing.assert_allclose(sum(parts), whole, atol=atol)


@pytest.mark.parametrize("kernel", [RBF(), IMQ()], ids=repr)
@pytest.mark.parametrize("chunk", [1, 4 * 7, 4 * 64, 4 * 1000])
def test_chunks_change_cost_alone(kernel, chunk, monkeypatch):
    x, s, r, g = problem(count=200)
    ends = np.array([3, 64, 65, 130, 131, 200])
    whole = sums_of(x, s, r, g, kernel, ends)
    monkeypatch.setattr(features, "CHUNK_VALUES", chunk)
    np.testing.assert_allclose(sums_of(x, s, r, g, kernel, ends), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(), IMQ()], ids=repr)
def test_memory_is_that_of_a_chunk(kernel, monkeypatch):
    """One slice of 200,000 rows: its features at nodes would take 90 MB."""
    x, s, r, g = problem(count=200_000, num=1, dtype="float32")
    lines = features.lay_lines(r, g, x[:500], kernel)
    rule = features.rule_for(kernel, lines.bulk)
    monkeypatch.setattr(features, "CHUNK_VALUES", 2**16)
    ends = np.arange(200, 200_001, 200)
    tracemalloc.start()
    features.sums(lines, rule, x, s, ends)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


@pytest.mark.parametrize("most", [1, 5, 10, 1000])
@pytest.mark.parametrize("ends", [[10], [5, 10], [3, 3, 4, 10], [1, 2, 3, 10]])
def test_chunks_are_runs_of_whole_blocks(ends, most):
    ends = np.array(ends)
    chunks = list(features._chunks(ends, most))
    assert [blocks.start for blocks, _ in chunks] == [0, *(blocks.stop for blocks, _ in chunks[:-1])]
    assert [rows.start for _, rows in chunks] == [0, *(rows.stop for _, rows in chunks[:-1])]
    assert chunks[-1] == (slice(chunks[-1][0].start, len(ends)), slice(chunks[-1][1].start, ends[-1]))
    for blocks, rows in chunks:
        assert rows.stop == ends[blocks.stop - 1]
        assert rows.stop - rows.start <= most or blocks.stop == blocks.start + 1


@pytest.mark.parametrize("kernel", [RBF(), IMQ()], ids=repr)
def test_a_block_without_rows_is_zero(implementation, kernel):
    x, s, r, g = problem()
    with_empty, plain = sums_of(x, s, r, g, kernel, [20, 20, 60]), sums_of(x, s, r, g, kernel, [20, 60])
    np.testing.assert_array_equal(with_empty[1], 0)
    np.testing.assert_allclose(with_empty[[0, 2]], plain, rtol=1e-12, atol=1e-12)


# --- the bounded line --------------------------------------------------------------------------

HEAVY = {
    "cauchy": (stats.cauchy(), lambda x: -2 * x / (1 + x**2)),
    "t(2)": (stats.t(2), lambda x: -3 * x / (2 + x**2)),
    "normal": (stats.norm(), lambda x: -x),
}


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", [RBF(), IMQ(), Matern(smoothness=2.5)], ids=repr)
@pytest.mark.parametrize("law", HEAVY)
def test_steins_identity_holds_on_a_bent_line(kernel, law):
    """The mean of every feature over draws of the model is zero, though one draw in ten lies where the line is bent."""
    distribution, score = HEAVY[law]
    count = 200_000
    x = distribution.rvs((count, 1), random_state=np.random.default_rng(0))
    scale = 0.3 if law == "normal" else 1.0  # a narrow kernel, so that the bulk of a normal law is bent too
    lines = features.lay_lines(np.ones((1, 1)), np.ones((1, 1)), x[:200] * scale, kernel)
    rule = features.rule_for(kernel, lines.bulk)
    lines = lines._replace(bulk=np.full(1, features.SHORTEST_BULK))
    y = np.abs(x @ lines.g.T - lines.centre)
    assert np.mean(y > lines.bulk) > 0.01
    psi = features.sums(lines, rule, x, score(x), np.arange(1, count + 1))[:, 0]
    error = psi.std(0, ddof=1) / math.sqrt(count)
    moves = error > 0  # the sine of frequency zero is always zero
    assert moves.sum() >= len(moves) - 1
    z = np.abs(psi.mean(0)[moves] / error[moves])
    assert z.max() < 4


def test_without_the_slope_of_the_line_the_identity_fails():
    """The law above can tell: features with T' = 1 everywhere are many standard errors away."""
    count = 200_000
    x = stats.cauchy().rvs((count, 1), random_state=np.random.default_rng(0))
    a = HEAVY["cauchy"][1](x)[:, 0]
    u, slope = native.bounded(x[:, 0], 4.0, features.TAIL)
    for used, seen in ((slope, False), (np.ones(count), True)):
        psi = a * np.sin(0.5 * u) + used * 0.5 * np.cos(0.5 * u)
        assert (abs(psi.mean()) > 4 * psi.std() / math.sqrt(count)) == seen


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bounded_line_is_the_identity_in_the_bulk_and_has_its_derivative(dtype):
    y = np.linspace(-12, 12, 4001).astype(dtype)
    u, slope = native.bounded(y, 4.0, 1.5)
    assert u.dtype == slope.dtype == dtype
    inside = np.abs(y) <= 4
    np.testing.assert_array_equal(u[inside], y[inside])
    np.testing.assert_array_equal(slope[inside], 1)
    assert np.abs(u).max() < 5.5
    assert np.all(np.diff(u) > 0)
    wide = y.astype(float)
    numeric = (native.bounded(wide + 1e-6, 4.0, 1.5)[0] - native.bounded(wide - 1e-6, 4.0, 1.5)[0]) / 2e-6
    np.testing.assert_allclose(slope, numeric, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [RBF(), IMQ(), Matern(smoothness=2.5)], ids=repr)
@pytest.mark.parametrize("size", [1e6, 1e30])
def test_outliers_are_finite_and_weigh_no_more_than_their_score(implementation, kernel, dtype, size):
    """At the end of the line the slope is 0: what is left of a row is its score times a bounded feature."""
    x, s, r, g = problem(count=200, dtype=dtype)
    lines = features.lay_lines(r, g, x, kernel)
    rule = features.rule_for(kernel, lines.bulk)
    x[7] = size
    found = features.sums(lines, rule, x, s, np.array([7, 8, 200]))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.sum(found[1] ** 2, axis=1), (r @ s[7]) ** 2, rtol=0.02)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lines_laid_out_among_outliers_are_finite(dtype):
    x, s, r, g = problem(count=200, dtype=dtype)
    x[7] = 1e30
    found = sums_of(x, s, r, g, RBF(), [7, 8, 200])
    assert np.isfinite(found).all()


def test_the_bulk_holds_the_rows_that_were_seen():
    t = np.random.default_rng(0).standard_normal((1, 500))
    for scale, expected in ((0.1, 4.0), (1.0, None), (5.0, 10.0)):
        line = features.lay_out(t, RBF(1.0 / scale))
        far = np.abs(t - np.median(t)).max() * scale
        assert line.bulk[0] == pytest.approx(expected or np.clip(far, 4, 10))
        assert line.centre[0] == pytest.approx(np.median(t) * scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_at_one_place_have_a_line(dtype):
    """No gap, no median: the unit is one."""
    line = features.lay_out(np.full((2, 50), 3.0, dtype), RBF())
    np.testing.assert_array_equal(line.bandwidth, 1)
    np.testing.assert_array_equal(line.centre, 3)
    assert {part.dtype for part in line} == {np.dtype(dtype)}


# --- rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bulk", [4.0, 7.3, 10.0])
def test_fourier_rule_is_the_kernel_over_the_whole_line(bulk):
    rule = features.rule_for(RBF(), np.array([bulk]))
    assert isinstance(rule, FourierRule)
    tau = np.linspace(0, 2 * (bulk + features.TAIL), 500)
    found = np.cos(np.outer(tau, rule.spacing * np.arange(len(rule.roots)))) @ rule.roots**2
    np.testing.assert_allclose(found, np.exp(-0.5 * tau**2), atol=2e-5)
    assert rule.spacing * (bulk + features.TAIL) <= math.pi
    assert rule.num == 2 * len(rule.roots) < 60


@pytest.mark.parametrize("kernel", [IMQ(), Matern(), Matern(smoothness=2.5)], ids=repr)
def test_node_rule_is_the_kernel_at_the_nodes(kernel):
    rule = features.rule_for(kernel, np.array([5.0]))
    assert isinstance(rule, NodeRule)
    assert rule.nodes[-1] == -rule.nodes[0] == 5.0 + features.TAIL
    assert np.diff(rule.nodes).max() <= features.NODE_SPACING
    gram = np.asarray(kernel.derivatives((rule.nodes[:, None] - rule.nodes) ** 2)[0])
    np.testing.assert_allclose((gram @ rule.mixing) @ (gram @ rule.mixing).T, gram, atol=1e-6)


def test_the_longest_line_sets_the_rule():
    short, both = features.rule_for(RBF(), np.array([4.0])), features.rule_for(RBF(), np.array([4.0, 9.0]))
    assert both.spacing < short.spacing
    np.testing.assert_array_equal(both.roots, features.rule_for(RBF(), np.array([9.0])).roots)
