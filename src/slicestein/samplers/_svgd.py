r"""Stein variational gradient descent in the full space (Liu and Wang 2016; label "eq: SVGD Update").

$$ \phi(x) = \frac1N \sum_j \kappa(d_j) s(x_j) + \frac{\kappa'(d_j)}{d_j h^2} (x_j - x), \qquad d_j = |x_j - x| / h . $$

The first term pulls, the second pushes particles apart. In high dimension the second one fades and the
particles collapse: see `sliced_svgd`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._stein import bandwidths, full_space
from slicestein._stein.full_space import Scaled
from slicestein.kernels import RBF, Kernel
from slicestein.samplers._bandwidth_rules import BANDWIDTH_RULES, BandwidthRule, with_rule
from slicestein.samplers._particles import Algorithm, Force, Schedule, algorithm

if TYPE_CHECKING:
    import optax


def svgd(
    score_fn: Callable[..., Any],
    optimizer: optax.GradientTransformation,
    *,
    kernel: Kernel = RBF(),
    bandwidth_rule: BandwidthRule = "median/log n",
    repulsion: Schedule = 1.0,
) -> Algorithm:
    """Stein variational gradient descent.

    Parameters
    ----------
    score_fn
        Score of a batch of particles, in their shape: ``score_fn(particles, *arguments)``; `score_from` makes one
        from a log-density, of arrays or of pytrees.
    optimizer
        Any optax optimiser.
    kernel
        Kernel in the full space; a number as bandwidth overrules the rule.
    bandwidth_rule
        ``"median/log n"``, as published, or ``"median"``, the median distance between particles.
    repulsion
        Factor on the repulsive force, or a schedule of it over steps.

    Returns
    -------
    Algorithm
        With ``init(particles)``, ``step(state, *arguments)``; `run` loops. Cost of a step: O(N^2 D).
    """
    _checks.one_of("bandwidth_rule", bandwidth_rule, BANDWIDTH_RULES)
    _checks.kernel(kernel, 1)

    def find_force(x: Array, s: Array, *_: Any) -> tuple[Force, None]:
        return force(x, s, with_rule(kernel, bandwidth_rule, x.shape[0])), None

    check_start = functools.partial(check_particles_differ, kernel)
    return algorithm(score_fn, optimizer, find_force, check_start, repulsion=repulsion, key=0)


def noisy_svgd(
    score_fn: Callable[..., Any],
    step_size: float,
    *,
    key: Any,
    kernel: Kernel = RBF(),
    bandwidth_rule: BandwidthRule = "median/log n",
) -> Algorithm:
    r"""SVGD with the noise that makes it a sampler (Gallego and Rios Insua 2018).

    $$ x \leftarrow x + \epsilon \phi + \eta, \qquad \eta_{\cdot d} \sim N(0, 2 \epsilon K / N) . $$

    Each particle, over time, then follows the target, for any number of them; the force alone has no such guarantee.
    Cost of a step: O(N^2 D + N^3).
    """
    _checks.one_of("bandwidth_rule", bandwidth_rule, BANDWIDTH_RULES)
    _checks.positive(step_size=step_size)
    _checks.kernel(kernel, 1)

    import optax  # when it is needed, not when the package is imported

    def find_force(x: Array, s: Array, _: None, __: Array, noise_key: Array) -> tuple[Force, None]:
        ruled = with_rule(kernel, bandwidth_rule, x.shape[0])
        data = full_space.scale(x, s, bandwidths.in_full_space(ruled, x))
        found = _force(data, ruled)
        gram = full_space.gram(ruled, data.y, jnp.arange(x.shape[0]))[0]
        jitter = 10 * jnp.finfo(x.dtype).eps * x.shape[0]
        root = jnp.linalg.cholesky(gram + jitter * jnp.eye(x.shape[0], dtype=x.dtype))
        noise = root @ jax.random.normal(noise_key, x.shape, x.dtype) * jnp.sqrt(2 / (step_size * x.shape[0]))
        return Force(found.total + noise, found.repulsive, found.discrepancy), None

    check_start = functools.partial(check_particles_differ, kernel)
    return algorithm(score_fn, optax.sgd(step_size), find_force, check_start, repulsion=1.0, key=key)


def check_particles_differ(kernel: Kernel, x: Float[Array, "n d"]) -> None:
    """Require particles between which there is a median distance, or a bandwidth that is given."""
    if kernel.bandwidth is None:
        _checks.rows_differ(bandwidths.evenly_spread(x), "particles", "start them apart, or pass a fixed bandwidth")


def force(x: Float[Array, "n d"], s: Float[Array, "n d"], kernel: Kernel) -> Force:
    """The SVGD force of particles on themselves. Cost: O(N^2 D)."""
    return _force(full_space.scale(x, s, bandwidths.in_full_space(kernel, x)), kernel)


def _force(data: Scaled, kernel: Kernel) -> Force:
    value, pull, push = full_space.forces(data, kernel)
    return Force(pull + push, push, value)
