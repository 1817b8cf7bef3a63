r"""Goodness of fit: do these samples come from this model (label "alg: GOF Test").

Part of the samples chooses coordinates and slices, the rest is tested: the U-statistic against draws from its null
distribution. The verdict comes with its reasons: the slices, and through them the coordinates, that carry the
discrepancy.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._directions.fitting import Init, Samples, fit_slices, inverse_noise
from slicestein._directions.whitening import Whitening, whiten
from slicestein._stein.operator import Projected
from slicestein._stein.sliced import problem as sliced_problem
from slicestein.discrepancy import check_kernel
from slicestein.gof import dependence, null
from slicestein.gof.components import Component, Covariance, Shift, Slicewise
from slicestein.gof.outcomes import KINDS, outcomes
from slicestein.gof.result import GofResult
from slicestein.kernels import RBF, Kernel
from slicestein.slices import Slices

Bootstrap = Literal["auto", "wild", "multinomial", "dependent", "eigenvalues"]
SLICED = ("maxsksd-g", "maxsksd-rg")

# Functions of `baselines`, which is imported when one of them is asked for.
BASELINES = {
    "ksd": "ksd_test",
    "linear-ksd": "linear_ksd_test",
    "fssd-rand": "fssd_rand_test",
    "fssd-opt": "fssd_opt_test",
    "rfsd-l1imq": "rfsd_l1imq_test",
    "rfsd-l2sech": "rfsd_l2sech_test",
    "rff-gaussian": "rff_gaussian_test",
    "rff-cauchy": "rff_cauchy_test",
    "mmd": "mmd_test",
}


def gof_test(
    x: Any,
    score: ScoreLike,
    *,
    key: Any,
    method: str = "auto",
    alpha: float = 0.05,
    num_bootstrap: int = 1000,
    train_fraction: float = 0.2,
    train: tuple[Any, ScoreLike] | None = None,
    kernel: Kernel = RBF(),
    bootstrap: Bootstrap = "auto",
    slices: Slices | None = None,
    init: Init = "best",
    steps: int = 0,
    num_slices: int | None = None,
    standardize: bool = True,
    omnibus: bool = True,
    model_samples: Any = None,
    names: Sequence[str] | None = None,
) -> GofResult:
    r"""Test whether samples come from a model that is known through its score.

    Parameters
    ----------
    x
        Independent samples (N, D), or draws of Markov chains (chains, draws, D).
    score
        $\nabla \log p$ at the samples, in the shape of x, or a function (N, D) -> (N, D).
    key
        Int seed or JAX key.
    method
        ``"maxsksd-g"`` or ``"maxsksd-rg"``; ``"auto"`` is ``"maxsksd-rg"``, which has the most power over our
        benchmarks. To compare with: ``"ksd"``, ``"linear-ksd"``, ``"fssd-rand"``, ``"fssd-opt"``,
        ``"rfsd-l1imq"``, ``"rfsd-l2sech"``, ``"rff-gaussian"``, ``"rff-cauchy"`` and ``"mmd"``, as published (the
        arguments from ``slices`` to ``omnibus`` do not apply).
    alpha
        Level of the test.
    num_bootstrap
        Number of draws B from the null; p-values are multiples of 1 / (B + 1).
    train_fraction
        Share of the samples that chooses coordinates and slices. Of a chain it is the first part.
    train
        Other samples, and their scores or a score function, to choose on; then all of x is tested.
    kernel
        Kernel on each slice.
    bootstrap
        ``"wild"`` (signs) or ``"multinomial"`` for independent samples, ``"dependent"`` for chains,
        ``"eigenvalues"`` for the asymptotic null; ``"auto"`` is dependent for chains and wild otherwise.
    slices
        Test along these (in the coordinates of x, nothing is fitted) instead of choosing slices.
    init, steps, num_slices
        Passed to `fit_slices`.
    standardize
        Whiten on the training part, so that the units and the correlations of the parameters do not matter.
    omnibus
        For ``"maxsksd-rg"``: besides the fitted slices test all coordinates, the mean and the covariance (see
        `components`). The statistic is then the largest of the four, each in standard deviations of its null.
    model_samples
        Draws of the model (K, D), which ``"mmd"`` needs and the ``rf`` methods can use.
    names
        Names of the D coordinates, for reports.

    Notes
    -----
    Validity: for any choice made on the training part, the p-value is asymptotically uniform if the samples are
    from the model (and independent, or from chains that mix within their length).

    Cost: O(N^2 (M J + B)) up to 4096 tested samples, O(N (M J + D^2) B) beyond, J about 20, as matrix products.
    Every stage is one compiled program; the first call with new shapes waits for their compilation.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein import gof_test
    >>> x = np.random.default_rng(0).standard_normal((1000, 30))
    >>> gof_test(x, -x, key=0).reject
    False
    >>> x[:, 7] *= 1.3
    >>> result = gof_test(x, -x, key=0)
    >>> result.reject, result.worst()[0][0]
    (True, 'x[7]')
    """
    dependent = np.ndim(x) == 3
    chains = np.shape(x)[0] if dependent else 1
    x, score = _flatten_chains(x, score) if dependent else (x, score)
    x, s = _checks.samples_and_score(x, score)
    method = "maxsksd-rg" if method == "auto" else method
    bootstrap = ("dependent" if dependent else "wild") if bootstrap == "auto" else bootstrap
    _check_options(method, alpha, num_bootstrap, train_fraction, bootstrap, names, x.shape[1])
    if bootstrap != "dependent":
        _warn_of_dependence(x)
    split_key, fit_key, null_key = _three(_checks.as_key(key))
    fitted = method == "fssd-opt" or (method in SLICED and slices is None)
    if train is None:
        (x_train, s_train), (x, s) = _split(split_key, x, s, train_fraction if fitted else 0.0, chains, dependent)
    else:
        x_train, s_train = (z.astype(x.dtype) for z in _checks.samples_and_score(*train))
    common: dict[str, Any] = {
        "alpha": alpha,
        "method": method,
        "num_train": x_train.shape[0] if fitted else 0,
        "num_test": x.shape[0],
        "names": None if names is None else tuple(names),
        "bootstrap": bootstrap,
    }
    if method in BASELINES:
        outcome = _baseline_outcome(
            method, x, s, (x_train, s_train), score, model_samples, kernel, bootstrap, null_key, num_bootstrap, chains
        )
        return GofResult(*_plain(outcome), **common)

    parts: dict[str, Component] = {}
    coordinates = None
    if slices is not None:
        parts["slices"] = _slicewise(x, s, slices, kernel)
    else:
        _checks.columns_vary(x_train)
        if standardize:
            coordinates, (x_train, s_train), (x, s) = _whitened((x_train, s_train), (x, s))
        fit = fit_slices(
            x_train,
            s_train,
            key=fit_key,
            optimize="g" if method == "maxsksd-g" else "rg",
            num_slices=num_slices,
            init=init,
            steps=steps,
            kernel=kernel,
            shuffle=not dependent,
        )
        parts["fitted slices"] = _slicewise(x, s, fit.slices, kernel, (x_train, s_train))
        if method == "maxsksd-rg" and omnibus:
            parts["coordinates"] = _slicewise(x, s, Slices.basis(x.shape[1]), kernel, (x_train, s_train))
            parts |= {"shift": Shift(s), "covariance": Covariance(_around_mean(x, x_train), s)}
    found = outcomes(list(parts.values()), bootstrap, null_key, num_bootstrap, chains, x)
    outcome, values = null.largest(found) if len(found) > 1 else (found[0], np.zeros(1))
    shares, slice_values = _reasons(list(parts.values()))
    share = np.asarray(shares[int(np.argmax(values))])
    sliced = [part.slices for part in parts.values() if isinstance(part, Slicewise)]
    r, g, per_slice = _tested_slices(sliced, slice_values)
    if coordinates is not None:
        r, g = r @ np.asarray(coordinates.inverse).T, g @ np.asarray(coordinates.forward)
    return GofResult(
        *_plain(outcome),
        **common,
        slices=Slices(r, g),
        per_slice=per_slice,
        per_dimension=share / max(share.sum(), np.finfo(share.dtype).tiny),
        components=dict(zip(parts, values.tolist(), strict=True)) if len(parts) > 1 else None,
    )


def _tested_slices(slices: list[Slices], values: list[Array]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions and values of the fitted slices, then of the coordinates that are not among them."""
    r, g, value = np.asarray(slices[0].r), np.asarray(slices[0].g), np.asarray(values[0])
    if len(slices) == 1:
        return r, g, value
    new = ~(np.minimum(np.abs(r), np.abs(g)) > 0.9999).any(0)
    more = (np.asarray(z)[new] for z in (slices[1].r, slices[1].g, values[1]))
    r, g, value = (np.concatenate(pair) for pair in zip((r, g, value), more, strict=True))
    return r, g, value


@eqx.filter_jit
def _reasons(parts: list[Component]) -> tuple[list[Array], list[Array]]:
    """What every coordinate adds to each part, and what every slice adds to the parts that have slices."""
    return [part.by_coordinate() for part in parts], [p.per_slice() for p in parts if isinstance(p, Slicewise)]


def _plain(outcome: null.Outcome) -> tuple[float, float, np.ndarray]:
    return float(outcome.statistic), float(outcome.pvalue), np.asarray(outcome.null_distribution)


def _check_options(
    method: str, alpha: float, num_bootstrap: int, train_fraction: float, bootstrap: str, names: Any, dim: int
) -> None:
    _checks.one_of("method", method, ("auto", *SLICED, *BASELINES))
    _checks.one_of("bootstrap", bootstrap, ("auto", "wild", "multinomial", "dependent", "eigenvalues"))
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1, got {alpha}")
    if num_bootstrap < 1 / alpha - 1:
        raise InputError(
            f"num_bootstrap = {num_bootstrap} cannot reach level {alpha}: use at least {1 / alpha - 1:.0f}"
        )
    if not 0 < train_fraction < 1:
        raise InputError(f"train_fraction must lie between 0 and 1, got {train_fraction}")
    if names is not None and len(names) != dim:
        raise InputError(f"names must hold {dim} names, one per column of x, got {len(names)}")


def _flatten_chains(x: Any, score: ScoreLike) -> tuple[Any, Any]:
    """Chains one after the other."""
    flat = np.reshape(x, (-1, np.shape(x)[-1])) if not isinstance(x, jax.Array) else x.reshape(-1, x.shape[-1])
    if callable(score):
        return flat, score
    if np.shape(score) != np.shape(x):
        raise InputError(f"score must have the shape of x, {np.shape(x)}, got {np.shape(score)}")
    return flat, jnp.reshape(jnp.asarray(score), flat.shape)


@jax.jit
def _three(key: Array) -> tuple[Array, Array, Array]:
    return tuple(jax.random.split(key, 3))


@functools.partial(jax.jit, static_argnames=("fraction", "chains", "dependent"))
def _split(key: Array, x: Array, s: Array, fraction: float, chains: int, dependent: bool) -> tuple[Samples, Samples]:
    """Samples to train on and samples to test: at random, or the first part of every chain."""
    count = x.shape[0]
    rows = jnp.arange(count).reshape(chains, -1)
    if fraction and not dependent:
        rows = jax.random.permutation(key, rows, axis=1)
    cut = round(fraction * rows.shape[1])
    if fraction and min(cut * chains, (rows.shape[1] - cut) * chains) < 5:
        raise InputError(f"x holds too few samples to split: {count} with train_fraction = {fraction}")
    train, test = rows[:, :cut].ravel(), rows[:, cut:].ravel()
    return (x[train], s[train]), (x[test], s[test])


@jax.jit
def _whitened(train: Samples, test: Samples) -> tuple[Whitening, Samples, Samples]:
    coordinates = whiten(*train)
    return coordinates, coordinates(*train), coordinates(*test)


@jax.jit
def _around_mean(x: Float[Array, "n d"], other: Float[Array, "k d"]) -> Float[Array, "n d"]:
    return x - other.mean(0)


def _warn_of_dependence(x: Float[Array, "n d"]) -> None:
    times = np.asarray(dependence.times_with_squares(x))
    if times.mean() > 2 or times.max() > 10:
        warnings.warn(
            f"the samples look serially correlated (autocorrelation time up to {times.max():.0f}): the test will "
            "reject too often. Pass Markov chains as an array (chains, draws, D), or thin them",
            stacklevel=3,
        )


def _baseline_outcome(
    method: str,
    x: Array,
    s: Array,
    train: tuple[Array, Array],
    score: ScoreLike,
    model_samples: Any,
    kernel: Kernel,
    bootstrap: str,
    key: Array,
    num_draws: int,
    chains: int,
) -> null.Outcome:
    options: dict[str, Any] = {}
    if method in ("ksd", "mmd"):
        options = {"kernel": kernel, "kind": KINDS[bootstrap]}
    if method == "ksd" and bootstrap == "dependent":
        options |= {"num_chains": chains, "flip_probability": dependence.flip_probability(x, chains)}
    elif bootstrap == "dependent":
        raise InputError(f"{method} has no null for dependent samples: use a maxsksd method, ksd, or thinned draws")
    if method == "linear-ksd":
        options = {"kernel": kernel}
    if method == "fssd-opt":
        options = {"train": train}
    if method == "mmd":
        if model_samples is None:
            raise InputError("mmd compares two samples: pass model_samples, draws of the model")
        options |= {"model_samples": _checks.as_matrix("model_samples", model_samples)[: len(x)].astype(x.dtype)}
    if method.startswith("rf") and model_samples is not None:
        draws = _checks.as_matrix("model_samples", model_samples).astype(x.dtype)
        if not callable(score):
            raise InputError(f"{method} evaluates the score at model_samples: pass score as a function")
        options = {"model_samples": (draws, jnp.asarray(score(draws), x.dtype))}
    test = getattr(import_module("slicestein.gof.baselines"), BASELINES[method])
    return test(x, s, key=key, num_draws=num_draws, **options)


def _slicewise(x: Array, s: Array, slices: Slices, kernel: Kernel, train: Samples | None = None) -> Slicewise:
    """Slices with weights from the training samples, or all alike."""
    check_kernel(kernel, slices.num)
    _checks.slices_fit(slices, score_dim=x.shape[1], input_dim=x.shape[1])
    data, weights, *widths = _project(x, s, slices, kernel, train)
    for found in widths:
        _checks.spread(found)
    return Slicewise(data, weights, slices, kernel)


@jax.jit
def _project(
    x: Array, s: Array, slices: Slices, kernel: Kernel, train: Samples | None
) -> tuple[Projected, Array, Array, Array]:
    """Projections, weights of the slices, and the bandwidths on both kinds of samples."""
    problem = sliced_problem(x, s, slices.r, slices.g, kernel)
    data = problem.projected
    if train is None:
        return data, jnp.ones(slices.num, x.dtype), problem.bandwidths, problem.bandwidths
    other = sliced_problem(*train, slices.r, slices.g, kernel)
    return data, inverse_noise(other, kernel), problem.bandwidths, other.bandwidths
