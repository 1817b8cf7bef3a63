"""The door of the goodness-of-fit tests: arguments are checked here, then a method tests."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein.gof import mistakes
from slicestein.gof.method import Method, Problem
from slicestein.gof.methods import as_method
from slicestein.gof.result import GofResult
from slicestein.rows.opening import as_source
from slicestein.rows.source import Source


def gof_test(
    x: Any,
    score: ScoreLike | None = None,
    *,
    key: Any,
    method: str | Method = "auto",
    alpha: float = 0.05,
    num_bootstrap: int = 1000,
    train_fraction: float = 0.2,
    names: Sequence[str] | None = None,
) -> GofResult:
    r"""Test whether samples come from a model that is known through its score.

    Parameters
    ----------
    x
        Independent samples (N, D), or draws of Markov chains (chains, draws, D); what an adapter returned, with score
        and names inside; or a source of rows that need not fit into memory, from `slicestein.rows.open`.
    score
        $\nabla \log p$ at the samples, in the shape of x, or a function (N, D) -> (N, D).
    key
        Int seed or JAX key.
    method
        An object of `slicestein.gof` with its options, such as ``MaxSKSD(steps=30)`` or ``MMD(model_samples)``, or a
        string: ``"maxsksd-g"`` or ``"maxsksd-rg"``; ``"auto"`` is ``"maxsksd-rg"``, which has the most power over our
        benchmarks. To compare with, as published: ``"maxsksd-g-published"``, ``"maxsksd-rg-published"``, ``"ksd"``,
        ``"linear-ksd"``, ``"ksdagg"``, ``"fssd-rand"``, ``"fssd-opt"``, ``"rfsd-l1imq"``, ``"rfsd-l2sech"``,
        ``"rff-gaussian"``, ``"rff-cauchy"``.
    alpha
        Level of the test.
    num_bootstrap
        Number of draws B from the null; p-values are multiples of 1 / (B + 1).
    train_fraction
        Share of the samples that chooses coordinates and slices. Of a chain it is the first part. Methods that choose
        nothing test all samples.
    names
        Names of the D coordinates, for reports.

    Notes
    -----
    Validity: for any choice made on the training part, the p-value is asymptotically uniform if the samples are
    from the model (and independent, or from chains that mix within their length).

    Some rows are looked at to choose: the training part, 65,536 of it at most, and the beginning of every chain (16,384
    draws), for how long it remembers. R-hat and the effective sample size are those of as many draws, spread over all.
    Then every row is read once. Rows from files and arrays in memory give the same numbers.

    Cost: O(N (M J + M D)) for M slices and J about 15 frequencies, and O(M J B) for the null, whatever N is; memory
    beyond the inputs is bounded, some 300 MB at D = 50. Runs in NumPy and compiled kernels, in the precision of x:
    nothing waits for JAX to compile, and nothing is traced, so the test cannot be used under ``jit``.

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
    chosen = as_method(method)
    of_adapter = score is None and isinstance(x, tuple) and hasattr(x, "score")
    if score is None and not chosen.needs_score and not of_adapter:
        score = np.zeros_like
    if score is None and not isinstance(x, Source):
        x, score, found = _checks.unpack(x)
        names = found if names is None else names
    _check_options(alpha, num_bootstrap, train_fraction)
    score, names = _by_column(x, score, names)
    with _checks.naming(names):
        rows = as_source(x, score)
    names = rows.names if names is None else names
    if isinstance(names, str):
        raise InputError(f"names must be a list of names, one per column of x, got the string {names!r}")
    if names is not None and len(names) != rows.dim:
        raise InputError(f"names must hold {rows.dim} names, one per column of x, got {len(names)}")
    mistakes.chains_differ(rows)
    problem = Problem(
        rows,
        score if callable(score) else rows.score_fn,
        _checks.as_generator(key),
        float(alpha),
        num_bootstrap,
        train_fraction,
        None if names is None else tuple(map(str, names)),
        notes=mistakes.order_of_axes(rows),
    )
    try:
        # What is not finite in the end is refused.
        with np.errstate(over="ignore", invalid="ignore"), _checks.naming(names):
            result = chosen.test(problem)
            if not result.reject or not chosen.needs_score:
                return result
            # Draws of an adapter are unconstrained.
            doubts = (mistakes.sign_of_score(rows, names), "" if of_adapter else mistakes.bounds(rows, names))
            return dataclasses.replace(result, notes=(*filter(None, doubts), *result.notes))
    except np.linalg.LinAlgError:
        raise InputError(
            "x or score has values so large or so far out that their covariance cannot be factorised: drop those "
            "samples, mend the sampler, or change the units, x * c with score / c"
        ) from None


def _by_column(x: Any, score: Any, names: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Scores in the order of the columns of x, and the names of these, where both are tables of pandas or the like."""
    columns = getattr(x, "columns", None)
    if columns is None or np.ndim(x) != 2:
        return score, names
    _checks.are_parameters("x", columns)
    return _checks.by_column(x, score), list(map(str, columns)) if names is None else names


def _check_options(alpha: float, num_bootstrap: int, train_fraction: float) -> None:
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1, got {alpha}")
    if num_bootstrap < (least := least_draws(alpha)):
        raise InputError(f"num_bootstrap = {num_bootstrap} cannot reach level {alpha}: use at least {least}")
    if not 0 < train_fraction < 1:
        raise InputError(f"train_fraction must lie between 0 and 1, got {train_fraction}")


def least_draws(alpha: float) -> int:
    """The smallest number of bootstrap draws with which a p-value can be as small as alpha."""
    return math.ceil(1 / alpha - 1 - 1e-9)
