"""The compiled kernels against their portable twins, and what they do with values that are no numbers."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicestein as ss
from slicestein._stein import bandwidths, compiled, engine, exact, fourier
from slicestein._stein.operator import Projected

pytestmark = pytest.mark.skipif(not compiled.AVAILABLE, reason="the extension was not built")

RBF = ss.RBF().unit
WIDE = 1e4  # in bandwidths: cells, not one rule


@pytest.fixture
def single():
    with jax.enable_x64(False):
        yield


def rows(*shape, spread=1.0, shared=False, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    c_shape = (*shape[:-1], 1) if shared else shape
    u, a, c = spread * rng.standard_normal(shape), rng.standard_normal(shape), rng.standard_normal(c_shape)
    return [z.astype(dtype) for z in (u, a, c)]


def flat(value_and_gradient):
    value, gradient = value_and_gradient
    return value, *gradient


def by_fourier(u, a, c):
    """V and its derivatives, compiled."""
    return flat(engine.value_and_gradient(Projected(*map(jnp.asarray, (u, a, c))), RBF, "fourier"))


# ---- values that are no numbers ------------------------------------------------------------------------------------

NEVER_RETURNED = """
import jax, jax.numpy as jnp, numpy as np, optax
import slicestein as ss
def score_fn(x):
    return (-x).at[57, 1].set(jnp.nan)
x = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
algorithm = ss.sliced_svgd(score_fn, optax.sgd(0.1), kernel=ss.RBF(1.0))
state = algorithm.init(x)
for _ in range(3):
    state, _ = algorithm.step(state)
jax.block_until_ready(state)
x = x.copy()
x[3, 0], x[7, 0] = np.nan, 1e4
assert jnp.isnan(jax.jit(lambda x: ss.sksd(x, -x, ss.Slices.basis(3), kernel=ss.RBF(1.0)))(x))
"""


def test_a_nan_ends():
    """A NaN belonged to no cell, and the search for its end had none."""
    subprocess.run([sys.executable, "-c", NEVER_RETURNED], check=True, timeout=100)


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("shared", [True, False], ids=["one c", "c per sample"])
@pytest.mark.parametrize("spread", [1.0, WIDE], ids=["one rule", "cells"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["u", "a", "c"])
@pytest.mark.parametrize("at", [0, 5])
def test_what_is_no_number_spoils_its_row_and_no_other(shared, spread, bad, where, at):
    data = rows(3, 20, spread=spread, shared=shared)
    clean = by_fourier(*data)
    spoilt = data["uac".index(where)]
    spoilt[1, min(at, spoilt.shape[1] - 1)] = bad
    for part, expected in zip(by_fourier(*data), clean, strict=True):
        assert np.isnan(part[1]).all()
        np.testing.assert_array_equal(part[::2], expected[::2])


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("shared", [True, False], ids=["one c", "c per sample"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["u", "a", "c"])
def test_forces_of_what_is_no_number(shared, bad, where):
    data = rows(3, 20, shared=shared)
    clean = compiled.forces(*data)
    data["uac".index(where)][1, -1] = bad
    for part, expected in zip(compiled.forces(*data), clean, strict=True):
        assert np.isnan(part[1]).all()
        np.testing.assert_array_equal(part[::2], expected[::2])


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_median_of_what_is_no_number(bad):
    t = rows(3, 20)[0]
    t[1, 7] = bad
    assert np.isnan(compiled.median_gap(t)).tolist() == [False, True, False]


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
def test_no_samples_and_no_slices(shape):
    for part in (*by_fourier(*rows(*shape)), *compiled.forces(*rows(*shape))):
        assert part.shape[0] == shape[0]
        assert np.isnan(part).all()
    assert np.isnan(compiled.median_gap(np.zeros(shape, np.float32))).all()


@pytest.mark.usefixtures("single")
def test_a_single_sample_has_no_gaps():
    assert np.isnan(compiled.median_gap(np.ones((2, 1), np.float32))).all()


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("c_shape", [(1, 20), (3, 2), (1, 1)])
def test_shapes_that_do_not_fit_are_refused(c_shape):
    """They were read beyond their end."""
    u, a, _ = rows(3, 20)
    for call in (by_fourier, compiled.forces):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"c \(\.\.\., n\) or \(\.\.\., 1\)"):
            jax.block_until_ready(call(u, a, np.ones(c_shape, np.float32)))


def test_the_environment_can_switch_the_extension_off():
    program = "from slicestein._stein import compiled, native; print(compiled.AVAILABLE, native.EXTENSION)"
    for value, expected in (("1", "False None"), ("0", "True <module")):
        environment = {**os.environ, "SLICESTEIN_PORTABLE": value}
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.startswith(expected)


# ---- far away, and close together ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("far", [1e4, 1e10, 1e20, 1e30, 3e38])
def test_where_a_cluster_lies_changes_nothing(far):
    """Pairs at 0 and pairs far away: each pair sees itself alone."""
    _, a, c = rows(1, 4)
    near, away = np.zeros((1, 2), np.float32), np.full((1, 2), far, np.float32)
    value, _, da, dc = by_fourier(np.concatenate([near, away], axis=1), a, c)
    parts = [by_fourier(near, a[:, two], c[:, two]) for two in (slice(0, 2), slice(2, 4))]
    np.testing.assert_allclose(value, sum(part[0] for part in parts) / 4, rtol=1e-5)
    np.testing.assert_allclose(da, np.concatenate([part[2] for part in parts], axis=1) / 4, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dc, np.concatenate([part[3] for part in parts], axis=1) / 4, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("engine", [exact.forces, jax.jit(exact.forces, static_argnums=1)], ids=["eager", "jitted"])
def test_forces_of_samples_far_apart(engine):
    """The square of their distance is infinite in single precision; the kernel is zero and stays so."""
    u = np.array([[0.0, 1e20, -1e30]], np.float32)
    a, c = np.ones((1, 3), np.float32), np.ones((1, 1), np.float32)
    value, pull, push = engine(Projected(u, a, c), RBF)
    np.testing.assert_allclose(value, [2 / 3], rtol=1e-6)
    np.testing.assert_allclose(pull, np.full((1, 3), 1 / 3), rtol=1e-6)
    np.testing.assert_allclose(push, np.zeros((1, 3)))


def test_tied_gaps_need_no_room():
    """Of a billion gaps with five values the median is one of the five, and no list of them is made."""
    program = """
import resource
import numpy as np
from slicestein._stein import native
t = np.random.default_rng(0).integers(0, 5, (1, 100_000)).astype(np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert native.median_gap(t) == [1.0]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert int(run.stdout) < 50_000  # kB; the gaps that are 1 take 6 GB


# ---- the portable twins --------------------------------------------------------------------------------------------


COMPILED = jax.jit(by_fourier)
PORTABLE = jax.jit(lambda *data: flat(fourier.value_and_gradient(Projected(*data), RBF)))
PORTABLE_FORCES = jax.jit(lambda *data: exact.forces(Projected(*data), RBF))
PORTABLE_MEDIAN = jax.jit(bandwidths._portable_median_gap)

# Sums of angles up to J pi, J = 20 (compiled) to 400 (the longest portable rule), each with a rounding of 1e-7 or
# 1e-16; in double precision the spectrum is cut off at 1e-10.
TOLERANCE = {"float32": 1e-4, "float64": 1e-8}


@st.composite
def problems(draw):
    """Rows of any scale: spread out, close together, tied, or with one value far away. Few shapes: each compiles."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    count, shared = draw(st.sampled_from([1, 6, 40])), draw(st.booleans())
    u, a, c = rows(3, count, shared=shared, dtype=np.float64, seed=draw(st.integers(0, 2**31)))
    if draw(st.booleans()):
        u = np.round(u)
    u *= 10.0 ** draw(st.floats(-30, 30) | st.floats(-1, 4))
    if draw(st.booleans()):
        u[1, -1] = draw(st.sampled_from([1e2, 1e4, -1e9, 1e30]))
    a *= 10.0 ** draw(st.floats(-8, 8))
    return [z.astype(dtype) for z in (u, a, c)]


@settings(max_examples=300, deadline=None)
@given(problems())
def test_compiled_is_portable(data):
    u, a, c = data
    size = float(np.abs(a).max() + np.abs(c).max())
    count, tolerance = u.shape[1], TOLERANCE[u.dtype.name] * size
    ours, theirs = COMPILED(*data), PORTABLE(*data)
    bounds = size, 4 * size / count, 2 / count, 2 * c.shape[1] / count if c.shape[1] > 1 else 2
    for one, other, bound in zip(ours, theirs, bounds, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * bound)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_compiled_forces_are_portable(data):
    size = float(np.abs(data[1]).max() + np.abs(data[2]).max())
    tolerance = TOLERANCE[data[0].dtype.name] * size
    ours, theirs = compiled.forces(*data), PORTABLE_FORCES(*data)
    for one, other, bound in zip(ours, theirs, (size, 1, 1), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * bound)


@settings(max_examples=200, deadline=None)
@given(problems().filter(lambda data: data[0].shape[1] > 1))
def test_compiled_median_is_portable(data):
    t = data[0]
    # The portable one is good to a rounding of the largest value.
    bound = 8 * np.finfo(t.dtype).eps * float(np.abs(t).max())
    np.testing.assert_allclose(compiled.median_gap(t), PORTABLE_MEDIAN(t), rtol=0, atol=bound)
