"""From what a sampler returned to draws and scores in the unconstrained space, one function per package.

>>> import slicestein as ss
>>> draws = ss.adapters.from_nutpie(trace)                                            # doctest: +SKIP
>>> result = ss.gof_test(draws, key=0)                                                # doctest: +SKIP

Each package is imported when its function is called.
"""

from slicestein.adapters.arviz import from_arviz
from slicestein.adapters.blackjax import from_blackjax
from slicestein.adapters.bridgestan import from_bridgestan
from slicestein.adapters.cmdstan import from_cmdstan
from slicestein.adapters.draws import Draws
from slicestein.adapters.numpyro import from_numpyro
from slicestein.adapters.nutpie import from_nutpie
from slicestein.adapters.pymc import from_pymc
from slicestein.adapters.pystan import from_pystan

__all__ = [
    "Draws",
    "from_arviz",
    "from_blackjax",
    "from_bridgestan",
    "from_cmdstan",
    "from_numpyro",
    "from_nutpie",
    "from_pymc",
    "from_pystan",
]
