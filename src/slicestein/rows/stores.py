"""NetCDF files and Zarr stores through xarray, read a stretch of a chain at a time."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError
from slicestein.rows.formats import parsed
from slicestein.rows.tables import Table
from slicestein.rows.variables import flatten_posterior


class StoredPosterior(Table):
    """The posterior group of an ArviZ file, .nc or .zarr; variables of any shape are columns with names.

    Variables of a .zarr are in alphabetical order.
    """

    def __init__(self, path: Path):
        self.path = path
        needed = "zarr" if path.suffix == ".zarr" else "h5netcdf"
        if any(importlib.util.find_spec(name) is None for name in ("xarray", needed)):
            raise InputError(f"{path}: reading {path.suffix} needs xarray and {needed}: pip install xarray {needed}")
        import xarray

        engine = {"engine": "zarr", "consolidated": False} if needed == "zarr" else {}
        kind = "an ArviZ file with a posterior group: write it with ArviZ"
        self._posterior = parsed(path, kind, xarray.open_dataset, path, group="posterior", **engine)
        # A Zarr store has no order of its own: that of a listing of its folder is no better.
        self._variables = sorted(map(str, self._posterior.data_vars)) if needed == "zarr" else None
        first, self.names = self._columns(0, slice(0, 1))
        self.chains, draws = (self._posterior.sizes[name] for name in ("chain", "draw"))
        self.shape = (self.chains * draws, first.shape[1])

    def __reduce__(self) -> Any:
        return StoredPosterior, (self.path,)  # an open file is no message

    def _columns(self, chain: int, draws: slice) -> tuple[np.ndarray, tuple[str, ...]]:
        try:
            some = self._posterior.isel(chain=[chain], draw=draws)
            x, names = flatten_posterior(some, self._variables)
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None
        return x[0], names

    def read(self, start: int, stop: int) -> Float[np.ndarray, "n d"]:
        draws, parts = self._posterior.sizes["draw"], []
        while start < stop:
            chain, first = divmod(start, draws)
            last = min(draws, first + stop - start)
            found = parsed(self.path, f"whole: row {start} cannot be read", self._columns, chain, slice(first, last))
            parts.append(found[0].astype(np.result_type(np.float32, found[0]), copy=False))
            start += last - first
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def place(self, row: int) -> str:
        chain, draw = divmod(row, self._posterior.sizes["draw"])
        return f"{self.path}: chain {chain}, draw {draw}"
