"""Statistics and witnesses of slices, some slices at a time: what the public functions hand checked input to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from slicestein._stein import bandwidths
from slicestein._stein import engine as engines
from slicestein._stein.engine import Engine
from slicestein._stein.operator import Projected, diagonal_mean, jacobian_term, project, unbiased
from slicestein._stein.tiles import in_one_block, map_in_blocks
from slicestein.kernels import Kernel

Statistic = Literal["u", "v"]
FeatureMap = Callable[[Float[Array, " d"]], Float[Array, " e"]]


class Problem(NamedTuple):
    """Samples, scores and slices, with the bandwidth of every slice."""

    inputs: Float[Array, "n e"]  # the samples, or their features
    s: Float[Array, "n d"]
    r: Float[Array, "m d"] | None  # None: the coordinate axes
    g: Float[Array, "m e"]
    bandwidths: Float[Array, " m"]
    jacobian: Float[Array, "m n"] | None = None  # with a feature map only

    @property
    def projected(self) -> Projected:
        """All samples on all slices."""
        return project(*self)


def problem(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    r: Float[Array, "m d"] | None,
    g: Float[Array, "m e"],
    kernel: Kernel,
    feature_map: FeatureMap | None = None,
) -> Problem:
    """Features and bandwidths of samples on unit directions; with a feature map r must be given."""
    r, g = None if r is None else r.astype(x.dtype), g.astype(x.dtype)
    if feature_map is None:
        return Problem(x, s, r, g, bandwidths.on_slices(kernel, x, g))
    assert r is not None
    inputs, jacobian = (z.astype(x.dtype) for z in (jax.vmap(feature_map)(x), jacobian_term(x, r, g, feature_map)))
    return Problem(inputs, s, r, g, bandwidths.on_slices(kernel, inputs, g), jacobian)


@functools.partial(jax.jit, static_argnames=("statistic", "engine"))
def statistics(
    problem: Problem, kernel: Kernel, *, statistic: Statistic, engine: Engine = "auto"
) -> Float[Array, " m"]:
    """U or V of every slice."""
    count = problem.s.shape[0]

    def block(data: Projected) -> Array:
        v = engines.value(data, kernel, engine)
        return v if statistic == "v" else unbiased(v, diagonal_mean(kernel, data), count)

    return _some_slices_at_a_time(block, problem, (), values_per_slice=2 * count)


@functools.partial(jax.jit, static_argnames="engine")
def witness(
    problem: Problem, at: Float[Array, "t m"], kernel: Kernel, *, engine: Engine = "auto"
) -> Float[Array, "t m"]:
    """Mean test function of every slice at points of its line, in units of the inputs."""

    def block(data: Projected, at: Array) -> Array:
        return engines.witness(data, kernel, at, engine)

    points = (at / problem.bandwidths[None]).T
    values_per_slice = 6 * (problem.s.shape[0] + at.shape[0])
    return _some_slices_at_a_time(block, problem, (points,), values_per_slice).T


def _some_slices_at_a_time(
    fn: Callable[..., Array], problem: Problem, more: tuple[Array, ...], values_per_slice: int
) -> Array:
    """``fn`` of the projections on all slices and of ``more``, arrays with a leading axis of slices."""
    inputs, s, r, *rest = problem
    bytes_per_slice = values_per_slice * s.dtype.itemsize
    if r is None and not in_one_block(problem.g.shape[0], bytes_per_slice):
        r = jnp.eye(s.shape[1], dtype=s.dtype)

    def block(rows: tuple[Any, ...]) -> Array:
        return fn(project(inputs, s, *rows[:4]), *rows[4:])

    return map_in_blocks(block, (r, *rest, *more), bytes_per_slice)
