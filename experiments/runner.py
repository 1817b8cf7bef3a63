"""Run an experiment as independent cells, one JSON line each: resumable, on every core, with the time left.

An experiment is a list of cells (dicts that identify a run) and a function from a cell to its results. Lines already in
the file are not run again, so a run that was killed goes on where it stopped; a line that was cut short is run again.

    SLICESTEIN_WORKERS=1 python -m experiments.ica --preset paper        # on one core; all of them unless told
"""

import argparse
import concurrent.futures as futures
import json
import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

HERE = Path(__file__).parent
RESULTS, FIGURES = HERE / "results", HERE.parent / "docs" / "figures"


def identity(row: dict, keys: list[str]) -> str:
    return json.dumps({k: row.get(k) for k in keys}, sort_keys=True)


def load(name: str, cells: list[dict] | None = None) -> list[dict]:
    """All whole lines of a result file, or those of certain cells."""
    path = RESULTS / f"{name}.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    if cells is None:
        return rows
    keys = sorted({k for cell in cells for k in cell})
    wanted = {identity(cell, keys) for cell in cells}
    return [row for row in rows if identity(row, keys) in wanted]


def _cut(path: Path) -> None:
    """Remove what follows the last whole line: a run was killed while it wrote."""
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)


def _workers() -> int:
    """Processes at once: the environment's SLICESTEIN_WORKERS, else one for each core."""
    return int(os.environ.get("SLICESTEIN_WORKERS") or os.cpu_count() or 1)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next cell for ever."""

    def watch() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _single_threaded() -> None:
    """One core per worker: two workers on two cores do more than one worker with two threads."""
    for threads in ("NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # the first is XLA's
        os.environ[threads] = "1"


def run(name: str, cells: list[dict], work: Callable[[dict], dict]) -> list[dict]:
    """Run the cells that are missing from results/NAME.jsonl and return the lines of all; `work` must be importable."""
    RESULTS.mkdir(exist_ok=True)
    FIGURES.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.jsonl"
    _cut(path)
    keys = sorted({k for cell in cells for k in cell})
    done = {identity(row, keys) for row in load(name, cells)}
    missing = [cell for cell in cells if identity(cell, keys) not in done]
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    _single_threaded()  # inherited by the workers, before any of them imports JAX
    context = multiprocessing.get_context("spawn")
    workers = max(1, min(len(missing), _workers()))
    with (
        Progress(*columns) as progress,
        path.open("a") as file,
        futures.ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool,
    ):
        bar = progress.add_task(name, total=len(cells), completed=len(cells) - len(missing))
        pending = {pool.submit(work, cell): cell for cell in missing}
        for future in futures.as_completed(pending):
            if future.exception() is not None:
                continue  # raised below: the other cells are kept
            file.write(json.dumps(pending[future] | future.result()) + "\n")
            file.flush()
            progress.advance(bar)
    for future, cell in pending.items():
        if (error := future.exception()) is not None:
            error.add_note(f"in the cell {cell}")
            raise error
    return load(name, cells)


def mean_and_error(values, form: str = ".3f") -> str:
    """Mean and standard error; of a single value the value."""
    mean = format(np.mean(values), form)
    return f"{mean} ± {np.std(values, ddof=1) / np.sqrt(len(values)):{form.lstrip('+')}}" if len(values) > 1 else mean


def preset(description: str, choices: tuple[str, ...] = ("smoke", "quick", "paper")) -> str:
    """The preset named on the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--preset", choices=choices, default="quick")
    return parser.parse_args().preset
