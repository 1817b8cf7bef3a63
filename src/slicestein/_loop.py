"""The loop around compiled blocks of steps that particles and training share, with a progress bar."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import lax

from slicestein._checks import InputError

# Programs that are kept for further runs, with the functions that they were made from.
PROGRAMS = 16


def kept(make_program: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the programs that were made last: a run with the same functions and shapes compiles nothing.

    Arguments that cannot be hashed make a new program every time.
    """
    remembered = functools.lru_cache(PROGRAMS)(make_program)

    @functools.wraps(make_program)
    def make(*arguments: Any) -> Any:
        try:
            hash(arguments)
        except TypeError:
            return make_program(*arguments)
        return remembered(*arguments)

    return make


def scan(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, steps: Any) -> tuple[Any, Any]:
    """``lax.scan`` of a state that may hold more than arrays, such as the functions in a network of Equinox."""
    arrays, rest = eqx.partition(state, eqx.is_array)

    def one(arrays: Any, i: Any) -> tuple[Any, Any]:
        state, info = step(eqx.combine(arrays, rest), i)
        return eqx.filter(state, eqx.is_array), info

    arrays, infos = lax.scan(one, arrays, steps)
    return eqx.combine(arrays, rest), infos


def in_blocks(
    block: Callable[[Any, Any], tuple[Any, Any]],
    state: Any,
    num_steps: int,
    *,
    every: int,
    name: str,
    progress: bool,
    ends: Callable[[Any, Any, range], bool | None],
) -> tuple[Any, Any]:
    """Take steps in blocks until all are done or ``ends`` says so.

    Parameters
    ----------
    block
        ``block(state, steps) -> (state, info)`` for an array of step numbers; info has a leading axis of steps.
    ends
        Called with the state, the info of a block (NumPy) and its steps; may raise.

    Returns
    -------
    tuple
        The last state, and the info of all steps.
    """
    if num_steps < 1 or every < 1:
        raise InputError(f"num_steps and every must be at least 1, got {num_steps} and {every}")
    infos = []
    with ProgressBar(name, num_steps, wanted=progress) as advance:
        for start in range(0, num_steps, every):
            steps = range(start, min(start + every, num_steps))
            state, info = block(state, np.arange(steps.start, steps.stop, dtype=np.int32))
            infos.append(jax.tree.map(np.asarray, info))
            advance(len(steps))
            if ends(state, infos[-1], steps):
                break
    return state, jax.tree.map(lambda *parts: np.concatenate(parts), *infos)


class ProgressBar:
    """Context that gives a function to call with the number of steps done: silent without a terminal or rich."""

    def __init__(self, name: str, total: int, *, wanted: bool):
        self.bar: Any = None
        if wanted and sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import Progress
            except ImportError:
                return
            self.bar = Progress(console=Console(stderr=True))
            self.task = self.bar.add_task(name, total=total)

    def __enter__(self) -> Callable[[int], None]:
        if self.bar is None:
            return lambda _: None
        self.bar.start()
        return lambda done: self.bar.advance(self.task, done)

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.stop()
