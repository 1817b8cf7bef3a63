"""A step of training promotes neither a precision nor a rank by itself."""

import jax
import jax.numpy as jnp
import optax
import pytest

from slicestein import learning
from tests.unit.standard_input import X

pytestmark = pytest.mark.usefixtures("strict")
SGD = optax.sgd(0.05)  # Adam of optax raises a float to an integer


def critic(params, x):
    return x @ params


TRAINERS = {
    "maxsksd-g": lambda score: learning.maxsksd(score, SGD, slice_optimizer=SGD),
    "maxsksd-rg": lambda score: learning.maxsksd(score, SGD, optimize="rg", slice_optimizer=SGD),
    "ksd": lambda score: learning.ksd(score, SGD),
    "lsd": lambda score: learning.lsd(score, SGD, critic, jnp.eye(3, dtype=jnp.float32), critic_optimizer=SGD),
    "amortised": lambda score: learning.amortised_svgd(lambda z, x, key: z, score, SGD),
    "amortised sliced": lambda score: learning.amortised_sliced_svgd(
        lambda z, x, key: z, score, SGD, slice_optimizer=SGD
    ),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_a_step_promotes_nothing(name):
    x = jnp.asarray(X, jnp.float32)
    if name.startswith("amortised"):
        method, params, batch = TRAINERS[name](lambda z, x: -z), x[None], None
    else:
        method, params, batch = TRAINERS[name](lambda scale, x: -scale * x), jnp.ones((), jnp.float32), x
    state, info, *_ = method.step(method.init(params, batch), batch, jax.random.key(0))
    assert info.loss.dtype == jnp.float32
    assert jax.tree.leaves(state.params)[0].dtype == jnp.float32
