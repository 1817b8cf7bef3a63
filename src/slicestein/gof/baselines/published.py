r"""maxSKSD as its authors ran it (labels "eq: maxSKSD", "eq: maxSKSD rg", "alg: GOF Test").

Directions start at random and climb the V-statistic of minibatches of the training part,

$$
\max_{g} \sum_{m} \widehat{V}\Big(\frac{r_m}{|r_m|}, \frac{g_m}{|g_m|}\Big),
$$

by Adam on rows of any length, with every step taken and nothing held out; the test is the U-statistic of the other
rows along what was found, with multinomial weights. `MaxSKSD` is what we use instead.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from slicestein import _checks
from slicestein._stein import sliced
from slicestein.gof.maxsksd import MaxSKSD
from slicestein.gof.method import Method, Problem, independent, split
from slicestein.gof.null import Kind
from slicestein.gof.result import GofResult
from slicestein.kernels import RBF, Kernel
from slicestein.slices import Slices, unit_rows

ADAM = {"b1": 0.9, "b2": 0.99}  # of the released code; the paper states the learning rate only

Samples = tuple[Float[Array, "n d"], Float[Array, "n d"]]


def start_directions(
    rng: np.random.Generator, dim: int, start: Literal["unit", "normal"]
) -> dict[str, Float[np.ndarray, "d d"]]:
    """r, the coordinate axes, and g, random rows: of length one, or normal entries as they are."""
    g = rng.standard_normal((dim, dim))
    return {"r": np.eye(dim), "g": unit_rows(g) if start == "unit" else g}


@functools.partial(jax.jit, static_argnames=("epochs", "batch_size", "move_r"))
def climb(
    rows: dict[str, Float[Array, "m d"]],
    samples: Samples,
    key: Array,
    kernel: Kernel,
    learning_rate: float | Float[Array, ""],
    *,
    epochs: int,
    batch_size: int,
    move_r: bool,
) -> dict[str, Float[Array, "m d"]]:
    """Rows after so many epochs of Adam on the summed V-statistic; r moves too, or only g.

    Cost: O(N D M) for an epoch over N samples.
    """
    import optax  # which others need not wait for

    count = samples[0].shape[0]
    optimizer = optax.adam(learning_rate, **ADAM)
    fixed = {} if move_r else {"r": rows["r"]}
    first = rows if move_r else {"g": rows["g"]}

    def loss(moving: dict[str, Array], batch: Samples) -> Array:
        both = fixed | moving
        problem = sliced.problem(*batch, unit_rows(both["r"]), unit_rows(both["g"]), kernel)
        return -jnp.sum(sliced.statistics(problem, kernel, statistic="v"))

    def step(state: tuple[Any, Any], batch: Array) -> tuple[tuple[Any, Any], None]:
        moving, memory = state
        gradient = jax.grad(loss)(moving, (samples[0][batch], samples[1][batch]))
        updates, memory = optimizer.update(gradient, memory)
        return (optax.apply_updates(moving, updates), memory), None

    def epoch(state: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], None]:
        order = jax.random.permutation(key, count)[: count // batch_size * batch_size]
        return lax.scan(step, state, order.reshape(-1, batch_size))

    (last, _), _ = lax.scan(epoch, (first, optimizer.init(first)), jax.random.split(key, epochs))
    return fixed | last


@dataclasses.dataclass(frozen=True)
class PublishedMaxSKSD(Method):
    """maxSKSD with the paper's search for slices: Adam from random directions.

    For comparison with `MaxSKSD`, which starts from closed forms and needs no steps. For independent samples only.

    Parameters
    ----------
    optimize
        ``"g"``: r stays at the coordinate axes (maxSKSD-g); ``"rg"``: r starts there and moves too (maxSKSD-rg).
    epochs, batch_size
        Passes over the training part, in random batches; a rest smaller than a batch is left out of a pass. The
        paper does not state them; the released code has 1000 to 1500 passes, in batches of 50.
    learning_rate
        Of Adam.
    start
        Random rows of g of length one (``"unit"``, the paper's text), or normal entries as they are (``"normal"``, the
        released code). Adam turns a row by an angle that is inverse to its length: the second is the slower.
    kernel
        Kernel on each slice. The median rule looks at the batch, then at the tested rows.
    bootstrap
        ``"multinomial"``, as in the paper, ``"wild"`` or ``"eigenvalues"``.

    Notes
    -----
    Cost: O(N D^2) for an epoch, with N the training rows; then that of `MaxSKSD` with given slices.

    Differs from the paper: the median rule leaves the distance of a sample to itself out.

    Examples
    --------
    >>> import numpy as np
    >>> import slicestein as ss
    >>> x = np.random.default_rng(0).laplace(scale=0.5**0.5, size=(1000, 3))
    >>> ss.gof_test(x, -x, key=0, method=ss.gof.PublishedMaxSKSD(epochs=200)).reject
    True
    """

    optimize: Literal["g", "rg"] = "g"
    epochs: int = 1000
    batch_size: int = 50
    learning_rate: float = 1e-3
    start: Literal["unit", "normal"] = "unit"
    kernel: Kernel = RBF()
    bootstrap: Kind = "multinomial"
    label: ClassVar[str] = "maxsksd"

    def __post_init__(self) -> None:
        _checks.one_of("optimize", self.optimize, ("g", "rg"))
        _checks.one_of("start", self.start, ("unit", "normal"))
        _checks.one_of("bootstrap", self.bootstrap, ("multinomial", "wild", "eigenvalues"))
        _checks.positive(epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate)
        _checks.kernel(self.kernel, 1)

    @property
    def name(self) -> str:
        """``"maxsksd-g-published"`` or ``"maxsksd-rg-published"``."""
        return f"{self.label}-{self.optimize}-published"

    def test(self, problem: Problem) -> GofResult:
        """Choose slices on a part of the rows, test the others."""
        train, tested = split(independent(problem, self.name), problem)
        _checks.columns_vary(train.flat[0])
        slices = self.choose(*train.flat, problem.rng)
        along = MaxSKSD(self.optimize, kernel=self.kernel, bootstrap=self.bootstrap, slices=slices)
        found = along.test(problem._replace(rows=tested))
        return dataclasses.replace(found, method=self.name, num_train=train.num_samples)

    def choose(self, x: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"], rng: np.random.Generator) -> Slices:
        """Slices from training samples and their scores."""
        rows = start_directions(rng, x.shape[1], self.start)
        found = climb(
            {name: jnp.asarray(some.astype(x.dtype)) for name, some in rows.items()},
            (jnp.asarray(x), jnp.asarray(s)),
            jax.random.key(rng.integers(2**32)),
            self.kernel,
            self.learning_rate,
            epochs=self.epochs,
            batch_size=min(self.batch_size, len(x)),
            move_r=self.optimize == "rg",
        )
        return Slices(np.asarray(found["r"]), np.asarray(found["g"]))
