"""``slicestein test --stan``: draws and gradients from the diagnostic files of CmdStan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slicestein._checks import InputError
from slicestein._cli.inputs import Data
from slicestein.adapters.check import notes_of
from slicestein.adapters.cmdstan import read_run

OTHERWISE = "; diagnostic files of CmdStan hold it, and go with --stan"


def check_alone(**others: Any) -> None:
    """Require that nothing is given that the files say themselves."""
    if given := [f"--{name.replace('_', '-')}" for name, value in others.items() if value is not None]:
        raise InputError(f"--stan files hold chains and gradients: leave {' and '.join(given)} out")


def read(files: Sequence[Path]) -> tuple[Data, tuple[str, ...]]:
    """Draws with their scores, and what the sampler has said of its run."""
    run = read_run(files)
    return Data(*run.draws), tuple(notes_of(run))
