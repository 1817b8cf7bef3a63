"""BlackJAX: from the states of a run to a verdict."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss

blackjax = pytest.importorskip("blackjax")


def logdensity_fn(position):
    return -0.5 * jnp.sum(position["b"] ** 2) - 0.5 * (position["a"] - 1) ** 2 / 4


def run(key, num=400):
    """A quarter of an orbit at a time, which makes draws nearly independent."""
    kernel = blackjax.hmc(
        logdensity_fn, step_size=0.5, inverse_mass_matrix=jnp.array([4.0, 1.0, 1.0]), num_integration_steps=3
    )
    state = kernel.init({"a": jnp.array(1.0), "b": jnp.zeros(2)})
    return jax.lax.scan(lambda s, k: (kernel.step(k, s)[0],) * 2, state, jax.random.split(key, num))[1]


def test_one_chain():
    states = run(jax.random.key(0))
    draws = ss.adapters.from_blackjax(states, logdensity_fn)
    assert draws.x.shape == (1, 400, 3)
    assert draws.names == ("a", "b[0]", "b[1]")
    # The sampler has stored the same gradient.
    stored = states.logdensity_grad
    np.testing.assert_allclose(draws.score[0, :, 0], stored["a"])
    np.testing.assert_allclose(draws.score[0, :, 1:], stored["b"])
    assert not ss.gof_test(draws.x, draws.score, names=draws.names, key=0, alpha=0.01).reject
    other = ss.adapters.from_blackjax(states, lambda position: 2 * logdensity_fn(position))
    assert ss.gof_test(other.x, other.score, names=other.names, key=0, alpha=0.01).reject


def test_chains_may_come_first_or_second():
    states = jax.vmap(run)(jax.random.split(jax.random.key(1), 3))
    first = ss.adapters.from_blackjax(states, logdensity_fn, chain_axis=0)
    swapped = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), states)
    second = ss.adapters.from_blackjax(swapped, logdensity_fn, chain_axis=1)
    assert first.x.shape == (3, 400, 3)
    np.testing.assert_array_equal(first.x, second.x)
    with pytest.raises(ValueError, match=r"stacked as \(3, 400\): say which axis"):
        ss.adapters.from_blackjax(states, logdensity_fn)


def test_positions_alone_are_refused():
    with pytest.raises(ValueError, match="must have position and logdensity, got dict"):
        ss.adapters.from_blackjax({"a": jnp.zeros(3)}, logdensity_fn)


def test_a_single_state_is_refused():
    state = jax.tree.map(lambda leaf: leaf[0], run(jax.random.key(0), 3))
    with pytest.raises(ValueError, match="keep the state of every step"):
        ss.adapters.from_blackjax(state, logdensity_fn)


class States(NamedTuple):
    position: Any
    logdensity: Any


FAULTS = [
    ({"a": np.arange(5), "b": np.ones(5)}, (5,), None, "position a holds int64: it has no score"),
    ({"a": np.ones((4, 5))}, (5,), None, r"position a has shape \(4, 5\), but the states are stacked as \(5,\)"),
    ({"a": np.ones(5)}, (5,), 1, "one chain: leave chain_axis out"),
]


@pytest.mark.parametrize(("position", "lead", "chain_axis", "message"), FAULTS)
def test_states_that_are_not_stacked_alike_are_refused(position, lead, chain_axis, message):
    with pytest.raises(ValueError, match=message):
        ss.adapters.from_blackjax(States(position, np.zeros(lead)), logdensity_fn, chain_axis=chain_axis)


def test_single_precision_is_refused_where_it_cannot_tell_draws_apart():
    x = 1e8 + np.random.default_rng(0).standard_normal(50)
    states = States(x, np.zeros(50))
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"single precision.*jax_enable_x64"):
        ss.adapters.from_blackjax(states, lambda p: -0.5 * (p - 1e8) ** 2)
    draws = ss.adapters.from_blackjax(states, lambda p: -0.5 * (p - 1e8) ** 2)
    np.testing.assert_allclose(draws.score[0, :, 0], 1e8 - x, atol=1e-6)


def test_check_takes_states_and_the_density_that_was_sampled():
    states = jax.vmap(run)(jax.random.split(jax.random.key(1), 3))
    assert ss.check(logdensity_fn, states, chain_axis=0).verdict == "fits"
    wrong = ss.check(lambda position: logdensity_fn(position) - 1.5 * position["a"] ** 2, states, chain_axis=0)
    assert (wrong.verdict, wrong.parameters[0].name) == ("wrong", "a")
    with pytest.raises(ss.InputError, match="with states of BlackJAX no more arguments are needed, got steps"):
        ss.check(logdensity_fn, states, steps=3)
