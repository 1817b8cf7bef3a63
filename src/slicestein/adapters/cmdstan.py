"""CmdStan's diagnostic files: unconstrained draws and gradients as the sampler has written them, a file per chain.

The columns are those of the sampler, whose names end in two underscores, then D parameters, their momenta ``p_`` and
their ``g_``. Hamiltonian Monte Carlo goes down the potential V = -log p, and ``g_`` is the gradient of V: the score is
-g.
"""

from __future__ import annotations

import glob
import math
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.adapters.draws import Draws, stan_name
from slicestein.rows.arrays import COARSEST
from slicestein.rows.opening import natural

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

ENOUGH_DRAWS = 100  # that differ, for two of them to be near each other
SETTING = re.compile(r"#\s*(\w+) = (\S+)")  # in the comments above the header: "#     num_warmup = 1000 (Default)"


class Run(NamedTuple):
    """Draws of several chains, and what the sampler has said of its transitions, (chains, draws) by name."""

    draws: Draws
    sample_stats: dict[str, np.ndarray]


class _Chain(NamedTuple):
    columns: tuple[str, ...]
    rows: Float[np.ndarray, "draws columns"]
    settings: dict[str, str]


def from_cmdstan(files: Files | Any) -> Draws:
    """Unconstrained draws and gradients from the diagnostic files of a run.

    Parameters
    ----------
    files
        Paths, one per chain, or a pattern such as ``"diagnostic_*.csv"``. CmdStan writes them with
        ``output diagnostic_file=diagnostic.csv``, CmdStanPy and CmdStanR with ``save_latent_dynamics=True``
        (``fit$latent_dynamics_files()``); the fit of CmdStanPy may be given itself. Not the output files: these hold
        constrained draws, without gradients.

    Notes
    -----
    Warm-up draws, if saved, are left out, and so is a last line that was cut off. Chains that were ended early are as
    long as the shortest, with a warning.

    Names are those in the files. For arrays of several dimensions Stan itself lists them there in another order than
    the values: ``b[1,2]`` may be called ``b[2,1]``.
    """
    return read_run(files).draws


def read_run(files: Files | Any) -> Run:
    """Draws, and which transitions diverged or were cut off."""
    paths = _paths(files)
    chains = [_read_chain(path) for path in paths]
    columns, _, settings = chains[0]
    for path, chain in zip(paths, chains, strict=True):
        if chain.columns != columns:
            raise InputError(f"{path}: has other columns than {paths[0]}: give the chains of one model")
    lengths = [len(chain.rows) for chain in chains]
    if len(set(lengths)) > 1:
        warnings.warn(
            f"the chains have {', '.join(map(str, lengths))} draws: the first {min(lengths)} of each are used",
            stacklevel=3,
        )
    values = np.stack([chain.rows[: min(lengths)] for chain in chains])
    of_sampler = {name: values[..., i] for i, name in enumerate(columns) if name.endswith("__")}
    x, _, gradient = np.split(values[..., len(of_sampler) :], 3, axis=-1)
    names = tuple(stan_name(name) for name in columns[len(of_sampler) :][: x.shape[-1]])
    _told_apart(x, names)
    stats = {}
    if "divergent__" in of_sampler:
        stats["diverging"] = of_sampler["divergent__"] > 0
    if "treedepth__" in of_sampler and "max_depth" in settings:
        stats["reached_max_treedepth"] = of_sampler["treedepth__"] >= int(settings["max_depth"])
    return Run(Draws(x, -gradient, names), stats)


def _paths(files: Files | Any) -> list[Path]:
    """The files, patterns expanded, chain 10 after chain 9; of a fit of CmdStanPy, its own."""
    if hasattr(files, "runset"):
        files = [path for path in files.runset.diagnostic_files if path]
        if not files:
            raise InputError("the fit has no diagnostic files: sample with save_latent_dynamics=True")
    found: list[Path] = []
    for given in [files] if isinstance(files, str | os.PathLike) else files:
        path = Path(given)
        matches = [path] if path.is_file() else [Path(match) for match in glob.glob(str(given))]
        if not matches:
            raise InputError(f"{given}: no such file: give the diagnostic files of CmdStan, or a pattern")
        found += sorted(matches, key=natural)
    if not found:
        raise InputError("files is empty: give the diagnostic files of CmdStan, one per chain")
    if len({path.resolve() for path in found}) < len(found):
        raise InputError("a diagnostic file is given twice: give every chain once")
    return found


def _read_chain(path: Path) -> _Chain:
    """The draws of one file without warm-up, and the settings of its run."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: give the path of a file that can be read") from None
    numbered = list(enumerate(text.splitlines(), 1))
    if numbered and not text.endswith("\n"):
        numbered.pop()  # cut off within a number, it may look whole
    lines = [(number, line) for number, line in numbered if line.strip() and not line.startswith("#")]
    if not lines:
        raise InputError(f"{path}: holds no draws: give a diagnostic file of CmdStan")
    (start, header), *rows = lines
    columns = tuple(cell.strip() for cell in header.split(","))
    _has_gradients(path, columns)
    comments = (SETTING.match(line) for _, line in numbered[: start - 1])
    settings = {match[1]: match[2] for match in comments if match}
    if rows and rows[-1][0] == numbered[-1][0] and rows[-1][1].count(",") < len(columns) - 1:
        rows.pop()  # the run has stopped in the middle of it
    values = _numbers(path, rows, columns)[_warmup(settings) :]
    if len(values) == 0:
        raise InputError(f"{path}: holds no draws after warm-up: leave the file out, or let the chain run on")
    return _Chain(columns, values, settings)


def _has_gradients(path: Path, columns: tuple[str, ...]) -> None:
    own = [name for name in columns if not name.endswith("__")]
    third = own[: len(own) // 3]
    if not own or own != [prefix + name for prefix in ("", "p_", "g_") for name in third]:
        raise InputError(
            f"{path}: holds no gradients: give the diagnostic file, written with output diagnostic_file=..., in "
            "CmdStanPy and CmdStanR with save_latent_dynamics=True"
        )


def _numbers(path: Path, rows: list[tuple[int, str]], columns: tuple[str, ...]) -> Float[np.ndarray, "draws columns"]:
    for number, line in rows:
        if line.count(",") != len(columns) - 1:
            raise InputError(f"{path}: line {number} has {line.count(',') + 1} cells, not {len(columns)}: mend it")
    if not rows:
        return np.empty((0, len(columns)))
    try:
        return np.loadtxt((line for _, line in rows), delimiter=",", ndmin=2)
    except ValueError:
        raise InputError(f"{path}: holds cells that are not numbers: give the file as CmdStan has written it") from None


def _warmup(settings: dict[str, str]) -> int:
    """How many rows are of the warm-up; the settings are those that CmdStan writes above the header."""
    if settings.get("save_warmup") not in ("1", "true"):
        return 0
    return math.ceil(int(settings["num_warmup"]) / int(settings.get("thin", 1)))


def _told_apart(x: Float[np.ndarray, "chains draws d"], names: tuple[str, ...]) -> None:
    """Require that the digits in the files tell the draws apart; CmdStan writes six to eight if nothing is said."""
    different = np.unique(x.reshape(-1, len(names)), axis=0)  # a chain that does not move repeats its draws
    if len(different) < ENOUGH_DRAWS:
        return
    for name, values in zip(names, different.T, strict=True):
        gaps = np.diff(np.unique(values))
        if len(gaps) and gaps.min() > COARSEST * values.std():
            raise InputError(
                f"{name} is written with so few digits that its draws are not told apart: run CmdStan with "
                "output sig_figs=18"
            )
