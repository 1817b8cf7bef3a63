"""The slices of sliced SVGD: where they start, when they are refreshed, and how they turn.

Every direction r has a line g, which climbs the discrepancy on half of the particles and is followed where the other
half confirms what it has found. The second basis of r, if there is one, is the principal axes of the scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein._stein import bandwidths, engine
from slicestein._stein.operator import diagonal_mean
from slicestein._stein.sliced import problem
from slicestein.kernels import Kernel
from slicestein.samplers._bandwidth_rules import BandwidthRule, with_rule
from slicestein.slices import unit_rows

if TYPE_CHECKING:
    import optax

# A line is followed where the particles that it was not fitted to show so much more than noise.
SIGNAL = 2.0


class Lines(NamedTuple):
    """Slices r and g, bandwidths on them, and where the particles were when these were found.

    ``climbing``: lines on their way up, which take the place of r where they have found something.
    """

    r: Float[Array, "m d"] | None  # None: the coordinate axes alone
    g: Float[Array, "m d"]
    climbing: Float[Array, "m d"]
    bandwidths: Float[Array, " m"]
    optimizer: Any  # a state for every basis, with a leading axis
    anchor: Float[Array, "n d"]
    age: Int[Array, ""]
    refreshed: Int[Array, ""]  # how often


class Refresh(NamedTuple):
    """When and how lines are refreshed: the options of `sliced_svgd`."""

    kernel: Kernel
    bandwidth_rule: BandwidthRule
    basis: str
    optimizer: optax.GradientTransformation
    steps: int
    every: int
    displacement: float

    def kernel_for(self, num_particles: int) -> Kernel:
        return with_rule(self.kernel, self.bandwidth_rule, num_particles)

    def start(self, x: Float[Array, "n d"]) -> Lines:
        """Lines along the coordinate axes, twice if there will be a second basis."""
        count, dim = x.shape
        g = jnp.eye(dim, dtype=x.dtype)
        r = None
        one_rule = self.kernel.bandwidth is None or np.ndim(self.kernel.bandwidth) == 0
        if self.basis == "principal" and count > dim > 1 and one_rule:
            r = g = jnp.tile(g, (2, 1))  # principal axes take the place of the second half
        zero = jnp.zeros((), jnp.int32)
        found = bandwidths.on_slices(self.kernel_for(count), x, g)
        return Lines(r, g, g, found, jax.vmap(self.optimizer.init)(_by_basis(g)), x, zero, zero)

    def __call__(self, lines: Lines, x: Float[Array, "n d"], s: Float[Array, "n d"]) -> Lines:
        """Lines one step older, or new ones."""
        lines = lines._replace(age=lines.age + 1)
        moved = jnp.linalg.norm(x - lines.anchor, axis=1).mean()
        far = moved > self.displacement * jnp.sqrt(x.var(0).sum())
        return lax.cond(far | (lines.age >= self.every), lambda: self._renew(lines, x, s), lambda: lines)

    def _renew(self, lines: Lines, x: Array, s: Array) -> Lines:
        count = lines.refreshed + 1
        lines = lines._replace(anchor=x, age=jnp.zeros_like(lines.age), refreshed=count)
        if lines.r is not None:
            doubled = (count & (count - 1)) == 0  # a power of two
            lines = lax.cond(doubled, lambda: self._turn(lines, s), lambda: lines)
        kernel = self.kernel_for(x.shape[0])
        if self.steps > 0 and x.shape[0] >= 4:  # else too few to fit and to judge
            lines = self._climb(lines, x[::2], s[::2], kernel)
            found = signal(x[1::2], s[1::2], lines.r, lines.climbing, kernel) > SIGNAL
            start = jnp.eye(x.shape[1], dtype=x.dtype) if lines.r is None else lines.r
            lines = lines._replace(g=jnp.where(found[:, None], lines.climbing, start))
        return lines._replace(bandwidths=bandwidths.on_slices(kernel, x, lines.g))

    def _climb(self, lines: Lines, x: Array, s: Array, kernel: Kernel) -> Lines:
        def ascend(_: Array, carry: tuple[Array, Any]) -> tuple[Array, Any]:
            g, state = carry
            gradient = jax.grad(lambda g: signal(x, s, lines.r, g, kernel).sum())(g)
            updates, state = jax.vmap(self.optimizer.update)(_by_basis(-gradient), state, _by_basis(g))
            return unit_rows(g + updates.reshape(g.shape)), state

        climbing, state = lax.fori_loop(0, self.steps, ascend, (lines.climbing, lines.optimizer))
        return lines._replace(climbing=climbing, optimizer=state)

    def _turn(self, lines: Lines, s: Float[Array, "n d"]) -> Lines:
        """Lines whose second basis is the principal axes of these scores, about which the optimiser knows nothing yet.

        The first basis stays as it is.
        """
        assert lines.r is not None
        dim = s.shape[1]
        axes = jnp.linalg.eigh(jnp.cov(s.T))[1].T
        r, g, climbing = (a.at[dim:].set(axes) for a in (lines.r, lines.g, lines.climbing))
        fresh = self.optimizer.init(axes)
        state = jax.tree.map(lambda old, new: old.at[1].set(new), lines.optimizer, fresh)
        return lines._replace(r=r, g=g, climbing=climbing, optimizer=state)


def signal(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"],
    r: Float[Array, "m d"] | None,
    g: Float[Array, "m d"],
    kernel: Kernel,
) -> Float[Array, " m"]:
    r"""The discrepancy on every line in units of its noise, $V / (E h_{ii} / N)$: about 1 for draws of the target.

    Climbing V itself leads to directions along which the particles happen to lie close together, if there are fewer
    of them than dimensions: there a narrow bandwidth makes both V and its noise large.
    """
    data = problem(x, s, r, g, kernel).projected
    return engine.value(data, kernel) / (diagonal_mean(kernel, data) / x.shape[0])


def _by_basis(rows: Float[Array, "m d"]) -> Float[Array, "b d d"]:
    """Rows of every basis apart: each has an optimiser state of its own, so that one can start afresh."""
    return rows.reshape(-1, rows.shape[1], rows.shape[1])
