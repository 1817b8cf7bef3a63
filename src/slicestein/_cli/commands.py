"""What ``slicestein`` does: test, quality, demo, reproduce. Needs typer and rich (``pip install slicestein[cli]``).

Faults of the input are `ValueError`; nothing is written before everything has been computed.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slicestein import adapters, quality, report
from slicestein._checks import InputError, samples_and_score
from slicestein._cli import demo
from slicestein.adapters.draws import bound_of
from slicestein.gof.door import gof_test
from slicestein.gof.result import GofResult
from slicestein.rows import files, formats
from slicestein.score import score_from

app = typer.Typer(add_completion=False, help="Do samples fit a model that is known through its score?")
LONGEST_MESSAGE = 300


class TargetKind(StrEnum):
    """What a target function returns."""

    log_density = "log-density"
    score = "score"


Target = Annotated[
    str | None, typer.Option(metavar="MODULE:FUNCTION", help="The model: a JAX function, importable from here.")
]
Kind = Annotated[
    TargetKind, typer.Option(help="The target is a log-density of one sample (D,), or a score of a batch (N, D).")
]
Key = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed; the same seed gives the same answer.")]
Chains = Annotated[
    int | None, typer.Option(min=1, help="The rows are so many chains of equal length, one after another.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def _start() -> None:
    jax.config.update("jax_enable_x64", True)  # the process is ours


@app.command(name="test")
def run_test(
    samples: Annotated[Path, typer.Argument(help="Samples: .npy, .npz, .csv, .parquet, or ArviZ .nc.")],
    score: Annotated[
        Path | None, typer.Option(help="Scores at the samples, in a file of the same shape; of nutpie, the same .nc.")
    ] = None,
    target: Target = None,
    target_kind: Kind = TargetKind.log_density,
    method: Annotated[str, typer.Option(help="Test to use, as in gof_test.")] = "auto",
    alpha: Annotated[float, typer.Option(help="Level of the test.")] = 0.05,
    key: Key = 0,
    chains: Chains = None,
    report_path: Annotated[Path | None, typer.Option("--report", help="Write a report to this .html file.")] = None,
    as_json: Json = False,
) -> None:
    """Test whether SAMPLES fit the model. Status 0: they may; 1: they do not; 2: bad input."""
    if (score is None) == (target is None):
        raise InputError("give the model either as --score FILE or as --target MODULE:FUNCTION")
    if method == "mmd":
        raise InputError("mmd compares with draws of the model: use gof_test(model_samples=...) from Python")
    _check_report(report_path)
    x, s, names = _read(samples, score, chains)
    if target is not None:
        _, s = samples_and_score(x.reshape(-1, x.shape[-1]), _load_target(target, target_kind))
        s = np.asarray(s).reshape(x.shape)
    with _notes():
        if score is None or score.suffix != ".nc":  # draws of nutpie are unconstrained
            _warn_of_bounds(x, names)
        result = gof_test(x, s, key=key, method=method, alpha=alpha, names=names)
    if report_path is not None:
        settings = {"samples": samples, "model": score or target, "key": key}
        report.write_report(result, report_path, x=x, score=s, title=f"Does {samples.name} fit?", settings=settings)
    if as_json:
        print(json.dumps({"samples": str(samples), **result.to_dict()}))
    else:
        _show(result, x)
    raise typer.Exit(int(result.reject))


@app.command(name="quality")
def rank(
    samples: Annotated[list[Path], typer.Argument(help="Sample sets, one file each.")],
    target: Target = None,
    target_kind: Kind = TargetKind.log_density,
    key: Key = 0,
    chains: Chains = None,
    as_json: Json = False,
) -> None:
    """Rank sample sets of one model by their discrepancy, best first."""
    if target is None:
        raise InputError("give the model as --target MODULE:FUNCTION")
    if len(samples) < 2:
        raise InputError("give at least two sample sets to compare")
    if len(set(samples)) < len(samples):
        raise InputError("a sample set is given twice")
    sets = {str(path): _read(path, None, chains)[0] for path in samples}
    ranked = quality.compare(sets, _load_target(target, target_kind), key=key)
    if as_json:
        print(json.dumps([one._asdict() for one in ranked]))
        return
    table = Table("", "samples", "draws", "discrepancy", "± 2 s.e.", "behind the best")
    for place, one in enumerate(ranked, 1):
        behind = "" if place == 1 else f"{one.behind:.1f} s.e." + (" (not told apart)" if one.behind < 2 else "")
        numbers = (f"{one.num_samples:,}", f"{one.discrepancy:.3g}", f"{2 * one.standard_error:.2g}")
        table.add_row(str(place), Text(one.name), *numbers, behind)
    Console().print(table)


@app.command(name="demo")
def show_demo(out: Annotated[str, typer.Option(help="Folder for the reports.")] = "demo") -> None:
    """A right and a wrong sampler of a posterior with 50 parameters; under a minute."""
    folder = Path(out)
    nearest = next(f for f in (folder, *folder.absolute().parents) if f.exists() or f.is_symlink())
    usable = nearest.is_dir() and os.access(nearest, os.W_OK) and not any(p.is_dir() for p in demo.reports(folder))
    if not (out.strip() and usable):
        raise InputError(f"{out!r} cannot be a folder for the reports: name another one with --out")
    demo.run(folder, show=lambda text: print(text, flush=True))


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="Experiment, for example gaussian_gof.")],
    preset: Annotated[
        str, typer.Option(help="smoke (seconds), quick (minutes) or paper (the paper's settings).")
    ] = "quick",
) -> None:
    """Run an experiment of the paper from a checkout; what was done before is kept."""
    folder = Path("experiments")
    if not (folder / "runner.py").is_file():
        raise InputError("there are no experiments here: run it in the folder of a checkout of slicestein")
    found = sorted(path.stem for path in folder.glob("*.py") if "\ndef cells(" in path.read_text("utf-8", "replace"))
    if name not in found:
        raise InputError(f"there is no experiment {name!r}: choose from {', '.join(found)}")
    # A process of its own: the experiment sets the threads of its workers before JAX is imported.
    command = [sys.executable, "-m", f"experiments.{name}", "--preset", preset]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode == 2:  # of argparse, whose last line says what is wrong
        raise InputError(run.stderr.strip().splitlines()[-1])
    sys.stderr.write(run.stderr)
    raise typer.Exit(run.returncode)


def _read(samples: Path, score: Path | None, chains: int | None) -> tuple[np.ndarray, Any, Any]:
    """Samples, scores if there is a file of them, and names."""
    if score is not None and score.suffix == ".nc":
        if score != samples:
            raise InputError(f"{score}: scores in an .nc are those of its own draws: give it as the samples too")
        draws = adapters.from_nutpie({"sample_stats": formats.read_group(score, "sample_stats")})
        return draws.x, draws.score, draws.names
    x, names = files.read_samples(samples)
    s = None if score is None else files.read_scores(score)
    if s is not None and s.shape != x.shape:
        raise InputError(f"{score}: holds scores of shape {s.shape}, but the samples have {x.shape}")
    if chains is not None:
        if x.ndim == 3 or len(x) % chains:
            raise InputError(f"{samples}: an array of shape {x.shape} cannot be cut into {chains} chains")
        x = x.reshape(chains, -1, x.shape[1])
        s = s if s is None else s.reshape(x.shape)
    return x, s, names


def _load_target(target: str, kind: TargetKind) -> Callable[[Any], Any]:
    """The score function of MODULE:FUNCTION; its own faults become a line that names it."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise InputError(f"--target must be MODULE:FUNCTION, got {target!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module_name), name, None)
    except Exception as error:
        raise InputError(f"cannot import {module_name}: {_line(error)}") from None
    if not callable(function):
        raise InputError(f"{module_name} has no function {name}")
    score_fn = function if kind is TargetKind.score else score_from(function)

    def guarded(x: Any) -> Any:
        try:
            return score_fn(x)
        except Exception as error:
            raise InputError(f"{target} failed as a {kind.value}: {_line(error)}") from None

    return guarded


def _line(error: Exception) -> str:
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + " ..."


def _check_report(path: Path | None) -> None:
    """Before anything is computed: can the file be written."""
    if path is None:
        return
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"{path}: a report is an .html file")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written there: name a file in a folder that exists")


def _warn_of_bounds(x: np.ndarray, names: tuple[str, ...] | None) -> None:
    """A Stein test of a parameter with bounds needs a transform; whether there are bounds only the user knows."""
    columns = x.reshape(1, -1, x.shape[-1])
    bounded = [i for i in range(x.shape[-1]) if bound_of(columns[..., i]) is not None]
    if bounded:
        name = f"x[{bounded[0]}]" if names is None else names[bounded[0]]
        others = f" (and {len(bounded) - 1} more)" if len(bounded) > 1 else ""
        warnings.warn(
            f"every sample of {name}{others} is positive: if the model bounds it, test its logarithm or logit, "
            "with the Jacobian in the density",
            stacklevel=2,
        )


@contextmanager
def _notes() -> Iterator[None]:
    """Warnings as lines on stderr, without the place in the code that they come from."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        print("note:", warning.message, file=sys.stderr)


def _show(result: GofResult, x: np.ndarray) -> None:
    console = Console(highlight=False)
    verdict, *rest = result.summary().splitlines()
    console.print(Text(verdict, style="bold red" if result.reject else "bold green"))
    for line in rest:
        console.print(Text(line))
    slices = report.worst_slices(result, x)
    if not result.reject or not slices:
        return
    table = Table("share", "worst directions of the samples, g", "of the scores, r")
    for one in slices:
        table.add_row(f"{one.share:.0%}", Text(one.g), Text(one.r))
    console.print(table)
    table = Table("parameter", "share", "")
    for name, share in result.worst(8):
        table.add_row(Text(name), f"{share:.0%}", "█" * round(30 * share))
    console.print(table)
