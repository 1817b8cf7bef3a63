"""Comma-separated values: what is wrong is told by the line of the file, counted from 1."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError

# Lines that are made numbers at once.
LINES = 2**15


def read_csv(path: Path) -> tuple[Float[np.ndarray, "n d"], tuple[str, ...] | None]:
    """Numbers, and the names in the header if there is one; empty lines and those that begin with # do not count."""
    names, parts = csv_chunks(path)
    return np.concatenate(list(parts)), names


def csv_chunks(path: Path) -> tuple[tuple[str, ...] | None, Iterator[Float[np.ndarray, "n d"]]]:
    """The names in the header if there is one, and the numbers, some thousand lines at a time."""
    try:
        first = next(csv.reader(line for _, line in _lines(path)), [])
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path}: is not a text of comma-separated values: save it as UTF-8") from None
    names = None if _is_row(first) else tuple(cell.strip() for cell in first)
    if names is not None and "" in names:
        where = names.index("") + 1
        raise InputError(f"{path}: column {where} has no name: leave the row index out (pandas: to_csv(index=False))")
    return names, _numbers(path, names)


def _numbers(path: Path, names: tuple[str, ...] | None) -> Iterator[Float[np.ndarray, "n d"]]:
    lines = (line for _, line in _lines(path))
    width = None
    try:
        next(lines) if names is not None else None
        while some := list(itertools.islice(lines, LINES)):
            steps = (line for line in some)  # of Python: between two of them other threads, and Ctrl-C, get their turn
            found = np.loadtxt(steps, delimiter=",", ndmin=2, quotechar='"')
            if found.shape[1] != (width := width or found.shape[1]):
                raise ValueError
            yield found
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text of comma-separated values: save it as UTF-8") from None
    except ValueError:
        raise InputError(f"{path}: {_fault(path, names)}: every cell below the header must be a number") from None
    if width is None:
        raise InputError(f"{path}: holds no samples: write one line per sample, under a line of names")


def place(path: Path, row: int, column: int, names: tuple[str, ...] | None) -> str:
    """Where a number stands in the file, in words."""
    numbers = (number for number, _ in _lines(path))
    line = next(number for i, number in enumerate(numbers) if i == row + (names is not None))
    return f"line {line}, column {column + 1 if names is None else names[column]}"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that count, with their numbers in the file."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                yield number, line


def _is_row(cells: list[str]) -> bool:
    """Whether the first line is a sample and not the header; pandas calls columns without names 0, 1, 2, ..."""
    numbered = len(cells) > 1 and cells == [str(i) for i in range(len(cells))]
    return all(_is_number(cell) for cell in cells) and not numbered


def _fault(path: Path, names: tuple[str, ...] | None) -> str:
    """What is wrong in the first line that is not a sample."""
    width = None if names is None else len(names)
    for i, (number, line) in enumerate(_lines(path)):
        if i == 0 and names is not None:
            continue
        cells = next(csv.reader([line.split("#")[0]]))
        width = width or len(cells)
        for j, cell in enumerate(cells[:width]):
            if not _is_number(cell):
                return f"line {number}, column {j + 1 if names is None else names[j]}: {cell.strip()!r} is not a number"
        if len(cells) != width:
            return f"line {number} has {len(cells)} cells, not {width}"
    return "it is not a table of numbers"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # 1_000 is a number to Python alone
