r"""The score of a model, $s_p(x) = \nabla_x \log p(x)$.

Every function of the package takes the score as an (N, D) array or as a batched function (N, D) -> (N, D);
the normalising constant of the density never matters.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array, Float


def score_from(
    log_density: Callable[[Float[Array, " d"]], Float[Array, ""]],
) -> Callable[[Float[Array, "n d"]], Float[Array, "n d"]]:
    """Turn a log-density of one sample into a score function of a batch.

    Parameters
    ----------
    log_density
        JAX function from one sample (D,) to its log-density, up to a constant.

    Returns
    -------
    Callable
        Function from samples (N, D) to their scores (N, D), usable under ``jit`` and ``grad``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from slicestein import score_from
    >>> score_from(lambda x: -0.5 * jnp.sum(x**2))(jnp.array([[1.0, -2.0]])).tolist()
    [[-1.0, 2.0]]
    """
    return jax.vmap(jax.grad(log_density))
