r"""Choosing slices: where do samples and model differ most (labels "eq: maxSKSD", "eq: maxSKSD rg").

maxSKSD-g keeps r at a basis and maximises over g, maxSKSD-rg maximises over both: first in closed form (`starts`),
then, where asked for, by steps of ascent (`ascent`).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError, ScoreLike
from slicestein._directions.ascent import ascend
from slicestein._directions.starts import INITS, Init, Pairs, Samples, starts_g, starts_rg
from slicestein.kernels import RBF, Kernel
from slicestein.rows.arrays import Chains, as_chains
from slicestein.slices import Slices


class SliceFit(NamedTuple):
    """Fitted slices and how they got there.

    ``history`` holds, for every step taken, the V-statistic on the samples that give the gradient (``"fit"``) and
    the U-statistic on those held out (``"held_out"``), in units of their noise and summed over slices.
    """

    slices: Slices
    history: dict[str, Float[Array, " k"]]


def fit_slices(
    x: Any,
    score: ScoreLike,
    *,
    key: Any,
    optimize: Literal["g", "rg"] = "g",
    num_slices: int | None = None,
    init: Init | Slices = "best",
    steps: int = 30,
    learning_rate: float = 0.3,
    batch_size: int | None = None,
    kernel: Kernel = RBF(),
    hold_out: float = 0.3,
) -> SliceFit:
    r"""Find slices that tell samples from a model.

    Parameters
    ----------
    x, score, kernel
        As in `sksd`; x may be chains (chains, draws, D) too. Test on other samples than these.
    key
        Int seed or JAX key.
    optimize
        ``"g"``: r stays a basis (maxSKSD-g). ``"rg"``: both are free (maxSKSD-rg).
    num_slices
        Number of slices M. By default D for ``"g"``; for ``"rg"`` as many as raise the signal-to-noise ratio of
        the sum, and at least eight where there are steps.
    init
        Where to start: ``"basis"`` (g = r), ``"random"``, ``"active"``, ``"moments"``, given slices, or
        ``"best"``: all of these in competition.
    steps
        Number of steps of ascent; 0 returns the starts.
    learning_rate
        First angle of a step, in radians.
    batch_size
        Samples drawn for each gradient; all by default.
    hold_out
        Share of the samples that decides whether a step is taken and which start is best: random ones, or the end of
        every chain. With 0 every step is taken, the angle shrinks with time, and noise is fitted too, as in the paper.

    Notes
    -----
    Cost: per step O(N D M), plus the starts. The starts run in NumPy; steps are compiled by JAX.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein import fit_slices
    >>> x = np.random.default_rng(0).standard_normal((300, 20))
    >>> x[:, 3] *= 0.5
    >>> slices = fit_slices(x, -x, key=0, optimize="rg", num_slices=1).slices
    >>> int(abs(slices.r[0]).argmax()), int(abs(slices.g[0]).argmax())
    (3, 3)
    """
    _checks.one_of("optimize", optimize, ("g", "rg"))
    data = as_chains(x, score)
    if num_slices is not None and (num_slices < 1 or (optimize == "g" and num_slices != data.dim)):
        raise InputError(f'num_slices must be positive, and D = {data.dim} for optimize="g", got {num_slices}')
    if not 0 <= hold_out < 1:
        raise InputError(f"hold_out must be at least 0 and less than 1, got {hold_out}")
    if isinstance(init, Slices):
        _checks.slices_fit(init, score_dim=data.dim, input_dim=data.dim)
    else:
        _checks.one_of("init", init, INITS)
    _checks.kernel(kernel, 1 if optimize == "rg" else num_slices or data.dim)
    _checks.columns_vary(data.flat[0])
    _checks.in_range(x=data.flat[0], score=data.flat[1])
    rng = _checks.as_generator(key)
    start, fit, judge = choose(data, rng, optimize, num_slices, init, kernel, hold_out, climbing=steps > 0)
    if steps < 1:
        return SliceFit(Slices(*start), {})
    slices, taken, history = ascend(
        Slices(*start),
        tuple(map(jnp.asarray, fit)),
        tuple(map(jnp.asarray, judge)),
        jax.random.key(rng.integers(2**32)),
        kernel,
        learning_rate,
        steps=steps,
        batch_size=batch_size,
        move_r=optimize == "rg",
        gated=judge is not fit,
    )
    return SliceFit(slices, {name: values[:taken] for name, values in history.items()})


def choose(
    data: Chains,
    rng: np.random.Generator,
    optimize: Literal["g", "rg"],
    num_slices: int | None,
    init: Init | Slices,
    kernel: Kernel,
    hold_out: float = 0.3,
    *,
    climbing: bool = False,
) -> tuple[Pairs, Samples, Samples]:
    """Slices to start from, the samples to fit on and the samples held out (the same if none are)."""
    fit, judge = _hold_out(data, rng, hold_out)
    if isinstance(init, Slices):
        start = Pairs(*(np.asarray(rows, fit.x.dtype) for rows in (init.r, init.g)))
    elif optimize == "g":
        start = starts_g(init, fit, judge, rng, kernel)
    else:
        start = starts_rg(init, fit, judge, rng, num_slices, kernel, climbing=climbing)
    return start, fit, judge


def _hold_out(data: Chains, rng: np.random.Generator, share: float) -> tuple[Samples, Samples]:
    chains, draws, _ = data.x.shape
    if not data.ordered:
        rows = rng.permutation(draws)
        data = Chains(data.x[:, rows], data.s[:, rows], data.ordered)
    cut = draws - round(share * draws)
    if chains * cut < 2 or 0 < chains * (draws - cut) < 2:
        raise InputError(f"x holds too few samples to hold some out: {data.num_samples} with hold_out = {share}")
    fit = Samples(*data.part(slice(cut)).flat)
    return fit, Samples(*data.part(slice(cut, None)).flat) if cut < draws else fit
