"""Slices: pairs of directions (r, g).

A slice looks at the score along r and at the samples along g. The letters are the paper's: r projects the
score, g the input of the test function (label "eq: SSD").
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._checks import InputError
from slicestein.kernels import AnyArray, namespace


class Slices(eqx.Module):
    """M pairs of unit directions; rows are normalised at construction.

    Parameters
    ----------
    r
        Score directions, (M, D).
    g
        Input directions, (M, D). With a ``feature_map`` they live in the space of the features.

    Examples
    --------
    >>> from slicestein import Slices
    >>> Slices([[3.0, 4.0]], [[0.0, 2.0]]).g.tolist()
    [[0.0, 1.0]]
    """

    r: Float[Array, "m d"]
    g: Float[Array, "m e"]

    def __init__(self, r: Any, g: Any):
        self.r, self.g = (_unit_rows(name, rows) for name, rows in (("r", r), ("g", g)))
        if self.r.shape[0] != self.g.shape[0]:
            raise InputError(f"r and g must have as many rows, got {self.r.shape[0]} and {self.g.shape[0]}")

    @property
    def num(self) -> int:
        """Number of slices, M."""
        return self.r.shape[0]

    @property
    def dim(self) -> int:
        """Dimension of the samples and scores, D."""
        return self.r.shape[1]

    @classmethod
    def basis(cls, dim: int) -> Slices:
        """r = g = the coordinate axes: one slice per coordinate."""
        return cls(np.eye(dim), np.eye(dim))

    @classmethod
    def random(cls, key: Any, num: int, dim: int) -> Slices:
        """Both directions uniform on the sphere and independent, as in label "eq: SSD"."""
        r, g = jax.random.normal(_checks.as_key(key), (2, num, dim))
        return cls(r, g)


def unit_rows(rows: AnyArray) -> AnyArray:
    """Rows of length one, of JAX or of NumPy."""
    return rows / namespace(rows).linalg.norm(rows, axis=1, keepdims=True)


def _unit_rows(name: str, rows: Any) -> Float[Array, "m d"]:
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind == "f":
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
        rows = rows / np.where(largest > 0, largest, 1)  # squares of very large or small numbers overflow
    checked = _checks.directions(name, rows)
    if not _checks.is_concrete(checked):
        return unit_rows(checked)
    return _checks.to_jax(unit_rows(np.asarray(checked)))  # in NumPy, where nothing is compiled
