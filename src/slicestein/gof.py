r"""Goodness of fit: do these samples come from this model (label "alg: GOF Test").

Part of the samples chooses coordinates and slices, the rest is tested: the U-statistic against draws from its null
distribution. The verdict comes with its reasons: the slices, and through them the coordinates, that carry the
discrepancy.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks, baselines, exact, fourier, null
from slicestein._checks import ScoreLike
from slicestein.discrepancy import Problem, prepare, sksd
from slicestein.fit_slices import Init, fit_slices, slice_weights
from slicestein.kernels import RBF, Kernel
from slicestein.result import GofResult
from slicestein.slices import Slices
from slicestein.stein import Projected, diagonal_mean
from slicestein.whitening import whiten

Bootstrap = Literal["auto", "wild", "multinomial", "dependent", "eigenvalues"]
SLICED = ("maxsksd-g", "maxsksd-rg")

BASELINES: dict[str, Callable[..., null.Outcome]] = {
    "ksd": baselines.ksd_test,
    "linear-ksd": baselines.linear_ksd_test,
    "fssd-rand": baselines.fssd_rand_test,
    "fssd-opt": baselines.fssd_opt_test,
    "rfsd-l1imq": baselines.rfsd_l1imq_test,
    "rfsd-l2sech": baselines.rfsd_l2sech_test,
    "rff-gaussian": baselines.rff_gaussian_test,
    "rff-cauchy": baselines.rff_cauchy_test,
    "mmd": baselines.mmd_test,
}
KINDS = {"wild": "rademacher"}  # names of the bootstraps in `null`

# Up to here the (N, N) matrix of the Stein kernel is built (128 MB); beyond, draws are linear in N.
MATRIX_SAMPLES = 4096


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
        arguments from ``slices`` to ``standardize`` do not apply).
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
    model_samples
        Draws of the model (K, D), which ``"mmd"`` needs and the ``rf`` methods can use.
    names
        Names of the D coordinates, for reports.

    Notes
    -----
    Validity: for any choice made on the training part, the p-value is asymptotically uniform if the samples are
    from the model (and independent, or from chains that mix within their length).

    Cost: O(N^2 (M + B)) up to 4096 tested samples, O(N M J B) beyond with RBF, J about 20.

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
    split_key, fit_key, null_key = jax.random.split(_checks.as_key(key), 3)
    fitted = method == "fssd-opt" or (method in SLICED and slices is None)
    if train is None:
        rows, test = _split(split_key, x.shape[0], train_fraction if fitted else 0.0, chains, dependent)
        x_train, s_train, x, s = x[rows], s[rows], x[test], s[test]
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

    coordinates, weights = None, jnp.ones((), x.dtype)
    if slices is None:
        if standardize:
            coordinates = whiten(x_train, s_train)
            (x_train, s_train), (x, s) = coordinates(x_train, s_train), coordinates(x, s)
        slices = fit_slices(
            x_train,
            s_train,
            key=fit_key,
            optimize="g" if method == "maxsksd-g" else "rg",
            num_slices=num_slices,
            init=init,
            steps=steps,
            kernel=kernel,
            shuffle=not dependent,
        ).slices
        weights = slice_weights(slices, x_train, s_train, kernel)
    outcome = _sliced_outcome(x, s, slices, weights, kernel, bootstrap, null_key, num_bootstrap, chains)
    per_slice = np.asarray(weights * sksd(x, s, slices, kernel=kernel, per_slice=True))
    share = np.asarray(jnp.maximum(per_slice, 0) @ (slices.r**2 + slices.g**2)) / 2
    if coordinates is not None:
        slices = Slices(slices.r @ coordinates.inverse.T, slices.g @ coordinates.forward)
    share = share / max(share.sum(), np.finfo(share.dtype).tiny)
    return GofResult(*_plain(outcome), **common, slices=slices, per_slice=per_slice, per_dimension=share)


def _plain(outcome: null.Outcome) -> tuple[float, float, np.ndarray]:
    return float(outcome.statistic), float(outcome.pvalue), np.asarray(outcome.null_distribution)


def _check_options(
    method: str, alpha: float, num_bootstrap: int, train_fraction: float, bootstrap: str, names: Any, dim: int
) -> None:
    _checks.one_of("method", method, ("auto", *SLICED, *BASELINES))
    _checks.one_of("bootstrap", bootstrap, ("auto", "wild", "multinomial", "dependent", "eigenvalues"))
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    if num_bootstrap < 1 / alpha - 1:
        raise ValueError(
            f"num_bootstrap = {num_bootstrap} cannot reach level {alpha}: use at least {1 / alpha - 1:.0f}"
        )
    if not 0 < train_fraction < 1:
        raise ValueError(f"train_fraction must lie between 0 and 1, got {train_fraction}")
    if names is not None and len(names) != dim:
        raise ValueError(f"names must hold {dim} names, one per column of x, got {len(names)}")


def _flatten_chains(x: Any, score: ScoreLike) -> tuple[Any, Any]:
    """Chains one after the other."""
    flat = np.reshape(x, (-1, np.shape(x)[-1])) if not isinstance(x, jax.Array) else x.reshape(-1, x.shape[-1])
    if callable(score):
        return flat, score
    if np.shape(score) != np.shape(x):
        raise ValueError(f"score must have the shape of x, {np.shape(x)}, got {np.shape(score)}")
    return flat, jnp.reshape(jnp.asarray(score), flat.shape)


def _split(key: Array, count: int, fraction: float, chains: int, dependent: bool) -> tuple[Array, Array]:
    """Rows to train on and rows to test: at random, or the first part of every chain."""
    rows = jnp.arange(count).reshape(chains, -1)
    if fraction and not dependent:
        rows = jax.random.permutation(key, rows, axis=1)
    cut = round(fraction * rows.shape[1])
    if fraction and min(cut * chains, (rows.shape[1] - cut) * chains) < 5:
        raise ValueError(f"x holds too few samples to split: {count} with train_fraction = {fraction}")
    train, test = rows[:, :cut].ravel(), rows[:, cut:].ravel()
    return train, test


def _warn_of_dependence(x: Float[Array, "n d"]) -> None:
    times = np.asarray(null.autocorrelation_times(x))
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
        options = {"kernel": kernel, "kind": KINDS.get(bootstrap, bootstrap)}
    if method == "ksd" and bootstrap == "dependent":
        options |= {"num_chains": chains, "flip_probability": null.flip_probability(x, chains)}
    elif bootstrap == "dependent":
        raise ValueError(f"{method} has no null for dependent samples: use a maxsksd method, ksd, or thinned draws")
    if method == "linear-ksd":
        options = {"kernel": kernel}
    if method == "fssd-opt":
        options = {"train": train}
    if method == "mmd":
        if model_samples is None:
            raise ValueError("mmd compares two samples: pass model_samples, draws of the model")
        options |= {"model_samples": _checks.as_matrix("model_samples", model_samples)[: len(x)].astype(x.dtype)}
    if method.startswith("rf") and model_samples is not None:
        draws = _checks.as_matrix("model_samples", model_samples).astype(x.dtype)
        if not callable(score):
            raise ValueError(f"{method} evaluates the score at model_samples: pass score as a function")
        options = {"model_samples": (draws, jnp.asarray(score(draws), x.dtype))}
    return BASELINES[method](x, s, key=key, num_draws=num_draws, **options)


def _sliced_outcome(
    x: Array,
    s: Array,
    slices: Slices,
    weights: Array,
    kernel: Kernel,
    bootstrap: str,
    key: Array,
    num_draws: int,
    chains: int,
) -> null.Outcome:
    problem = prepare(x, s, slices, kernel, None)
    flip = null.flip_probability(x, chains) if bootstrap == "dependent" else None
    kind: Any = KINDS.get(bootstrap, bootstrap)
    if problem.num_samples <= MATRIX_SAMPLES or kernel.spectrum is None or bootstrap == "eigenvalues":
        h = _matrix(problem, weights, kernel)
        if bootstrap == "eigenvalues":
            statistic = (h.sum() - jnp.trace(h)) / (h.shape[0] * (h.shape[0] - 1))
            draws = null.eigenvalue_null(h, key, num_draws)
            return null.Outcome(statistic, draws, null.pvalue(statistic, draws))
        return null.bootstrap_test(h, key=key, kind=kind, num_draws=num_draws, num_chains=chains, flip_probability=flip)
    return _linear_outcome(problem, weights, kernel, key, flip, kind=kind, num_draws=num_draws, num_chains=chains)


@jax.jit
def _matrix(problem: Problem, weights: Array, kernel: Kernel) -> Float[Array, "n n"]:
    return exact.matrix(_weighted(problem, weights), kernel)


def _weighted(problem: Problem, weights: Array) -> Projected:
    """Projections scaled so that the Stein kernel of each slice is multiplied by its weight."""
    u, a, c = problem.project(*problem.per_slice())
    root = jnp.sqrt(weights)[..., None]
    return Projected(u, root * a, root * c)


@functools.partial(jax.jit, static_argnames=("kind", "num_draws", "num_chains"))
def _linear_outcome(
    problem: Problem,
    weights: Array,
    kernel: Kernel,
    key: Array,
    flip: Any,
    *,
    kind: Any,
    num_draws: int,
    num_chains: int,
) -> null.Outcome:
    """A quadratic form in weights is the V-statistic with scores and Jacobian terms times the weights."""
    data = _weighted(problem, weights)
    count = problem.num_samples
    form = null.FORMS[kind]
    diagonal = data.a**2 + data.c**2 if form == "u" else None
    c = jnp.broadcast_to(data.c, data.u.shape)

    def draw(key: Array) -> Array:
        w = null.bootstrap_weights(
            kind, key, 1, count, num_chains=num_chains, flip_probability=flip, dtype=data.u.dtype
        )[0]
        value = count**2 * fourier.v_statistic(data.u, w * data.a, w * c, kernel.unit).sum()
        return value if diagonal is None else value - jnp.sum(diagonal.sum(0) * w**2)

    draws = lax.map(draw, jax.random.split(key, num_draws))
    statistic = fourier.v_statistic(*data, kernel.unit).sum()
    if form == "u":
        statistic = (count * statistic - diagonal_mean(kernel, data).sum()) / (count - 1)
    return null.Outcome(statistic, draws, null.pvalue(statistic, draws))
