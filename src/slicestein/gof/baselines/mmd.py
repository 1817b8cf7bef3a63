r"""Maximum mean discrepancy between the samples and draws from the model (Gretton et al. 2012).

$$
H_{ij} = k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(y_i, x_j), \qquad MMD^2 = U(H)
$$

with as many draws y from the model as samples x. It needs no score, but a sampler of the model.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from slicestein._checks import InputError
from slicestein._stein import bandwidths
from slicestein._stein.full_space import squared_distances
from slicestein.gof.null import Outcome, bootstrap_test
from slicestein.kernels import RBF, Kernel


@jax.jit
def mmd_matrix(x: Float[Array, "n d"], y: Float[Array, "n d"], kernel: Kernel = RBF()) -> Float[Array, "n n"]:
    """H of the pairs (x_i, y_i), (N, N). The median bandwidth is over the pooled samples. Cost: O(N^2 D)."""
    count = x.shape[0]
    pooled = jnp.concatenate([x, y])
    scaled = (pooled - pooled.mean(0)) / bandwidths.in_full_space(kernel, pooled)
    k, _, _ = kernel.derivatives(squared_distances(scaled, scaled))
    cross = k[:count, count:]
    return k[:count, :count] + k[count:, count:] - cross - cross.T


@functools.partial(jax.jit, static_argnames=("num_draws", "kind"))
def mmd_test(
    x: Float[Array, "n d"],
    s: Float[Array, "n d"] | None = None,
    *,
    key: PRNGKeyArray,
    model_samples: Float[Array, "n d"],
    num_draws: int = 1000,
    kernel: Kernel = RBF(),
    kind: Literal["rademacher", "multinomial"] = "rademacher",
) -> Outcome:
    """MMD test of the samples against draws from the model.

    A sign on row i of H swaps x_i and y_i, which changes nothing in distribution under the null: with signs
    (``"rademacher"``) the test is a permutation test, exact at any N. Observed and drawn statistics are both the
    U-statistic of H.

    Parameters
    ----------
    x
        Samples, (N, D).
    s
        Not used: the place of the score in the shared call shape.
    model_samples
        Independent draws from the model, (N, D).
    kernel, kind, num_draws
        As in :func:`slicestein.gof.baselines.ksd_test`.

    Notes
    -----
    Cost: O(N^2 (D + B)) time, O(N^2 + B N) memory.
    """
    if model_samples.shape != x.shape:
        raise InputError(
            f"model_samples must have the shape of x, {x.shape}, got {model_samples.shape}: samples are paired"
        )
    return bootstrap_test(mmd_matrix(x, model_samples, kernel), key=key, kind=kind, num_draws=num_draws)
