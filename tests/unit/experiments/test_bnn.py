"""The posterior of the Bayesian networks, their evaluation, and how settings are chosen and compared."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

import slicestein as ss
from experiments import bnn, runner


def networks(num_inputs):
    return jax.tree.map(np.asarray, bnn.start(jax.random.key(0), num_inputs))


def density(network, x, y):
    """Log-density by scipy, with all constants, in the logarithms of both precisions."""
    noise, weight = np.exp(network["log_noise_precision"]), np.exp(network["log_weight_precision"])
    output = np.maximum(x @ network["w1"] + network["b1"], 0) @ network["w2"] + network["b2"]
    weights = np.concatenate([np.ravel(network[name]) for name in ("w1", "b1", "w2", "b2")])
    precisions = np.array([noise, weight])
    return (
        scipy.stats.norm.logpdf(y, output, noise**-0.5).sum()
        + scipy.stats.norm.logpdf(weights, 0, weight**-0.5).sum()
        + (scipy.stats.gamma.logpdf(precisions, 1.0, scale=1 / 0.1) + np.log(precisions)).sum()
    )


def test_posterior_is_that_of_scipy_up_to_a_constant():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    particles = networks(3)
    ours, theirs = [], []
    for i in range(5):
        network = {name: value[i] for name, value in particles.items()}
        ours.append(float(bnn.log_posterior(network, x, y, num_data=20)))
        theirs.append(density(network, x, y))
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), rtol=1e-10)


def test_a_batch_stands_for_all_data():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    network = {name: value[0] for name, value in networks(3).items()}
    whole = bnn.log_posterior(network, np.tile(x, (4, 1)), np.tile(y, 4), num_data=80)
    np.testing.assert_allclose(bnn.log_posterior(network, x, y, num_data=80), whole, rtol=1e-12)


def test_the_best_choice_is_best_on_average(monkeypatch):
    (low, high), (scale, _) = bnn.LEARNING_RATES["boston"], bnn.SCALES["svgd"]
    values = {low: (1.0, 1.0), high: (9.0, -9.0)}  # the second is best on one split
    rows = [
        cell | {"log_likelihood": values[cell["learning_rate"]][cell["trial"]] - (cell["scale"] != scale)}
        for cell in bnn.cells("tune")
        if cell["data"] == "boston"
    ]
    monkeypatch.setattr(runner, "load", lambda name, cells: [r for r in rows if r["method"] == cells[0]["method"]])
    assert bnn.best("boston", "svgd") == (low, scale)
    rows.pop()
    with pytest.raises(SystemExit, match="run --preset tune first"):
        bnn.best("boston", "s-svgd")


def test_evaluation_is_that_of_a_mixture_in_the_units_of_the_data():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((7, 3)), 40 + 5 * rng.standard_normal(7)
    particles = networks(3)
    found = bnn.evaluate(particles, {"x_test": x, "y_test": y, "y_mean": 40.0, "y_std": 5.0})
    hidden = np.maximum(np.einsum("ni,pih->pnh", x, particles["w1"]) + particles["b1"][:, None], 0)
    mean = 40 + 5 * (np.einsum("pnh,ph->pn", hidden, particles["w2"]) + particles["b2"][:, None])
    deviation = 5 * np.exp(-particles["log_noise_precision"] / 2)[:, None]
    mixture = scipy.stats.norm.pdf(y, mean, deviation).mean(0)
    np.testing.assert_allclose(found["log_likelihood"], np.log(mixture).mean(), rtol=1e-6)
    np.testing.assert_allclose(found["rmse"], np.sqrt(((mean.mean(0) - y) ** 2).mean()), rtol=1e-6)


def test_training_is_a_loop_of_steps_with_snapshots():
    rng = np.random.default_rng(3)
    x, y = (jnp.asarray(rng.standard_normal(shape), "float32") for shape in ((10, 3), 10))
    start, key = bnn.start(jax.random.key(0), 3), jax.random.key(1)
    history = bnn.trainer("yacht", "svgd", 4, 1e-2, 1.0, 10)(start, x, y, key)

    score = jax.vmap(jax.grad(functools.partial(bnn.log_posterior, num_data=10)), in_axes=(0, None, None))
    algorithm = ss.svgd(score, optax.rmsprop(optax.cosine_decay_schedule(1e-2, 4), decay=0.9))
    state, seen = algorithm.init(start), []
    for i in range(4):  # one batch an epoch
        rows = jax.random.randint(jax.random.fold_in(key, i), (10,), 0, 10)
        state, _ = algorithm.step(state, x[rows], y[rows])
        seen.append(state.particles["w2"])
    np.testing.assert_allclose(history["w2"], np.stack(seen)[[1, 3]], rtol=1e-8)


def test_the_table_compares_trials_that_both_methods_have():
    def row(method, trial, log_likelihood, spread=1.0, **more):
        run = {"data": "power", "method": method, "trial": trial}
        return run | {"log_likelihood": log_likelihood, "spread": spread} | more

    rows = [
        row("svgd", 0, -2.0, rmse=4.0, seconds=1.0),
        row("svgd", 1, -4.0, rmse=6.0, seconds=3.0),
        row("svgd", 2, 100.0, rmse=0.0, seconds=9.0),
        row("s-svgd", 1, -3.5, rmse=5.0, seconds=6.0, spread=2.5, best_log_likelihood=-3.25),
        row("s-svgd", 0, -1.9, rmse=5.0, seconds=4.0, spread=1.5, best_log_likelihood=-1.9),
    ]
    (line,) = bnn.table(rows).splitlines()[2:]
    assert line == (
        "| power | 2 | 5.000 ± 1.000 | 5.000 ± 0.000 | 3.979, 3.914 | -3.000 ± 1.000 | -2.700 ± 0.800 | -2.802, -2.786 "
        "| 0.3000 ± 0.2000 | 2.0 | 2 / 5 |"
    )
    assert bnn.leak_table(rows).splitlines()[2:] == []  # of one method only
    rows[1]["best_log_likelihood"] = -3.0
    assert bnn.leak_table(rows).splitlines()[2:] == ["| power | 1 | 1.000 | 0.250 |"]
