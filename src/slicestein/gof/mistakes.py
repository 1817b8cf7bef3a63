"""Mistakes of the input that would be taken for those of the sampler: copied chains, exchanged axes, signs, bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicestein._checks import InputError
from slicestein.rows.source import Source, evenly

COMPARED = 16  # draws of every chain: chains that agree in all of them, to the last digit, are copies
LOOKED_AT = 2**12  # rows, for the sign of the score
NEAR = 0.25  # to one: with the wrong sign, two sides are equal
CLEAR = 5.0  # standard errors from zero
NAMED = 3
AT_BOUND = 0.05  # standard deviations from a bound: the density does not fade there


def chains_differ(rows: Source) -> None:
    """Require that no chain is a copy of another: the test would count its draws twice."""
    chains, draws, _ = rows.shape
    if not rows.ordered or chains == 1:
        return
    some = (np.arange(chains)[:, None] * draws + evenly(draws, COMPARED)).ravel()
    seen = rows.samples(some).reshape(chains, -1)
    first: dict[bytes, int] = {}
    for chain, values in enumerate(seen):
        twin = first.setdefault(values.tobytes(), chain)
        if twin != chain:
            raise InputError(
                f"chains {twin + 1} and {chain + 1} of x are the same draws: give every run a seed of its own, or pass "
                "one of the two"
            )


def order_of_axes(rows: Source) -> list[str]:
    """What to say where an array of chains looks as if its first two axes were exchanged."""
    chains, draws, _ = rows.shape
    if not rows.ordered or chains <= draws:
        return []
    return [
        f"x is {chains} chains of {draws} draws each, as an array (chains, draws, D) is read: of an array (draws, "
        "chains, D) pass x.swapaxes(0, 1)"
    ]


def bounds(rows: Source, names: Sequence[str] | None) -> str:
    """What to say where parameters look bounded: Stein's identity needs a density that fades at its bounds."""
    x, _ = rows.gather(evenly(rows.num_samples, LOOKED_AT))
    low = x.min(0)
    bounded = np.flatnonzero((low >= 0) & (low < AT_BOUND * x.std(0))).tolist()
    if not bounded:
        return ""
    return (
        f"all samples of {_listed(bounded, names)} are positive, down to zero: if the model bounds them, test their "
        "logarithms or logits, with the Jacobian in the density"
    )


def _listed(columns: Sequence[int], names: Sequence[str] | None) -> str:
    of = [f"x[{d}]" if names is None else names[d] for d in columns]
    return ", ".join(of[:NAMED]) + (f" and {len(of) - NAMED} more" if len(of) > NAMED else "")


def sign_of_score(rows: Source, names: Sequence[str] | None) -> str:
    r"""What to say where scores have the wrong sign, or nothing.

    For draws of the model $E[s_d f(u_d)] = -E[f'(u_d)]$ in every coordinate, whatever their correlations: here for
    f(u) = u and f(u) = tanh(2 u), with u in standard deviations from the mean. With the wrong sign both sides are
    equal; wrong draws, such as those between two modes of the model, hardly make them so for both functions.
    """
    x, s = (z.astype(float) for z in rows.gather(evenly(rows.num_samples, LOOKED_AT)))
    scale = x.std(0)
    u, s = (x - x.mean(0)) / np.where(scale > 0, scale, 1), s * scale
    bent = np.tanh(2 * u)
    turned = np.full(rows.dim, True)
    for terms, slope in ((s * u, 1.0), (s * bent, 2 * (1 - bent**2).mean(0))):
        found, error = terms.mean(0) / slope, terms.std(0) / np.sqrt(len(terms)) / slope
        turned &= (np.abs(found - 1) < NEAR) & (found > CLEAR * error)
    if not turned.any():
        return ""
    where = "" if turned.all() else f" in {_listed(np.flatnonzero(turned).tolist(), names)}"
    return (
        f"the score looks like the gradient of MINUS the log-density{where}: turn its sign (check_score compares a "
        "score with the log-density)"
    )
