"""What the commands answer: a verdict on the screen or as JSON, and files, which are checked before the work."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slicestein import report
from slicestein._checks import InputError
from slicestein._cli import demo
from slicestein._cli.inputs import Data
from slicestein.gof.result import GofResult, finite
from slicestein.quality import Quality
from slicestein.rows.writing import check_place, write_whole

# What `--json` prints of a result: numbers and words. Arrays go to a file.
WORDS: tuple[str, ...] = (
    "verdict",
    "reason",
    "reject",
    "pvalue",
    "alpha",
    "statistic",
    "method",
    "bootstrap",
    "num_train",
    "num_test",
)
WORDS += ("components", "stray_chain", "notes")
WORST = 8  # parameters listed, at most


class Files(NamedTuple):
    """Files that a test is to write."""

    report: Path | None
    arrays: Path | None

    def check(self, *, force: bool, inputs: tuple[Path | None, ...]) -> None:
        """Before the work: every file can be written, and none that is there is lost."""
        kinds = ((self.report, "a report", (".html", ".htm")), (self.arrays, "a file of arrays", (".npz",)))
        for path, kind, suffixes in kinds:
            if path is None:
                continue
            if path.suffix.lower() not in suffixes:
                raise InputError(f"{path}: {kind} is an {suffixes[0]} file")
            check_place(path)
            if path.exists() and any(p is not None and p.exists() and path.samefile(p) for p in inputs):
                raise InputError(f"{path}: holds the input: name another file")
            if path.exists() and not force:
                raise InputError(f"{path}: exists already: name another file, or overwrite it with --force")
        if self.report is not None:
            report.check_packages()

    def write(self, result: GofResult, data: Data, *, title: str, settings: Mapping[str, Any]) -> None:
        """After the verdict: every file that can be written; then the others are told."""
        options: dict[str, Any] = {"x": data.x, "score": data.score, "title": title, "settings": settings}
        writers: dict[Path | None, Callable[[Path], None]] = {
            self.report: lambda path: report.write_report(result, path, **options),
            self.arrays: lambda path: write_whole(path, _archive(result)),
        }
        failed = []
        for path, write in writers.items():
            try:
                if path is not None:
                    write(path)
            except OSError as error:
                failed.append(f"{path}: could not be written ({error.strerror})")
        if failed:
            raise InputError("; ".join(failed) + ": the verdict stands")


def _archive(result: GofResult) -> bytes:
    arrays: dict[str, Any] = {
        "null_distribution": result.null_distribution,
        "per_slice": result.per_slice,
        "per_dimension": result.per_dimension,
        "rhat": result.rhat,
        "ess": result.ess,
        "names": result.names,
    }
    if result.slices is not None:
        arrays |= {"r": result.slices.r, "g": result.slices.g}
    buffer = io.BytesIO()
    found: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items() if value is not None}
    np.savez(buffer, **found)
    return buffer.getvalue()


def demo_folder(out: str) -> Path:
    """A folder for the reports of the demonstration, made before the work; its own reports are overwritten."""
    folder = Path(out)
    nearest = next(f for f in (folder, *folder.absolute().parents) if f.exists() or f.is_symlink())
    usable = nearest.is_dir() and os.access(nearest, os.W_OK) and not any(p.is_dir() for p in demo.reports(folder))
    if not (out.strip() and usable):
        raise InputError(f"{out!r} cannot be a folder for the reports: name another one with --out")
    report.check_packages()
    folder.mkdir(parents=True, exist_ok=True)
    for path in demo.reports(folder):
        check_place(path)
    return folder


def print_json(answer: Any) -> None:
    """One line of JSON, which knows no NaN and no infinity."""
    print(json.dumps(finite(answer), allow_nan=False), flush=True)


def verdict(result: GofResult) -> dict[str, Any]:
    """A result without its arrays: the worst parameters and shares are a few, however many there are."""
    plain = {name: getattr(result, name) for name in WORDS}
    worst = [{"name": name, "share": share} for name, share in result.worst(WORST)]
    parameters = [parameter._asdict() for parameter in (result.parameters or ())[:WORST]]
    if result.rhat is not None and result.ess is not None:
        plain |= {"largest_rhat": float(result.rhat.max()), "smallest_ess": float(result.ess.min())}
    return plain | {"worst": worst, "parameters": parameters}


def show(result: GofResult, x: np.ndarray) -> None:
    """The verdict, and what carries it if the samples do not fit."""
    console = _console()
    first, *rest = result.summary().splitlines()
    console.print(Text(first, style="bold red" if result.reject else "bold green"))
    for line in rest:
        console.print(Text(line))
    slices = report.worst_slices(result, x)
    if result.reject and slices:
        table = Table("share", "worst slices: samples along g", "scores along r")
        for one in slices:
            table.add_row(f"{one.share:.0%}", Text(one.g), Text(one.r))
        console.print(table)
    sys.stdout.flush()


def tell(report: Path | None, as_json: bool) -> None:
    """Where the report is."""
    if report is not None and not as_json:
        print(f"report: {report}", flush=True)


def show_ranking(ranked: list[Quality]) -> None:
    """Sample sets, best first."""
    table = Table("", "samples", "draws", "discrepancy", "± 2 s.e.", "behind the best")
    for place, one in enumerate(ranked, 1):
        behind = "" if place == 1 else f"{one.behind:.1f} s.e." + (" (not told apart)" if one.behind < 2 else "")
        numbers = (f"{one.num_samples:,}", f"{one.discrepancy:.3g}", f"{2 * one.standard_error:.2g}")
        table.add_row(str(place), Text(one.name), *numbers, behind)
    _console().print(table)


def _console() -> Console:
    """As wide as the terminal; in a file or a pipe lines have no end to wrap at."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
