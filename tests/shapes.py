"""The type checker that the import hook of jaxtyping puts on every function of the package (see `conftest`)."""

import beartype
import numpy as np

# Sums in NumPy end as scalars of its own, and a whole number is good enough where a float is asked for.
NUMBERS = {float: float | int | np.floating, np.ndarray: np.ndarray | np.generic}
checked = beartype.beartype(conf=beartype.BeartypeConf(hint_overrides=beartype.FrozenDict(NUMBERS)))
