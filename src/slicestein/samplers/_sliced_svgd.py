r"""Sliced SVGD (labels "alg: S_SVGD", "eq:S_SVGD update direction").

Every direction $r_d$ of an orthogonal basis has its own line, $t = x^\top g_d$, and particles move along $r_d$ by what
they see on it:

$$
\phi(x) = \sum_d r_d \, \frac1N \sum_j \bigl( s(x_j)^\top r_d \, \kappa(u_j - u) + c_d \kappa'(u_j - u) \bigr),
\qquad u = t / h_d, \; c_d = r_d^\top g_d / h_d .
$$

Distances on a line do not grow with the dimension, so neither part of the force fades. The lines turn, now and
then, towards where particles and target differ most: ascent of the discrepancy in G, the rate at which KL falls.

In the paper the basis is the coordinate axes. Of correlations, or of modes apart in an oblique direction, these show
little; so here there is a second basis beside them, the principal axes of the scores, if there are particles enough to
find it, and the force is the mean of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein import _checks
from slicestein._stein import exact, fourier
from slicestein._stein.operator import Projected, diagonal_mean
from slicestein.discrepancy import FOURIER_FROM
from slicestein.kernels import RBF, Kernel, thin
from slicestein.samplers._particles import BANDWIDTH_RULES, Algorithm, Force, Schedule, algorithm, with_rule
from slicestein.samplers._svgd import BandwidthRule

if TYPE_CHECKING:
    import optax

# With fewer particles all pairs cost less than two Fourier sums (one core, D = 100 and 753, float32).
PAIRS_BELOW = 128

# A direction is followed where the particles that it was not fitted to show so much more than noise.
SIGNAL = 2.0


class Lines(NamedTuple):
    """Slices r and g, bandwidths on them, and where the particles were when these were found.

    ``climbing``: directions on their way up, which take the place of r where they have found something.
    """

    r: Float[Array, "m d"] | None  # None: the coordinate axes alone
    g: Float[Array, "m d"]
    climbing: Float[Array, "m d"]
    widths: Float[Array, " m"]
    optimizer: Any
    anchor: Float[Array, "n d"]
    age: Int[Array, ""]
    refreshed: Int[Array, ""]  # how often


def sliced_svgd(
    score_fn: Callable[..., Any],
    optimizer: optax.GradientTransformation,
    *,
    kernel: Kernel = RBF(),
    bandwidth_rule: BandwidthRule = "median",
    repulsion: Schedule = 1.0,
    basis: Literal["principal", "axes"] = "principal",
    slice_optimizer: optax.GradientTransformation | None = None,
    slice_steps: int = 1,
    refresh_every: int = 40,
    refresh_displacement: float = 0.15,
) -> Algorithm:
    """Sliced Stein variational gradient descent.

    Parameters
    ----------
    score_fn, optimizer, repulsion
        As in `svgd`.
    kernel
        Kernel on each line. With ``RBF`` the force costs O(N D) beyond the projections.
    bandwidth_rule
        ``"median"``, the median distance on each line, or ``"median/log n"``.
    basis
        The directions r. ``"axes"``: the coordinate axes, as in the paper; ``"principal"``: the principal axes of the
        scores beside them, if there are more particles than dimensions and one bandwidth rule for all lines.
    slice_optimizer
        Any optax optimiser, for the directions g; by default Adam with step 0.01. They start at the basis.
    slice_steps
        Steps of ascent whenever the directions are refreshed; 0 keeps g = r.
    refresh_every, refresh_displacement
        Directions and bandwidths are refreshed after this many steps, or as soon as the particles have moved, on
        average, by this fraction of their spread. Principal axes are found anew when the number of refreshes has
        doubled, so that they come to rest.

    Returns
    -------
    Algorithm
        With ``init(particles)``, ``step(state, *arguments)``; `run` loops. Cost of a step: O(N D^2), and as
        much again for every step of ascent; O(D^3) where principal axes are found, at a few steps only.

    Notes
    -----
    Differs from the paper, where there is one basis, the coordinate axes, and all directions climb the discrepancy of
    all particles and are followed at once: with few particles for the dimension they then chase noise, and good
    particles never come to rest. Here directions climb on half of the particles, in units of the noise, and one takes
    the place of its r where the other half confirms it.

    Examples
    --------
    >>> import jax, optax
    >>> import slicestein as ss
    >>> start = 2 + jax.random.normal(jax.random.key(0), (50, 30))
    >>> sliced, plain = (
    ...     ss.run(method(lambda x: -x, optax.adam(0.05)), start, 1000, progress=False).particles.var()
    ...     for method in (ss.sliced_svgd, ss.svgd)
    ... )
    >>> bool(sliced > 0.9), bool(plain < 0.5)
    (True, True)
    """
    _checks.one_of("bandwidth_rule", bandwidth_rule, BANDWIDTH_RULES)
    _checks.one_of("basis", basis, ("principal", "axes"))
    if slice_optimizer is None:
        import optax  # when it is needed, not when the package is imported

        slice_optimizer = optax.adam(0.01, b1=0.5, b2=0.9)

    def init_lines(x: Array) -> Lines:
        count, dim = x.shape
        g = jnp.eye(dim, dtype=x.dtype)
        r = None
        one_rule = kernel.bandwidth is None or np.ndim(kernel.bandwidth) == 0
        if basis == "principal" and count > dim > 1 and one_rule:
            r = g = jnp.tile(g, (2, 1))  # principal axes take the place of the second half
        widths = _widths(x, g, with_rule(kernel, bandwidth_rule, count))
        zero = jnp.zeros((), jnp.int32)
        return Lines(r, g, g, widths, slice_optimizer.init(g), x, zero, zero)

    def refresh(lines: Lines, x: Array, s: Array, ruled: Kernel) -> Lines:
        count = lines.refreshed + 1
        lines = lines._replace(anchor=x, age=jnp.zeros_like(lines.age), refreshed=count)
        if lines.r is not None:
            doubled = (count & (count - 1)) == 0  # a power of two
            lines = lax.cond(doubled, lambda: _turn(lines, s), lambda: lines)
        if slice_steps == 0 or x.shape[0] < 4:  # too few to fit and to judge
            return lines._replace(widths=_widths(x, lines.g, ruled))

        def ascend(_: Array, carry: tuple[Array, Any]) -> tuple[Array, Any]:
            g, optimizer_state = carry
            gradient = jax.grad(lambda g: _signal(x[::2], s[::2], lines.r, g, ruled).sum())(g)
            updates, optimizer_state = slice_optimizer.update(-gradient, optimizer_state, g)
            g = g + updates
            return g / jnp.linalg.norm(g, axis=1, keepdims=True), optimizer_state

        climbing, optimizer_state = lax.fori_loop(0, slice_steps, ascend, (lines.climbing, lines.optimizer))
        found = _signal(x[1::2], s[1::2], lines.r, climbing, ruled) > SIGNAL
        g = jnp.where(found[:, None], climbing, jnp.eye(x.shape[1], dtype=x.dtype) if lines.r is None else lines.r)
        return lines._replace(g=g, climbing=climbing, widths=_widths(x, g, ruled), optimizer=optimizer_state)

    def find_force(x: Array, s: Array, lines: Lines, *_: Any) -> tuple[Force, Lines]:
        ruled = with_rule(kernel, bandwidth_rule, x.shape[0])
        lines = lines._replace(age=lines.age + 1)
        moved = jnp.linalg.norm(x - lines.anchor, axis=1).mean()
        far = moved > refresh_displacement * jnp.sqrt(x.var(0).sum())
        lines = lax.cond(far | (lines.age >= refresh_every), lambda: refresh(lines, x, s, ruled), lambda: lines)
        return force(x, s, lines.g, lines.widths, ruled, r=lines.r), lines

    return algorithm(score_fn, optimizer, find_force, init_lines, repulsion=repulsion, key=0)


def force(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    g: Float[Array, "m d"],
    widths: Float[Array, " m"],
    kernel: Kernel,
    *,
    r: Float[Array, "m d"] | None = None,
) -> Force:
    """The S-SVGD force of particles on themselves (label "eq:S_SVGD update direction"), a mean over the bases in r.

    By default r is the coordinate axes.
    """
    value, pull, push = _forces(_project(x, s, r, g, widths), kernel)
    share = x.shape[1] / g.shape[0]
    total, repulsive = ((part.T if r is None else part.T @ (share * r)) for part in (pull + push, push))
    return Force(total, repulsive, share * value.sum())


def _turn(lines: Lines, s: Float[Array, "n d"]) -> Lines:
    """Lines whose second basis is the principal axes of these scores; the first stays as it is."""
    assert lines.r is not None
    dim = s.shape[1]
    axes = jnp.linalg.eigh(jnp.cov(s.T))[1].T
    r, g, climbing = (a.at[dim:].set(axes) for a in (lines.r, lines.g, lines.climbing))
    return lines._replace(r=r, g=g, climbing=climbing)


def _signal(x: Array, s: Array, r: Array | None, g: Array, kernel: Kernel) -> Float[Array, " m"]:
    r"""The discrepancy on every line in units of its noise, $V / (E h_{ii} / N)$: about 1 for draws of the target.

    Climbing V itself leads to directions along which the particles happen to lie close together, if there are fewer
    of them than dimensions: there a narrow bandwidth makes both V and its noise large.
    """
    data = _project(x, s, r, g, _widths(x, g, kernel))
    linear = kernel.spectrum is not None and x.shape[0] >= FOURIER_FROM
    value = fourier.v_statistic(*data, kernel.unit) if linear else exact.v_statistic(data, kernel)
    return value / (diagonal_mean(kernel, data) / x.shape[0])


def _widths(x: Array, g: Array, kernel: Kernel) -> Float[Array, " m"]:
    return kernel.widths(lax.stop_gradient(g @ thin(x).T))


def _project(x: Array, s: Array, r: Array | None, g: Array, widths: Array) -> Projected:
    along, aligned = (s.T, jnp.diag(g)) if r is None else (r @ s.T, jnp.sum(r * g, axis=1))
    return Projected(g / widths[:, None] @ x.T, along, (aligned / widths)[:, None])


def _forces(data: Projected, kernel: Kernel) -> tuple[Float[Array, " m"], Float[Array, "m n"], Float[Array, "m n"]]:
    """V-statistics, and the two parts of the witness at the particles: attraction and repulsion."""
    count = data.u.shape[1]
    if kernel.spectrum is None or count < PAIRS_BELOW:
        return exact.forces(data, kernel)
    value, _, da, _ = fourier.value_and_gradient(*data, kernel.unit)
    _, _, push, _ = fourier.value_and_gradient(*data._replace(a=jnp.zeros_like(data.a)), kernel.unit)
    return value, (da - push) * (count / 2), push * (count / 2)
