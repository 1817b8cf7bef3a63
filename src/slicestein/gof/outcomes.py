"""Statistics of components and their null distributions, all with the same bootstrap weights."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from slicestein.gof import dependence, null
from slicestein.gof.components import Component

# Names of the bootstraps in `null`.
KINDS: dict[str, Any] = {
    "wild": "rademacher",
    "multinomial": "multinomial",
    "dependent": "dependent",
    "eigenvalues": "normal",
}

# Up to here the (N, N) matrix of the Stein kernel is built (128 MB); beyond, draws are linear in N.
MATRIX_SAMPLES = 4096
# Elements of the arrays (draws, samples) and (draws, features) of draws that are made together: 256 MB.
DRAW_ELEMENTS = 2**25


def outcomes(
    parts: list[Component], bootstrap: str, key: Array, num_draws: int, chains: int, x: Array
) -> list[null.Outcome]:
    """The statistic and null of every part, all with the same bootstrap weights."""
    options: dict[str, Any] = {"num_draws": num_draws, "num_chains": chains}
    if bootstrap == "dependent":
        options["flip_probability"] = dependence.flip_probability(x, chains)
    if x.shape[0] > MATRIX_SAMPLES and all(part.is_linear for part in parts):
        return _linear_outcomes(parts, key, KINDS[bootstrap], **options)
    if bootstrap == "eigenvalues" and len(parts) == 1:
        return [null.eigenvalue_test(parts[0].matrix(), key, num_draws)]
    return _matrix_outcomes(parts, key, KINDS[bootstrap], **options)


@eqx.filter_jit
def _matrix_outcomes(parts: list[Component], key: Array, kind: Any, **options: Any) -> list[null.Outcome]:
    return null.bootstrap_tests([part.matrix() for part in parts], key=key, kind=kind, **options)


@eqx.filter_jit
def _linear_outcomes(
    parts: list[Component], key: Array, kind: Any, *, num_draws: int, num_chains: int, flip_probability: Any = None
) -> list[null.Outcome]:
    """Outcomes without matrices: one quadratic form per draw, and one with weights 1 for the statistic."""
    diagonals = jnp.stack([part.diagonal() for part in parts])
    count = diagonals.shape[1]
    hollow = null.FORMS[kind] == "u"

    pairs = count * (count - 1.0) if hollow else float(count) ** 2

    def form(drawn: tuple[Array, Array]) -> Float[Array, " k"]:
        key, is_statistic = drawn
        options = {"num_chains": num_chains, "flip_probability": flip_probability, "dtype": diagonals.dtype}
        weights = null.bootstrap_weights(kind, key, 1, count, **options)[0]
        w = jnp.where(is_statistic, 1 / math.sqrt(pairs), weights)
        values = jnp.stack([part.quadratic_form(w) for part in parts])
        return values - diagonals @ w**2 if hollow else values

    keys = jax.random.split(key, num_draws)
    all_keys = jnp.concatenate([keys[:1], keys])  # the first is not used
    # Draws with features are made together, by matrix products; the others one by one.
    sizes = [size for part in parts if (size := part.num_features) is not None]
    together = max(1, DRAW_ELEMENTS // max(count, *sizes)) if len(sizes) == len(parts) else 1
    values = lax.map(form, (all_keys, jnp.arange(num_draws + 1) == 0), batch_size=min(together, num_draws + 1))
    statistics, draws = values[0], values[1:]
    return [null.Outcome(t, d, null.pvalue(t, d)) for t, d in zip(statistics, draws.T, strict=True)]
