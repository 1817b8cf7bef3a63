"""What the commands are given: samples, scores and models, checked before the work."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from slicestein import adapters
from slicestein._checks import InputError, samples_and_score
from slicestein.rows import files, formats, opening
from slicestein.rows.arrays import as_chains
from slicestein.rows.source import Source, evenly
from slicestein.rows.streamed import StreamedRows
from slicestein.score import score_from

LONGEST_MESSAGE = 300
LARGE_SHARE = 32  # a file of more than this part of the memory is read in chunks: it may be packed, and copies are made
SHOWN_ROWS = 2**14  # rows that a report is drawn from, where not all are in memory
CONNECTION_SECONDS = 20

ScoreFn = Callable[[Any], Any]


class TargetKind(StrEnum):
    """What a target function returns."""

    log_density = "log-density"
    score = "score"


class Data(NamedTuple):
    """Samples (N, D) or (chains, draws, D), scores of that shape or None, and names; in double precision."""

    x: Float[np.ndarray, "..."]
    score: Any
    names: tuple[str, ...] | None


def check_model(
    samples: Sequence[Path],
    scores: Sequence[Path] | None,
    target: str | None,
    kind: TargetKind | None,
    otherwise: str = "",
) -> None:
    """Require one model, and no option that would be ignored; ``otherwise`` says what else a person may have."""
    if bool(scores) == (target is not None):
        for path in samples:
            if not any(file.exists() for file in opening.files_of(path)):
                raise InputError(f"{path}: no such file: give the path of a file")
        if not scores and samples[0].suffix.lower() == ".npz":
            *some, last = formats.SCORE_ARRAYS
            otherwise = f", or call scores in an .npz {', '.join(some)} or {last}{otherwise}"
        raise InputError(f"give the model either as --score FILE or as --target MODULE:FUNCTION{otherwise}")
    if kind is not None and target is None:
        raise InputError("--target-kind says what --target is: leave it out with --score")


def own_scores(samples: Sequence[Path]) -> list[Path] | None:
    """The files themselves, if every one is an .npz that holds scores beside the samples."""
    return list(samples) if samples and all(_holds_scores(path) for path in samples) else None


def _holds_scores(path: Path) -> bool:
    if path.suffix.lower() != ".npz" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(f"{name}.npy" in archive.namelist() for name in formats.SCORE_ARRAYS)


def scores_of_one(
    samples: Sequence[Path], score: Path | None, target: str | None, kind: TargetKind | None, otherwise: str
) -> Path | None:
    """The file of the scores, if there is one; required are one file of samples and one model."""
    if score is None and target is None and (own := own_scores(samples)):
        score = own[0]
    check_model(samples, None if score is None else [score], target, kind, otherwise)
    if len(samples) > 1:
        raise InputError(
            f"give one file of samples, a folder, or a pattern in quotes ('*{samples[0].suffix}'), got {len(samples)} "
            "files; a file per chain is what --stan takes"
        )
    return score


def read(samples: Path, score: Path | None, chains: int | None) -> Data:
    """Samples, scores if there is a file of them, and names."""
    if score is not None and of_nutpie(score):
        if not (score.exists() and samples.exists() and score.samefile(samples)):
            raise InputError(f"{score}: scores in an .nc are those of its own draws: give it as the samples too")
        data = Data(*adapters.from_nutpie({"sample_stats": formats.read_group(score, "sample_stats")}))
    else:
        x, names = files.read_samples(samples)
        data = Data(x, None if score is None else files.read_scores(score, names=names), names)
    x, s, names = data
    if s is not None and s.shape != x.shape:
        raise InputError(f"{score}: holds scores of shape {s.shape}, but the samples have {x.shape}")
    if s is not None and np.array_equal(x, s):
        raise InputError(f"{score}: holds the samples themselves: give the file of their scores")
    if chains is not None:
        if x.ndim == 3 or len(x) % chains:
            raise InputError(f"{samples}: an array of shape {x.shape} cannot be cut into {chains} chains")
        x = x.reshape(chains, -1, x.shape[1])
    return Data(np.asarray(x, float), None if s is None else np.asarray(s, float).reshape(x.shape), names)


def are_streamed(path: Path, score: Path | None) -> bool:
    """Whether samples are read in chunks; scores in an .nc are those of its own draws, and read into memory."""
    return not of_nutpie(score) and (are_many(path) or are_large(path))


def of_nutpie(score: Path | None) -> bool:
    """Whether draws and scores are in one file of nutpie."""
    return score is not None and score.suffix.lower() == ".nc"


def are_many(path: Path) -> bool:
    """Whether samples are a folder or a pattern, not one file."""
    return len(opening.files_of(path)) > 1 or path.is_dir()


def are_large(path: Path) -> bool:
    """Whether a file is so large that its rows are better not all in memory."""
    return path.is_file() and path.suffix.lower() in opening.TABLES and path.stat().st_size > _memory() // LARGE_SHARE


def _memory() -> int:
    """Bytes that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**33


def some_rows(rows: Source, most: int = SHOWN_ROWS) -> Data:
    """Rows that are spread over all, to show."""
    x, s = rows.gather(evenly(rows.num_samples, most))
    return Data(x, s, rows.names)


@contextmanager
def connected(address: str | None, target: str | None) -> Iterator[None]:
    """A Dask cluster, while the work is done: one of this machine, or one that runs elsewhere."""
    if address is None:
        yield
        return
    try:
        import cloudpickle
        from distributed import Client, LocalCluster
    except ModuleNotFoundError:
        raise InputError("--dask needs dask: pip install 'dask[distributed]'") from None
    if target is not None:  # the model is sent: workers need not find its module
        cloudpickle.register_pickle_by_value(sys.modules[target.partition(":")[0]])
    if address == "local":
        with LocalCluster(dashboard_address=":0") as cluster, Client(cluster):
            yield
        return
    try:
        client = Client(address, timeout=CONNECTION_SECONDS)
    except (OSError, ValueError) as error:
        raise InputError(f"--dask {address}: no scheduler answers there ({type(error).__name__})") from None
    with client:
        yield


def with_scores(data: Data, score_fn: ScoreFn) -> Data:
    """Data with the scores of a model."""
    _, s = samples_and_score(data.x.reshape(-1, data.x.shape[-1]), score_fn)
    return data._replace(score=np.asarray(s).reshape(data.x.shape))


def open_sets(samples: Sequence[Path], scores: Sequence[Path] | None, chains: int | None) -> dict[str, Any]:
    """Sample sets of one model by name, large files where they are; sources, if there are files of their scores.

    Columns that have names are in the order of the first set that has.
    """
    if len(samples) < 2:
        raise InputError("give at least two sample sets to compare")
    if len({os.path.realpath(path) for path in samples}) < len(samples):
        raise InputError("a sample set is given twice")
    if scores and len(scores) != len(samples):
        raise InputError(f"give --score once for each of the {len(samples)} sample sets, in the same order")
    sets: dict[str, Any] = {}
    order: Sequence[str] | None = None
    for i, path in enumerate(samples):
        score = scores[i] if scores else None
        if are_streamed(path, score):
            rows = opening.open_rows(path, score, chains=chains, dtype=float)
            assert isinstance(rows, StreamedRows)
            sets[str(path)] = rows.by_name(order)
            order = order or rows.names
        else:
            x, s, names = read(path, score, chains)
            order = order or names
            x = files.by_name(path, files.Samples(x, names), order)
            s = None if s is None else files.by_name(path, files.Samples(s, names), order)
            sets[str(path)] = x if s is None else as_chains(x, s)
    return sets


def check_scores(sets: Iterable[Source]) -> None:
    """Require that samples that several sets have in common, such as where chains start, have one score."""
    known: dict[bytes, Any] = {}
    for rows in sets:
        for row, score in zip(*rows.gather(np.arange(min(rows.num_samples, SHOWN_ROWS))), strict=True):
            if not np.array_equal(known.setdefault(row.tobytes(), score), score):
                raise InputError("one sample has two scores: give the score files in the order of the sample sets")


def load_target(target: str, kind: TargetKind | None) -> ScoreFn:
    """The score function of MODULE:FUNCTION; its own faults become a line that names it."""
    kind = kind or TargetKind.log_density
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise InputError(f"--target must be MODULE:FUNCTION, got {target!r}")
    if module_name.endswith(".py"):
        raise InputError(f"--target names a module, not a file: {module_name.removesuffix('.py')}:{name}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    function = _guarded(f"cannot import {module_name}", importlib.import_module)(module_name)
    function = getattr(function, name, None)
    if not callable(function):
        raise InputError(f"{module_name} has no function {name}")
    jax.config.update("jax_enable_x64", True)  # the module may have switched it off
    score_fn = function if kind is TargetKind.score else score_from(function)
    return _guarded(f"{target} failed as a {kind.value}", score_fn)


def _guarded(says: str, function: ScoreFn) -> ScoreFn:
    """Code of the user: what it prints is no part of the answer, and its faults are one line."""

    def guarded(argument: Any) -> Any:
        try:
            with redirect_stdout(sys.stderr):
                return function(argument)
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            cut = text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + " ..."
            ours = getattr(error, "__notes__", [])[-1:]  # of score_from; those before it are of JAX
            raise InputError("; ".join([f"{says}: {cut}", *ours])) from None

    return guarded
