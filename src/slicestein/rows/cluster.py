"""Rows that are read and measured by the workers of a Dask cluster: what is to be done goes out, sums come back.

A piece is what one task reads: some chunks of a file, or a block of a Dask array. What pieces give is added in a tree
on the workers. The pieces of a worker that is lost are read again elsewhere. Dask is imported when it is used.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from slicestein._checks import InputError
from slicestein.rows.arrays import real, score_at
from slicestein.rows.source import Rows, Source, chunk_rows, chunks, in_pairs
from slicestein.rows.streamed import StreamedRows, alike, require_finite

# Chunks of a file that one task reads. A power of two: the sums are then added in the order of one machine.
TASK_CHUNKS = 2**7


class Piece(NamedTuple):
    """Rows ``start:stop``.

    ``reader(wanted, *blocks)`` gives them from blocks that are on the cluster: all, or those whose numbers are wanted.
    """

    start: int
    stop: int
    reader: Callable[..., Rows]
    blocks: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterRows(Source):
    """A source whose rows are on a cluster."""

    pieces: tuple[Piece, ...]
    sizes: tuple[int, int, int]
    ordered: bool
    column_names: tuple[str, ...] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Chains, draws of each, and D."""
        return self.sizes

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the D columns, where they have some."""
        return self.column_names

    def in_order(self) -> ClusterRows:
        return dataclasses.replace(self, ordered=True)

    def read(self, start: int, stop: int) -> Rows:
        return self.gather(np.arange(start, stop))

    def samples(self, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        return self.gather(rows).x

    def gather(self, rows: Int[np.ndarray, " n"]) -> Rows:
        found = []
        for piece in self.pieces:
            low, high = np.searchsorted(rows, (piece.start, piece.stop))
            if low < high:
                found.append(_task(_taken, piece, rows[low:high]))
        return Rows(*(np.concatenate(arrays) for arrays in zip(*_computed(_together(found)), strict=True)))

    def fold(self, visit: Callable[[int, Any, Any], Any]) -> Any:
        import dask

        there = dask.delayed(visit, pure=False)  # sent once, not with every task
        return _computed(in_pairs(_task(_visited, piece, there) for piece in self.pieces))


def from_dask(x: Any, score: Any, name: str = "x") -> ClusterRows:
    """Rows of a Dask array (N, D) or (chains, draws, D), with scores in another one or from a function."""
    if any(np.isnan(size) for size in x.shape):
        raise InputError(f"{name} is a Dask array of unknown length: call {name}.compute_chunk_sizes() first")
    if x.ndim not in (2, 3) or 0 in x.shape:
        raise InputError(f"{name} must have shape (N, D) or (chains, draws, D), got {x.shape}")
    sizes = x.shape if x.ndim == 3 else (1, *x.shape)
    x = x.rechunk({0: 1, 2: -1} if x.ndim == 3 else {1: -1})
    blocks = [x.to_delayed().ravel()]
    if not callable(score):
        if not is_dask(score):
            raise InputError("score must be a Dask array as x is, or a function")
        if score.shape != x.shape:
            raise InputError(f"score must have the shape of {name}, {x.shape}, got {score.shape}")
        blocks.append(score.rechunk(x.chunks).to_delayed().ravel())
    lengths = [n for _ in range(sizes[0]) for n in x.chunks[-2]]
    return _pieces(lengths, list(zip(*blocks, strict=True)), score, sizes, ordered=x.ndim == 3)


def from_loaders(loaders: Sequence[Any], score: Any, chains: int | None) -> ClusterRows:
    """Rows of delayed loaders, each of which gives an array x (n, D) or a pair (x, score).

    Every loader is called once to learn its length, once to gather and once to measure.
    """
    import dask

    shapes = dask.compute(*(dask.delayed(_shape)(loader) for loader in loaders))
    for i, shape in enumerate(shapes):
        if len(shape) != 2 or shape[1] != shapes[0][1]:
            raise InputError(f"loader {i} gives an array of shape {shape}, the first one {shapes[0]}: give (n, D)")
    lengths = [shape[0] for shape in shapes]
    count = sum(lengths)
    if chains is not None and (chains < 1 or count % chains):
        raise InputError(f"chains: {count} rows cannot be cut into {chains} chains of equal length")
    sizes = (chains or 1, count // (chains or 1), shapes[0][1])
    return _pieces(lengths, [(loader,) for loader in loaders], score, sizes, ordered=chains is not None)


def on_workers(rows: StreamedRows) -> ClusterRows:
    """Rows that every worker can open by their path, read there."""
    step = TASK_CHUNKS * chunk_rows(rows.dim)
    count = rows.num_samples
    quiet = dataclasses.replace(rows, progress=False)
    bounds = [(start, min(start + step, count)) for start in range(0, count, step)]
    pieces = tuple(Piece(*pair, functools.partial(_read, quiet, *pair)) for pair in bounds)
    return ClusterRows(pieces, rows.shape, rows.ordered, rows.names)


def is_dask(value: Any) -> bool:
    """Whether this is something of Dask, found out without importing it."""
    return type(value).__module__.partition(".")[0] == "dask"


def _pieces(
    lengths: list[int], blocks: list[tuple[Any, ...]], score: Any, sizes: tuple[int, int, int], *, ordered: bool
) -> ClusterRows:
    ends = np.cumsum(lengths)
    score_fn = score if callable(score) else None
    pieces = tuple(
        Piece(int(end) - length, int(end), functools.partial(_block_rows, int(end) - length, score_fn), arrays)
        for length, end, arrays in zip(lengths, ends, blocks, strict=True)
        if length
    )
    return ClusterRows(pieces, sizes, ordered)


# --- on the client -----------------------------------------------------------------------------


def _task(work: Callable[..., Any], piece: Piece, what: Any) -> Any:
    import dask

    double = bool(jax.config.read("jax_enable_x64"))
    return dask.delayed(_run, pure=False)(work, what, double, piece.start, piece.reader, *piece.blocks)


def _together(parts: list[Any]) -> Any:
    import dask

    return dask.delayed(list)(parts)


def _computed(result: Any) -> Any:
    """The result of a graph, by the cluster that is connected, or by the threads of this process."""
    try:
        return result.compute()
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise InputError("workers died again and again over the same rows: give them more memory") from None
        raise


# --- on the workers ----------------------------------------------------------------------------


def _run(work: Any, what: Any, double: bool, *piece: Any) -> Any:
    """Work on a piece; scores are computed in the precision that the client has."""
    with jax.enable_x64(double):
        return work(what, *piece)


def _visited(visit: Callable[[int, Any, Any], Any], start: int, reader: Any, *blocks: Any) -> Any:
    x, s = reader(None, *blocks)
    return in_pairs(visit(start + low, x[low:high], s[low:high]) for low, high in chunks(*x.shape))


def _taken(wanted: Int[np.ndarray, " n"], start: int, reader: Any, *blocks: Any) -> Rows:
    return reader(wanted, *blocks)


def _read(rows: StreamedRows, start: int, stop: int, wanted: Int[np.ndarray, " n"] | None) -> Rows:
    return rows.read(start, stop) if wanted is None else rows.gather(wanted)


def _shape(block: Any) -> tuple[int, ...]:
    return np.shape(block[0] if isinstance(block, tuple) else block)


def _block_rows(
    start: int, score_fn: Callable[[Any], Any] | None, wanted: Int[np.ndarray, " n"] | None, *blocks: Any
) -> Rows:
    """Checked rows of a block and its scores, or of a block with the scores of a function."""
    if len(blocks) == 1 and isinstance(blocks[0], tuple):
        blocks = blocks[0]
    some = slice(None) if wanted is None else wanted - start
    x, *scores = (real(name, z).reshape(-1, z.shape[-1])[some] for name, z in zip(("x", "score"), blocks, strict=False))
    require_finite(x, lambda row: f"x: row {start + row}", "drop those rows or mend the run")
    if score_fn is None and not scores:
        raise InputError("score is missing: pass a function, or loaders of pairs (x, score)")
    s = scores[0] if score_fn is None else score_at(score_fn, x)
    require_finite(s, lambda row: f"score: row {start + row}", "drop those samples or mend the model")
    return alike(x, s)
