r"""ArviZ InferenceData or DataTree, with a model that is given as a function.

Draws of a constrained variable x go to the real line, $y = \log x$ or $y = \operatorname{logit} x$, and the score
with them: $s_y = s_x \, dx/dy + (d/dy) \log dx/dy$.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein.adapters.draws import Draws, bound_of, group, scores_of
from slicestein.rows.variables import flatten_posterior
from slicestein.score import score_from


class _Transform(NamedTuple):
    forward: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]  # dx/dy at x
    log_slope: Callable[[np.ndarray], np.ndarray]  # d/dy of its logarithm


TRANSFORMS = {
    "identity": _Transform(lambda x: x, np.ones_like, np.zeros_like),
    "log": _Transform(np.log, lambda x: x, np.ones_like),
    "logit": _Transform(lambda x: np.log(x) - np.log1p(-x), lambda x: x * (1 - x), lambda x: 1 - 2 * x),
}
REMEDY = {"positive": "log", "between 0 and 1": "logit"}


def from_arviz(
    idata: Any,
    *,
    log_density: Callable[[dict[str, Array]], Array] | None = None,
    score: ScoreLike | None = None,
    var_names: Sequence[str] | None = None,
    transforms: Mapping[str, Literal["identity", "log", "logit"]] | None = None,
) -> Draws:
    """Draws and scores from the posterior group of ArviZ data.

    Parameters
    ----------
    idata
        InferenceData (ArviZ below 1.0) or DataTree (from 1.0 on).
    log_density
        JAX function of one draw, a dict of its variables, to the log-density of the posterior up to a constant.
    score
        Instead of log_density: its gradient as an array (chains, draws, D), or as a function (N, D) -> (N, D).
    var_names
        Variables of the density, in this order; by default all of the posterior group.
    transforms
        For variables with bounds: ``"log"`` if positive, ``"logit"`` if between 0 and 1. The density stays that of
        the variable itself: the Jacobian is added here. ``"identity"`` vouches for a variable that has no bounds
        though all its draws are on one side of zero.
    """
    if (log_density is None) == (score is None):
        raise InputError("pass either log_density or score")
    if var_names is not None and len(set(var_names)) < len(var_names):
        raise InputError(f"var_names names a variable twice: {', '.join(var_names)}")
    posterior = group(idata, "posterior")
    x, names = flatten_posterior(posterior, var_names)
    variables = {str(name): _values(posterior, name) for name in var_names or posterior.data_vars}
    for name, values in variables.items():
        if values.dtype.kind in "iu":
            raise InputError(f"variable {name} is discrete: it has no score. Leave it out with var_names")
        if not np.isfinite(values).all():
            chain, draw = np.argwhere(~np.isfinite(values))[0][:2]
            raise InputError(f"variable {name} is not finite in chain {chain + 1}, draw {draw + 1}: mend the draws")
    if log_density is not None:
        score = score_from(_of_vector(log_density, {name: v.shape[2:] for name, v in variables.items()}))
    s = _scores(score, x)  # with respect to the variables themselves
    kinds = _column_kinds(variables, dict(transforms or {}))
    for i, kind in enumerate(kinds):
        if kind == "identity" and not s[..., i].any():
            raise InputError(f"the density does not depend on {names[i]}: name its variables with var_names")
    y = np.empty(x.shape)
    for i, kind in enumerate(kinds):
        transform, column = TRANSFORMS[kind], x[..., i].astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            y[..., i] = transform.forward(column)
        s[..., i] = s[..., i] * transform.slope(column) + transform.log_slope(column)
        if not np.isfinite(y[..., i]).all():
            raise InputError(f"{names[i]} has draws on or beyond its bounds: {kind!r} is not its transform")
    return Draws(y, s, names)


def _values(posterior: Any, name: Any) -> np.ndarray:
    return np.asarray(posterior[name].transpose("chain", "draw", ...))


def _of_vector(log_density: Callable[[dict[str, Array]], Array], shapes: dict[str, tuple[int, ...]]) -> Callable:
    """The log-density as a function of one vector."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])

    def of_vector(vector: Array) -> Array:
        parts = jnp.split(vector, ends[:-1])
        return log_density({n: part.reshape(shape) for part, (n, shape) in zip(parts, shapes.items(), strict=True)})

    return of_vector


def _scores(score: Any, x: np.ndarray) -> np.ndarray:
    if callable(score):
        return scores_of(score, x).astype(float)
    if np.shape(score) != x.shape:
        raise InputError(f"score must have the shape of the draws, {x.shape}, got {np.shape(score)}")
    return np.array(score, float)


def _column_kinds(variables: dict[str, np.ndarray], transforms: dict[str, Any]) -> list[str]:
    """The transform of every column; refuses variables that look constrained and have none."""
    for name, kind in transforms.items():
        if name not in variables:
            raise InputError(f"transforms names {name!r}, which is not among {', '.join(variables)}")
        _checks.one_of(f"transforms[{name!r}]", kind, TRANSFORMS)
    kinds = []
    for name, values in variables.items():
        bound = None if name in transforms else bound_of(values)
        if bound == "a simplex":
            raise InputError(
                f"every draw of {name} sums to one: test the sampler's unconstrained draws instead "
                "(from_pymc, from_nutpie, from_numpyro)"
            )
        if bound is not None:
            raise InputError(
                f"every draw of {name} is {bound}: if the model bounds it, pass transforms={{{name!r}: "
                f'"{REMEDY[bound]}"}}; if not, transforms={{{name!r}: "identity"}}'
            )
        kinds += [transforms.get(name, "identity")] * int(np.prod(values.shape[2:]))
    return kinds
