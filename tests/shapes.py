"""The type checker that the import hook of jaxtyping puts on every function of the package (see `conftest`)."""

import typing

import beartype
import numpy as np

# Sums in NumPy end as scalars of its own, and a whole number is good enough where a float is asked for.
NUMBERS = {float: float | int | np.floating, np.ndarray: np.ndarray | np.generic}
_beartype = beartype.beartype(conf=beartype.BeartypeConf(hint_overrides=beartype.FrozenDict(NUMBERS)))


def checked(function):
    """Check the arrays that a function takes and returns, with their shapes.

    Arguments that hold no array with a shape are for the door to check, and it is tested with wrong ones.
    """
    hints = getattr(function, "__annotations__", {})
    function.__annotations__ = {name: _relaxed(hint) if _has_shape(hint) else object for name, hint in hints.items()}
    return _beartype(function)


def _is_shaped(hint):
    return hasattr(hint, "dim_str")


def _has_shape(hint):
    return _is_shaped(hint) or any(map(_has_shape, typing.get_args(hint)))


def _relaxed(hint):
    """Scalars of NumPy are arrays of shape ()."""
    if _is_shaped(hint) and hint.array_type is np.ndarray and all(dim[0] in "*." for dim in hint.dim_str.split()):
        return hint | hint.dtype[np.generic, hint.dim_str]
    return hint
