r"""SVGD on slices of dimension m > 1: Grassmann SVGD (Liu, Zhu, Ton, Wynne and Duncan 2022).

With L projectors $A_l$ (orthonormal columns) that together span the space,

$$ \phi(x) = \sum_l A_l \, \phi_l(A_l^\top x), $$

where $\phi_l$ is the SVGD force among the projected particles and scores. m = 1 with $A_l = e_l$ is sliced SVGD at
g = r; m = D is SVGD. The projectors follow the gradient of the discrepancy, with noise, on the Grassmannian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError
from slicestein.kernels import RBF, Kernel
from slicestein.samplers._bandwidth_rules import BANDWIDTH_RULES, BandwidthRule, with_rule
from slicestein.samplers._particles import Algorithm, Force, Schedule, algorithm
from slicestein.samplers._svgd import check_particles_differ
from slicestein.samplers._svgd import force as full_space_force

if TYPE_CHECKING:
    import optax


def grassmann_svgd(
    score_fn: Callable[..., Any],
    optimizer: optax.GradientTransformation,
    *,
    key: Any,
    slice_dim: int = 2,
    kernel: Kernel = RBF(),
    bandwidth_rule: BandwidthRule = "median/log n",
    repulsion: Schedule = 1.0,
    slice_learning_rate: float = 0.1,
    temperature: float = 1e-4,
    refresh_every: int = 1,
) -> Algorithm:
    """SVGD in subspaces of ``slice_dim`` dimensions, D / ``slice_dim`` of them, which turn as the particles move.

    Parameters
    ----------
    score_fn, optimizer, kernel, bandwidth_rule, repulsion
        As in `svgd`.
    key
        Int seed or JAX key, for the first subspaces and their noise.
    slice_dim
        Dimension m of a subspace, a divisor of D.
    slice_learning_rate, temperature
        Step and noise of the ascent over subspaces; the temperature is fixed (the authors raise it when the force
        stalls).
    refresh_every
        Turn the subspaces in every so many steps.

    Notes
    -----
    Cost of a step: O(D / m) times that of SVGD in m dimensions, O(N^2 D + N D^2).
    """
    _checks.one_of("bandwidth_rule", bandwidth_rule, BANDWIDTH_RULES)
    if slice_dim < 1:
        raise InputError(f"slice_dim must be at least 1, got {slice_dim}")
    _checks.positive(refresh_every=refresh_every)
    _checks.not_negative(slice_learning_rate=slice_learning_rate, temperature=temperature)
    _checks.kernel(kernel, 1)
    start_key, run_key = jax.random.split(_checks.as_key(key))

    def init_projectors(x: Array) -> Float[Array, "l d m"]:
        dim = x.shape[1]
        if dim % slice_dim:
            raise InputError(f"slice_dim must divide the dimension of the particles, {dim}, got {slice_dim}")
        check_particles_differ(kernel, x)
        basis = jnp.linalg.qr(jax.random.normal(start_key, (dim, dim), x.dtype))[0]
        return basis.reshape(dim, -1, slice_dim).swapaxes(0, 1)

    def find_force(x: Array, s: Array, projectors: Array, step: Array, noise_key: Array) -> tuple[Force, Array]:
        ruled = with_rule(kernel, bandwidth_rule, x.shape[0])

        def turn() -> Array:
            gradient = jax.grad(lambda a: lax.map(lambda one: _in_subspace(x, s, one, ruled).discrepancy, a).sum())
            noise = jax.random.normal(noise_key, projectors.shape, x.dtype)
            size = (2 * temperature * slice_learning_rate) ** 0.5
            return jax.vmap(_retract)(projectors, slice_learning_rate * gradient(projectors) + size * noise)

        projectors = lax.cond(step % refresh_every == refresh_every - 1, turn, lambda: projectors)
        return _sum_over_subspaces(x, s, projectors, ruled), projectors

    return algorithm(score_fn, optimizer, find_force, init_projectors, repulsion=repulsion, key=run_key)


def _sum_over_subspaces(x: Array, s: Array, projectors: Float[Array, "l d m"], kernel: Kernel) -> Force:
    def add(so_far: Force, one: Array) -> tuple[Force, None]:
        found = _in_subspace(x, s, one, kernel)
        back = found._replace(total=found.total @ one.T, repulsive=found.repulsive @ one.T)
        return jax.tree.map(jnp.add, so_far, back), None

    none = Force(jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros((), x.dtype))
    return lax.scan(add, none, projectors)[0]


def _in_subspace(x: Array, s: Array, projector: Float[Array, "d m"], kernel: Kernel) -> Force:
    return full_space_force(x @ projector, s @ projector, kernel)


def _retract(projector: Float[Array, "d m"], push: Float[Array, "d m"]) -> Float[Array, "d m"]:
    """A step in the tangent space, then the nearest projector (polar factor)."""
    tangent = push - projector @ (projector.T @ push)
    left, _, right = jnp.linalg.svd(projector + tangent, full_matrices=False)
    return left @ right
