"""Blockwise sums: no array larger than a tile, whatever the number of samples or slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

# Elements of a tile of pairs: 8 MB in double precision, so that a handful of them stay in cache.
TILE_ELEMENTS = 2**20
# Bytes of projected samples and scores alive at once.
BLOCK_BYTES = 640 * 2**20


def sum_over_rows(fn: Callable[..., Array], rows: Any, num_columns: int) -> Array:
    """Sum ``fn(row)`` over all rows, in blocks of about ``TILE_ELEMENTS / num_columns`` rows.

    ``rows`` is a pytree of arrays with a common leading axis; ``fn`` maps one row to an array. The backward
    pass recomputes each block instead of keeping it.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    block = max(1, min(count, TILE_ELEMENTS // num_columns))

    @jax.checkpoint
    def block_sum(part: Any) -> Array:
        return jax.vmap(fn)(part).sum(0)

    whole, rest = divmod(count, block)
    blocks = jax.tree.map(lambda a: a[: whole * block].reshape(whole, block, *a.shape[1:]), rows)
    start = jnp.zeros_like(jax.eval_shape(fn, jax.tree.map(lambda a: a[0], rows)))
    total, _ = lax.scan(lambda acc, part: (acc + block_sum(part), None), start, blocks)
    if rest:
        total = total + block_sum(jax.tree.map(lambda a: a[whole * block :], rows))
    return total


def in_one_block(count: int, bytes_per_row: int) -> bool:
    """Whether `map_in_blocks` takes all rows at once."""
    return count == 1 or count * bytes_per_row <= BLOCK_BYTES


def map_in_blocks(fn: Callable[..., Array], rows: Any, bytes_per_row: int) -> Array:
    """``fn`` of all rows at once, or of blocks of rows in turn where ``BLOCK_BYTES`` would be exceeded."""
    count = jax.tree.leaves(rows)[0].shape[0]
    if in_one_block(count, bytes_per_row):
        return fn(rows)
    num_blocks = min(count, -(-count * bytes_per_row // BLOCK_BYTES))
    block = -(-count // num_blocks)
    num_blocks = -(-count // block)

    def in_blocks(a: Array) -> Array:  # the last block is filled up with copies of the last row
        filled = jnp.concatenate([a, jnp.repeat(a[-1:], num_blocks * block - count, axis=0)])
        return filled.reshape(num_blocks, block, *a.shape[1:])

    out = lax.map(jax.checkpoint(fn), jax.tree.map(in_blocks, rows))
    return out.reshape(-1, *out.shape[2:])[:count]
