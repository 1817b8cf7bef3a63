"""A progress bar for long loops: shown on a terminal where rich is installed, silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class ProgressBar:
    """Context that gives a function to call with the number of steps done."""

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
