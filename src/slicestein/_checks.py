"""Input validation: the only place that raises about arrays.

Checks look at shapes and dtypes always, and at values only where they are concrete, so that every public
function still works under ``jit``, ``vmap`` and ``grad``. Each message names the argument, what was found and
what to do about it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

ArrayLike = Array | np.ndarray
ScoreLike = ArrayLike | Callable[[Array], Any]


class InputError(ValueError):
    """What was passed in cannot be used; the message names the argument, what was found and what to do.

    A `ValueError` of its own, so that faults of the input can be told from faults of the package.
    """


class ColumnError(InputError):
    """Bad input in one column; the column's name, where it is known, belongs between the two parts of the message."""

    def __init__(self, column: int, where: str, says: str):
        super().__init__(f"{where}{says}")
        self.column, self.where, self.says = column, where, says


@contextlib.contextmanager
def naming(names: Sequence[str] | None) -> Iterator[None]:
    """Say the name of the parameter where bad input is in one column."""
    try:
        yield
    except ColumnError as error:
        if names is None or error.column >= len(names):
            raise
        raise InputError(f"{error.where} ({names[error.column]}){error.says}") from None


def is_concrete(*arrays: Any) -> bool:
    """Whether the values of all arrays can be looked at now."""
    return not any(isinstance(a, jax.core.Tracer) for a in arrays)


def as_key(key: Any) -> Array:
    """Turn an int seed or a JAX key into a typed key."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key)
    raise InputError(f"key must be an int seed or a jax.random.key, got {type(key).__name__}")


def as_generator(key: Any) -> np.random.Generator:
    """Turn an int seed or a JAX key into a NumPy generator."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and key >= 0:
        return np.random.default_rng(int(key))
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))))


def one_of(name: str, value: Any, allowed: Collection[str]) -> None:
    """Require that an option is one of the allowed strings."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {sorted(allowed)}, got {value!r}")


def positive(**values: Any) -> None:
    """Require that numbers are positive."""
    for name, value in values.items():
        if is_concrete(value) and not (eqx.is_array_like(value) and value > 0):
            raise InputError(f"{name} must be positive, got {value!r}")


def not_negative(**values: Any) -> None:
    """Require that numbers are zero or positive."""
    for name, value in values.items():
        if is_concrete(value) and not value >= 0:
            raise InputError(f"{name} must not be negative, got {value!r}")


def is_function(name: str, value: Any) -> None:
    """Require something that can be called."""
    if not callable(value):
        raise InputError(f"{name} must be a function, got {type(value).__name__}")


def is_optimizer(name: str, value: Any) -> None:
    """Require an optax optimiser: a pair of ``init`` and ``update``."""
    if not (callable(getattr(value, "init", None)) and callable(getattr(value, "update", None))):
        raise InputError(f"{name} must be an optax optimiser, such as optax.adam(0.01), got {value!r}")


def float_type(dtype: Any) -> Any:
    """The floating type that arrays of this type are computed in: at least single precision."""
    wide = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits >= 32
    return jnp.dtype(dtype if wide else jnp.float32)


def floating(value: Any) -> Array:
    """An array of at least single precision."""
    array = jnp.asarray(value)
    return array.astype(float_type(array.dtype))


def from_torch(value: Any) -> Any:
    """A tensor as a NumPy array, of the same memory where it can be; anything else as it is. Torch is not imported."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    values = value.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def unpack(x: Any, score: Any = None) -> tuple[Any, Any, Any]:
    """Samples, scores and names; where x is what an adapter returned, those inside."""
    if score is not None:
        return x, score, None
    if not all(hasattr(x, name) for name in ("x", "score", "names")):
        raise InputError(
            "score is missing: pass the gradient of the log-density at x or a function that gives it, or what an "
            f"adapter returned (slicestein.adapters) as x; got {type(x).__name__}"
            + (". A fit with its model goes into slicestein.check(model, fit)" if hasattr(x, "posterior") else "")
        )
    return x.x, x.score, x.names


def by_column(x: Any, score: Any) -> Any:
    """Scores in the order of the columns of x, where both are tables of pandas or the like."""
    columns, of_score = (getattr(table, "columns", None) for table in (x, score))
    if columns is None or of_score is None or np.ndim(x) != 2:
        return score
    for here, there, others in (("x", "score", of_score), ("score", "x", columns)):
        known = set(map(str, others))
        for name in map(str, columns if here == "x" else of_score):
            if name not in known:
                raise InputError(f"{here} has a column {name!r}, which {there} has not: name the columns alike")
    return score[list(columns)]


# Columns that tables of draws have beside the parameters: of R's posterior, of ArviZ, of Stan.
NO_PARAMETERS = (".chain", ".iteration", ".draw", "chain", "draw", "iteration", "lp__")


def are_parameters(where: str, names: Iterable[Any]) -> None:
    """Require that no column counts chains or draws: it would be tested as a parameter."""
    for name in map(str, names):
        if name in NO_PARAMETERS:
            raise InputError(
                f"{where} has a column {name!r}, which is no parameter: drop it. Draws of several chains go in as an "
                "array (chains, draws, D)"
            )


def numbers(tree: Any, name: str) -> Any:
    """A pytree with its numbers as floating arrays; what is none, such as a function in a network, stays as it is."""
    if not any(eqx.is_array_like(leaf) for leaf in jax.tree.leaves(tree)):
        raise InputError(f"{name} must be a pytree that holds numbers, got {tree!r:.100}")
    return jax.tree.map(lambda leaf: floating(leaf) if eqx.is_array_like(leaf) else leaf, tree)


def to_jax(value: Any) -> Array:
    """An array of JAX; one of NumPy is handed over without a program, and is a value even where JAX is tracing."""
    value = from_torch(value)
    if not isinstance(value, np.ndarray):
        return jnp.asarray(value)
    with jax.ensure_compile_time_eval():
        return jax.device_put(value)


def as_matrix(name: str, value: Any, *, columns: str = "D") -> Float[Array, "n d"]:
    """Return a two-dimensional floating array, at least single precision."""
    try:
        array = to_jax(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a numeric array of shape (N, {columns}): {error}") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating) or not jnp.issubdtype(array.dtype, jnp.number):
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 2:
        hint = f"; for one-dimensional samples pass {name}[:, None]" if array.ndim == 1 else ""
        raise InputError(f"{name} must have shape (N, {columns}), got {array.shape}{hint}")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no columns: got shape {array.shape}")
    dtype = float_type(array.dtype)
    return array if array.dtype == dtype else array.astype(dtype)  # a conversion is a program, even to the same type


def orthogonal(name: str, value: Any, dim: int) -> None:
    """Require the shape (dim, dim), and rows of length one at right angles."""
    if np.shape(value) != (dim, dim):
        raise InputError(f"{name} must have shape ({dim}, {dim}), one direction per row, got {np.shape(value)}")
    if is_concrete(value) and not np.allclose(np.asarray(value) @ np.asarray(value).T, np.eye(dim), atol=1e-3):
        raise InputError(f"{name} must be orthogonal, its rows of length 1 and at right angles")


def finite(**arrays: Any) -> None:
    """Require finite values, and say where the first bad one is."""
    for name, array in arrays.items():
        if is_concrete(array) and not np.isfinite(values := np.asarray(array)).all():
            bad = ~np.isfinite(values)
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            found = f"{name} has {int(bad.sum())} values that are NaN or infinite, the first at {where}"
            raise ColumnError(where[-1], found, ": drop those samples or mend the model")


def no_flat_score(score: Float[np.ndarray, "n d"]) -> None:
    """Require that the model depends on every parameter."""
    flat = ~score.any(axis=0)
    if flat.any():
        says = " is zero at every sample, as if the density were flat: mend the score of the model"
        first = int(np.argmax(flat))
        raise InputError(f"score{says}") if flat.all() else ColumnError(first, f"column {first} of score", says)


def in_range(**arrays: Float[np.ndarray, "n d"]) -> None:
    """Require that fourth powers of values around their mean neither overflow nor vanish in their precision."""
    for name, values in arrays.items():
        size, limits = float(np.abs(values - values.mean(0)).max()), np.finfo(values.dtype)
        if size and not float(limits.tiny) ** 0.25 <= size <= float(limits.max) ** 0.25:
            raise InputError(
                f"{name} has values of about {size:.0e}, too {'large' if size > 1 else 'small'} for {values.dtype}: "
                "change the units of the parameters, x * c with score / c"
            )


def origin_of(x: Any) -> Float[np.ndarray, " d"] | float:
    """The mean of samples that JAX will cut to single precision, where they are still known better; else 0."""
    x = from_torch(x)
    if not isinstance(x, np.ndarray) or x.dtype != np.float64 or x.ndim != 2 or jax.config.read("jax_enable_x64"):
        return 0.0
    return x.mean(0)


def samples_and_score(
    x: Any, score: ScoreLike, *, origin: Any = 0.0
) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
    """Validate samples and the score given as an array or as a batched function of the samples.

    Samples are returned as seen from ``origin``: see `origin_of`.
    """
    score = by_column(x, score)
    given, x = from_torch(x), as_matrix("x", x)
    if x.shape[0] < 2:
        raise InputError(f"x must hold at least two samples, got shape {x.shape}")
    if callable(score):
        values = score(given) if np.ndim(origin) else score(x)  # where x is known better than JAX will hold it
        shape = getattr(values, "shape", None)
        if shape != x.shape:
            raise InputError(
                f"score(x) must return shape {x.shape}, the shape of x, got {shape}: pass a function of the "
                "whole batch, for example score_from(log_density)"
            )
    else:
        values = score
    s = as_matrix("score", values)
    if s.shape != x.shape:
        raise InputError(f"score must have the shape of x, {x.shape}, got {s.shape}")
    finite(x=x, score=s)
    if np.ndim(origin):
        x = as_matrix("x", given - origin)
    dtype = max(x.dtype, s.dtype, key=lambda dtype: dtype.itemsize)
    return x.astype(dtype), s.astype(dtype)


def columns_vary(x: Any, name: str = "x", remedy: str = "drop it, or mend the sampler") -> None:
    """Require that no column is constant."""
    if is_concrete(x) and (constant := np.ptp(np.asarray(x), axis=0) == 0).any():
        first = int(np.argmax(constant))
        raise ColumnError(first, f"column {first} of {name}", f" does not vary: {remedy}")


def rows_differ(x: Any, name: str = "x", remedy: str = "mend the sampler") -> None:
    """Require that the rows are not all the same."""
    if is_concrete(x) and not np.ptp(np.asarray(x), axis=0).any():
        raise InputError(f"no column of {name} varies, all rows are the same: {remedy}")


def bandwidth_exists(kernel: Any, x: Any) -> None:
    """Require that samples differ, if the bandwidth is to be the median distance between them."""
    if kernel.bandwidth is None:
        rows_differ(x, "x", "mend the sampler, or pass a fixed bandwidth")


def as_wide_as(x: Any, **others: Any) -> None:
    """Require that other samples have as many columns as x."""
    for name, other in others.items():
        if other.shape[-1] != x.shape[-1]:
            raise InputError(f"{name} has {other.shape[-1]} columns, x has {x.shape[-1]}: pass samples of one model")


def kernel(value: Any, num_slices: int) -> None:
    """Require a kernel with positive bandwidths, one or as many as slices."""
    if not hasattr(value, "derivatives"):
        raise InputError(f"kernel must be RBF(), IMQ(), Matern() or another Kernel, got {value!r}")
    bandwidth(value.bandwidth, num_slices)
    bandwidth(value.scale, num_slices, "scale")


def directions(name: str, value: Any) -> Float[Array, "m d"]:
    """Rows that can be made to have length one."""
    rows = as_matrix(name, value)
    if rows.shape[0] == 0:
        raise InputError(f"{name} has no rows: got shape {rows.shape}")
    finite(**{name: rows})
    if is_concrete(rows) and not (lengths := np.linalg.norm(np.asarray(rows), axis=1)).all():
        raise InputError(f"{name} has a row of zeros (row {int(np.argmin(lengths))}): it has no direction")
    return rows


def slices_fit(slices: Any, *, score_dim: int, input_dim: int) -> None:
    """Require that directions live in the space of the scores and of the inputs."""
    for name, rows, dim in (("r", slices.r, score_dim), ("g", slices.g, input_dim)):
        if rows.shape[1] != dim:
            raise InputError(f"slices.{name} has dimension {rows.shape[1]}, but the samples have {dim}")


def bandwidth(value: Any, num_slices: int, name: str = "bandwidth") -> None:
    """Require a positive number or one positive number per slice; None stands for the median rule."""
    if value is None:
        return
    shape = jnp.shape(value)
    if shape not in ((), (num_slices,)):
        raise InputError(f"{name} must be a number or have shape ({num_slices},), got shape {shape}")
    if is_concrete(value) and not bool(np.all(np.asarray(value) > 0)):
        raise InputError(f"{name} must be positive, got {value!r}")


def spread(bandwidths: Any) -> None:
    """Require that the samples differ along every slice: the median rule has found a bandwidth."""
    if is_concrete(bandwidths) and not (positive := np.asarray(bandwidths) > 0).all():
        index = int(np.argmin(positive))
        raise InputError(
            f"x does not vary along slice {index}: the median bandwidth is zero. Drop constant columns of x "
            "or pass a fixed bandwidth"
        )
