r"""Encoders that learn to give what particles would find (label "alg: Amortized SVGD"; Feng et al. 2017).

An encoder with parameters $\eta$ turns a data point x and noise into K latent samples. These are a particle set of
their own, and take one step of SVGD or S-SVGD towards the posterior; the encoder follows them:

$$
z_k = f_\eta(x, \epsilon_k), \qquad z_k^* = z_k + \epsilon \phi(z_k), \qquad
\eta \leftarrow \text{optimiser step on } \frac1{BK} \sum_{b, k} |z_{bk} - z_{bk}^*|^2, \quad z^* \text{ held fixed} .
$$

No density of the encoder is needed, so any network with noise inside will do. The moved samples are handed back: the
decoder is trained on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from slicestein import _checks
from slicestein._checks import InputError
from slicestein._stein import bandwidths, engine
from slicestein._stein.operator import Projected, in_units_of, project
from slicestein.kernels import RBF, Kernel
from slicestein.samplers._svgd import force as svgd_force
from slicestein.slices import unit_rows

if TYPE_CHECKING:
    import optax

SampleFn = Callable[[Any, Any, Array], Array]
ScoreFn = Callable[..., Array]


class Lines(NamedTuple):
    """Slices of all data points, with r the coordinate axes, and the state of their optimiser."""

    g: Float[Array, "d d"]
    optimizer: Any


class State(NamedTuple):
    """Parameters of the encoder, and what its updates remember."""

    params: Any
    optimizer: Any
    step: Int[Array, ""]
    slices: Lines | None  # None in the full space


class Info(NamedTuple):
    """Diagnostics of one update, taken before the encoder moved; means over data points.

    ``loss``: squared distance between samples and moved samples.
    ``discrepancy``: V-statistic of the samples against the posterior.
    ``spread``: root mean square distance of the samples of a data point from their mean, per dimension.
    """

    loss: Float[Array, ""]
    discrepancy: Float[Array, ""]
    spread: Float[Array, ""]


class Algorithm(NamedTuple):
    """``init(params, x) -> state`` and ``step(state, x, key, *arguments) -> (state, info, moved)``."""

    init: Callable[[Any, Any], State]
    step: Callable[..., tuple[State, Info, Float[Array, "b k d"]]]


def amortised_svgd(
    sample_fn: SampleFn,
    score_fn: ScoreFn,
    optimizer: optax.GradientTransformation,
    *,
    step_size: float = 0.1,
    kernel: Kernel = RBF(),
) -> Algorithm:
    """Encoder updates by SVGD in the full space (labels "alg: Amortized SVGD", "eq: SVGD Update").

    Parameters
    ----------
    sample_fn
        ``sample_fn(params, x, key)``: K latent samples for each of B data points, of shape (B, K, D), K at least 2.
    score_fn
        ``score_fn(z, x, *arguments)``: gradient in z of log p(x, z), of the shape of z.
    optimizer
        Any optax optimiser, for the parameters of the encoder, a pytree of arrays.
    step_size
        Length of the one step that the samples take.
    kernel
        Kernel in the latent space; the median rule looks at the samples of each data point.

    Returns
    -------
    Algorithm: ``init(params, x)``, where only the shape of x counts; ``step(state, x, key, *arguments)`` gives the next
    state, an `Info` and the moved samples (B, K, D). Arguments go to the score: a decoder that learns along.
    Cost of a step, beyond the networks: O(B K^2 D).

    Examples
    --------
    >>> import jax, optax
    >>> import slicestein.learning as learning
    >>> def sample(params, x, key):  # x of shape (B, D): noise of a learned scale around it
    ...     return x[:, None] + params * jax.random.normal(key, (len(x), 20, x.shape[1]))
    >>> method = learning.amortised_svgd(sample, lambda z, x: x[:, None] - z, optax.adam(0.05))
    >>> x = jax.random.normal(jax.random.key(0), (10, 1))
    >>> state = method.init(jax.numpy.array(0.1), x)
    >>> for seed in range(200):
    ...     state, info, moved = method.step(state, x, seed)
    >>> bool(abs(state.params - 1) < 0.2)
    True
    """
    _checks.positive(step_size=step_size)
    _checks.kernel(kernel, 1)

    def find_force(z: Array, s: Array, _: None) -> tuple[Array, Array, None]:
        found = jax.vmap(lambda one, score: svgd_force(one, score, kernel))(z, s)
        return found.total, found.discrepancy.mean(), None

    return _algorithm(sample_fn, score_fn, optimizer, step_size, find_force, lambda z: None)


def amortised_sliced_svgd(
    sample_fn: SampleFn,
    score_fn: ScoreFn,
    optimizer: optax.GradientTransformation,
    *,
    step_size: float = 0.1,
    kernel: Kernel = RBF(),
    slice_optimizer: optax.GradientTransformation | None = None,
) -> Algorithm:
    """Encoder updates by S-SVGD (labels "alg: Amortized SVGD", "alg: S_SVGD").

    Parameters
    ----------
    sample_fn, score_fn, optimizer, step_size
        As in `amortised_svgd`.
    kernel
        Kernel on each line; the median rule looks at the samples of each data point on each line.
    slice_optimizer
        Any optax optimiser, for the directions g (D, D), which all data points share; by default Adam with step 0.001.
        They start at the coordinate axes and take one step of ascent per update.

    Returns
    -------
    Algorithm, as in `amortised_svgd`. Cost of a step, beyond the networks: O(B K D^2).

    Notes
    -----
    Differs from the paper: the directions climb at the samples before their move, where the score is known already,
    and serve from the next update on.

    A sample is repelled along its lines only, but the 1/K of its own score in the force pulls in all directions. Where
    coordinates of the posterior are correlated, an encoder can follow that pull, which nothing balances while the
    directions stay near the axes, until they are more correlated than they should be (seen at D = 2, K = 50).
    """
    _checks.positive(step_size=step_size)
    if slice_optimizer is None:
        import optax  # when it is needed, not when the package is imported

        slice_optimizer = optax.adam(1e-3)
    _checks.is_optimizer("slice_optimizer", slice_optimizer)

    def init_slices(z: jax.ShapeDtypeStruct) -> Lines:
        _checks.kernel(kernel, z.shape[2])
        g = jnp.eye(z.shape[2], dtype=_checks.float_type(z.dtype))
        return Lines(g, slice_optimizer.init(g))

    def find_force(z: Array, s: Array, lines: Lines) -> tuple[Array, Array, Lines]:
        force, discrepancy, gradient = sliced_force(z, s, lines.g, kernel)
        updates, optimizer_state = slice_optimizer.update(-gradient, lines.optimizer, lines.g)
        return force, discrepancy.mean(), Lines(unit_rows(lines.g + updates), optimizer_state)

    return _algorithm(sample_fn, score_fn, optimizer, step_size, find_force, init_slices)


def sliced_force(
    z: Float[Array, "b k d"], s: Float[Array, "b k d"], g: Float[Array, "d d"], kernel: Kernel
) -> tuple[Float[Array, "b k d"], Float[Array, " b"], Float[Array, "d d"]]:
    """The S-SVGD force within each of B particle sets, their discrepancies, and the gradient in g of the mean of these.

    The lines of all sets are rows of one array (B D, K), so that one pass gives all three. Cost: O(B K D^2).
    """
    count, size, dim = z.shape

    def rows(part: Float[Array, "d bk"]) -> Float[Array, "bd k"]:
        return part.reshape(dim, count, -1).swapaxes(0, 1).reshape(count * dim, -1)

    def project_all(g: Array) -> Projected:
        flat = project(z.reshape(-1, dim), s.reshape(-1, dim), None, g, jnp.ones(dim, z.dtype))
        lines = Projected(rows(flat.u), rows(flat.a), jnp.tile(flat.c, (count, 1)))
        medians = bandwidths.on_lines(kernel, lines.u.reshape(count, dim, size))
        return in_units_of(lines, medians.ravel())

    data, pull_back = jax.vjp(project_all, g)
    value, gradient = engine.value_and_gradient(data, kernel)
    (in_g,) = pull_back(jax.tree.map(lambda part: part / count, gradient))
    witness = (gradient.a * (size / 2)).reshape(count, dim, size)
    return witness.swapaxes(1, 2), value.reshape(count, dim).sum(1), in_g


def _algorithm(
    sample_fn: SampleFn,
    score_fn: ScoreFn,
    optimizer: optax.GradientTransformation,
    step_size: float,
    find_force: Callable[..., tuple[Array, Array, Any]],
    init_slices: Callable[[jax.ShapeDtypeStruct], Any],
) -> Algorithm:
    _checks.is_function("sample_fn", sample_fn)
    _checks.is_function("score_fn", score_fn)
    _checks.is_optimizer("optimizer", optimizer)

    def init(params: Any, x: Any) -> State:
        params = _checks.numbers(params, "params")
        z = eqx.filter_eval_shape(sample_fn, params, x, jax.random.key(0))
        if len(getattr(z, "shape", ())) != 3 or z.shape[1] < 2:
            raise InputError(
                "sample_fn(params, x, key) must return shape (B, K, D) with K, samples of one data point, at least 2, "
                f"got {getattr(z, 'shape', type(z).__name__)}"
            )
        return State(params, optimizer.init(eqx.filter(params, eqx.is_array)), jnp.zeros((), jnp.int32), init_slices(z))

    @eqx.filter_jit
    def update(state: State, x: Any, key: Array, *arguments: Any) -> tuple[State, Info, Array]:
        z, pullback = eqx.filter_vjp(lambda params: _checks.floating(sample_fn(params, x, key)), state.params)
        s = score_fn(z, x, *arguments)
        if jnp.shape(s) != z.shape:
            raise InputError(f"score_fn(z, x) must return the shape of z, {z.shape}, got {jnp.shape(s)}")
        force, discrepancy, slices = find_force(z, s.astype(z.dtype), state.slices)
        shift = step_size * force
        samples = z.shape[0] * z.shape[1]
        (gradient,) = pullback(-2 * shift / samples)  # of |z - z*|^2, averaged, with z* held fixed
        arrays, rest = eqx.partition(state.params, eqx.is_array)
        updates, optimizer_state = optimizer.update(gradient, state.optimizer, arrays)
        params = eqx.combine(jax.tree.map(lambda p, u: (p + u).astype(p.dtype), arrays, updates), rest)
        info = Info(jnp.sum(shift**2) / samples, discrepancy, jnp.sqrt(z.var(1).mean()))
        return State(params, optimizer_state, state.step + 1, slices), info, z + shift

    def step(state: State, x: Any, key: Any, *arguments: Any) -> tuple[State, Info, Array]:
        return update(state, x, _checks.as_key(key), *arguments)

    return Algorithm(init, step)
