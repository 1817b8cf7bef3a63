r"""Which of several sample sets is closest to the model, with uncertainty.

All sets are measured with one ruler. The first part of every set chooses it: coordinates, bandwidths and weights on
these parts together, slices on each part alone, because errors of opposite sign cancel in a pool. The sets are then
compared by the weighted sum of sliced U-statistics on the rest, along the slices of all.

The standard error is a jackknife over K blocks of consecutive draws,

$$ \operatorname{se}^2 = \frac{K - 1}{K} \sum_{k=1}^K (U_{-k} - \bar U_{-})^2, $$

which counts the dependence within Markov chains as long as blocks are longer than their memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._directions.fitting import fit_slices, slice_weights
from slicestein._directions.whitening import Whitening, whiten
from slicestein._stein import bandwidths
from slicestein.discrepancy import sksd
from slicestein.kernels import RBF
from slicestein.slices import Slices

BLOCKS = 20  # of the jackknife, at least; every chain has as many as the others
LEAST_SAMPLES = 100  # in every set: blocks of a few draws tell nothing


Chains = tuple[Float[Array, "chains draws d"], Float[Array, "chains draws d"]]


class Quality(NamedTuple):
    """Discrepancy of one sample set, with its uncertainty."""

    name: str
    discrepancy: float
    standard_error: float
    num_samples: int
    behind: float  # distance to the best set, in standard errors of the difference


def compare(sets: Mapping[str, Any], score: ScoreLike, *, key: Any, train_fraction: float = 0.2) -> list[Quality]:
    """Rank sample sets by their discrepancy to one model, best first.

    Parameters
    ----------
    sets
        Samples (N, D) or chains (chains, draws, D) by name; sizes may differ.
    score
        Score function of the model, (N, D) -> (N, D).
    key
        Int seed or JAX key.
    train_fraction
        Share of every set, from its start, that chooses the ruler.

    Notes
    -----
    The numbers depend on the ruler, and so on the company: compare within one call only. Draws that are correlated in
    time have a larger discrepancy, as they are worth fewer. Where a set is exact its standard error is on the large
    side: the jackknife is conservative for a U-statistic that is centred.

    Cost: O(N D M) per set for the slices and O(N M J) per block of the jackknife.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein.quality import compare
    >>> x = np.random.default_rng(0).standard_normal((2, 1000, 5))
    >>> best, worst = compare({"short step": x[0], "long step": 1.3 * x[1]}, lambda x: -x, key=0)
    >>> best.name, worst.behind > 3
    ('short step', True)
    """
    if not 0 < train_fraction < 1:
        raise InputError(f"train_fraction must lie between 0 and 1, got {train_fraction}")
    data = {name: _chains(name, x, score) for name, x in sets.items()}
    dims = {name: x.shape[2] for name, (x, _) in data.items()}
    if len(set(dims.values())) > 1:
        found = ", ".join(f"{name}: {dim}" for name, dim in dims.items())
        raise InputError(f"the sample sets differ in dimension ({found}): compare samples of one model")
    cuts = {name: round(train_fraction * x.shape[1]) for name, (x, _) in data.items()}
    ruler = _ruler([(x[:, : cuts[name]], s[:, : cuts[name]]) for name, (x, s) in data.items()], key)
    measured = []
    for name, (x, s) in data.items():
        blocks = _blocks(x[:, cuts[name] :]), _blocks(s[:, cuts[name] :])
        value, error = _measure(ruler, *blocks)
        measured.append(Quality(name, value, error, blocks[0].shape[0] * blocks[0].shape[1], 0.0))
    best, *others = sorted(measured, key=lambda q: q.discrepancy)
    return [best, *(q._replace(behind=_distance(q, best)) for q in others)]


def _distance(one: Quality, other: Quality) -> float:
    return (one.discrepancy - other.discrepancy) / float(np.hypot(one.standard_error, other.standard_error))


class _Ruler(NamedTuple):
    coordinates: Whitening
    slices: Slices
    kernel: RBF
    weights: Float[Array, " m"]


def _chains(name: str, x: Any, score: ScoreLike) -> Chains:
    """Checked samples and scores (chains, draws, D)."""
    shape = np.shape(x)
    chains = shape[0] if len(shape) == 3 else 1
    try:
        flat, s = _checks.samples_and_score(np.reshape(x, (-1, shape[-1])) if len(shape) == 3 else x, score)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if flat.shape[0] < LEAST_SAMPLES:
        raise InputError(f"{name}: holds {flat.shape[0]} samples: at least {LEAST_SAMPLES} are needed")
    return flat.reshape(chains, -1, shape[-1]), s.reshape(chains, -1, shape[-1])


def _ruler(parts: list[Chains], key: Any) -> _Ruler:
    flat = [(_flat(x), _flat(s)) for x, s in parts]
    pool = tuple(jnp.concatenate(arrays) for arrays in zip(*flat, strict=True))
    coordinates = whiten(*pool)
    keys = jax.random.split(_checks.as_key(key), len(parts))
    fits = [
        fit_slices(*coordinates(*own), key=k, optimize="rg", steps=0, shuffle=len(x) == 1).slices
        for own, k, (x, _) in zip(flat, keys, parts, strict=True)
    ]
    slices = Slices(*(jnp.concatenate([getattr(fit, name) for fit in fits]) for name in "rg"))
    x, s = coordinates(*pool)
    kernel = RBF(bandwidths.on_slices(RBF(), x, slices.g.astype(x.dtype)))
    return _Ruler(coordinates, slices, kernel, slice_weights(slices, x, s, kernel))


def _flat(x: Float[Array, "chains draws d"]) -> Float[Array, "n d"]:
    return x.reshape(-1, x.shape[-1])


def _blocks(x: Float[Array, "chains draws d"]) -> Float[Array, "blocks length d"]:
    """Each chain in blocks of one length; draws that do not fill a block are left out from the start."""
    chains, draws, dim = x.shape
    per_chain = min(-(-BLOCKS // chains), draws)
    length = draws // per_chain
    return x[:, draws - per_chain * length :].reshape(chains * per_chain, length, dim)


def _measure(
    ruler: _Ruler, x: Float[Array, "blocks length d"], s: Float[Array, "blocks length d"]
) -> tuple[float, float]:
    """Discrepancy and standard error."""

    def discrepancy(x: Array, s: Array) -> Array:
        values = sksd(*ruler.coordinates(_flat(x), _flat(s)), ruler.slices, kernel=ruler.kernel, per_slice=True)
        return ruler.weights @ values

    count = x.shape[0]
    without = np.array([discrepancy(*(jnp.delete(z, k, axis=0) for z in (x, s))) for k in range(count)])
    return float(discrepancy(x, s)), float(np.sqrt((count - 1) * without.var()))
