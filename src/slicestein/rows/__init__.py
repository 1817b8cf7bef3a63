"""Where rows come from, and how files are written.

A test takes a `source.Source`: arrays in memory (`arrays`), or tables that are read in chunks (`tables`, `streamed`),
which `open` makes of files and of iterables.
"""

from slicestein.rows.opening import open_rows as open
from slicestein.rows.source import Source

__all__ = ["Source", "open"]
