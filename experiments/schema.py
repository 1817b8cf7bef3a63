"""The one schema of all result files, `results/EXPERIMENT-PRESET.jsonl`.

Every line is a JSON object: the fields of a cell, as ``experiments.EXPERIMENT.cells(PRESET)`` lists it, and results. No
cell is there twice, none that the preset does not have; there is a result, and all numbers are finite.

    python -m experiments.schema        # faults of the files, one a line; status 1 if there are some
"""

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments import runner


def cells_of(name: str) -> list[dict]:
    """The cells that a result file, "EXPERIMENT-PRESET", may hold."""
    experiment, _, preset = name.rpartition("-")
    return importlib.import_module(f"experiments.{experiment}").cells(preset)


def numbers(value: Any) -> Iterator[float]:
    """All numbers within a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, int | float):
        yield value


def faults(path: Path, cells: list[dict]) -> list[str]:
    """What is wrong with a result file, in words."""
    keys = sorted({key for cell in cells for key in cell})
    known = {runner.identity(cell, keys) for cell in cells}
    seen: set[str] = set()
    found = []
    for number, line in enumerate(path.read_text().splitlines(keepends=True), start=1):
        where = f"{path.name}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            found.append(f"{where}: not a line of JSON")
            continue
        if not isinstance(row, dict):
            found.append(f"{where}: not an object")
            continue
        who = runner.identity(row, keys)
        if who not in known:
            found.append(f"{where}: not a cell of this preset: {who}")
        if who in seen:
            found.append(f"{where}: a second line of the cell {who}")
        seen.add(who)
        if not set(row) - set(keys):
            found.append(f"{where}: no result")
        if not all(map(math.isfinite, numbers(row))):
            found.append(f"{where}: a number that is not finite")
        if not line.endswith("\n"):
            found.append(f"{where}: cut short")
    return found


def main() -> None:
    found = [fault for path in sorted(runner.RESULTS.glob("*.jsonl")) for fault in faults(path, cells_of(path.stem))]
    print("\n".join(found) or "all result files are valid")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
