r"""The score of a model, $s_p(x) = \nabla_x \log p(x)$.

Every function of the package takes the score as an (N, D) array or as a batched function (N, D) -> (N, D);
the normalising constant of the density never matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slicestein import _torch
from slicestein._checks import from_torch


def score_from(log_density: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Turn a log-density of one sample into a score function of a batch.

    Parameters
    ----------
    log_density
        JAX or PyTorch function from one sample (D,) to its log-density, up to a constant.

    Returns
    -------
    Callable
        Function from samples (N, D) to their scores (N, D). Of a JAX function it is usable under ``jit`` and ``grad``;
        of a torch function it takes any array and returns a tensor.

    Notes
    -----
    A function that JAX can trace is a JAX function. One that JAX cannot trace and torch can follow is a torch function;
    that is tried when the scores are asked for, and only where torch has been imported. It works in the precision of
    the samples or, if its own tensors forbid that, in theirs.

    Where the log-density is NaN or infinite, at samples that the model excludes, the score is NaN: the derivative of
    the formula may well be finite there, as that of log(x) at -1 is, but it means nothing.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from slicestein import score_from
    >>> score_from(lambda x: -0.5 * jnp.sum(x**2))(jnp.array([[1.0, -2.0]])).tolist()
    [[-1.0, 2.0]]
    """

    def of_one(x: Any) -> Any:
        value, gradient = jax.value_and_grad(log_density)(x)
        return jax.tree.map(lambda part: jnp.where(jnp.isfinite(value), part, jnp.nan), gradient)

    def score_fn(x: Any) -> Any:
        try:
            if _torch.is_torch(log_density, x):
                return _torch.scores(log_density, x)
            return jax.vmap(of_one)(from_torch(x))
        except Exception as error:
            error.add_note(
                f"score_from calls the log-density with one sample, shape {np.shape(x)[1:]}, at a time: it must return "
                "one number and be written with jax.numpy, or in PyTorch. A score is passed as it is (--target-kind "
                "score)"
            )
            raise

    return score_fn
