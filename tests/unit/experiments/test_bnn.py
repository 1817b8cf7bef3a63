"""The posterior of the Bayesian networks, and that nothing of the test part is seen before the end."""

import os

import jax
import numpy as np
import pytest
import scipy.stats

from experiments import bnn, data, runner


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
        network = {name: value[i].astype(float) for name, value in particles.items()}
        ours.append(float(bnn.log_posterior(network, x, y, num_data=20)))
        theirs.append(density(network, x, y))
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), rtol=1e-4)


def test_a_batch_stands_for_all_data():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    network = {name: value[0] for name, value in networks(3).items()}
    whole = bnn.log_posterior(network, np.tile(x, (4, 1)), np.tile(y, 4), num_data=80)
    np.testing.assert_allclose(bnn.log_posterior(network, x, y, num_data=80), whole, rtol=1e-5)


def test_the_best_choice_is_best_on_average(monkeypatch):
    (low, high), (scale, _) = bnn.LEARNING_RATES["yacht"], bnn.SCALES["svgd"]
    made = ((low, (1.0, 1.0)), (high, (9.0, -9.0)))  # the second is best on one split
    rows = [
        {"data": "yacht", "method": "svgd", "learning_rate": rate, "scale": s, "log_likelihood": value - (s != scale)}
        for rate, values in made
        for value in values
        for s in bnn.SCALES["svgd"]
    ]
    monkeypatch.setattr(runner, "load", lambda name: rows)
    assert bnn.best("yacht", "svgd") == (low, scale)


@pytest.mark.skipif(not os.environ.get("SLICESTEIN_DATA"), reason="SLICESTEIN_DATA is not set")
def test_training_sees_nothing_of_the_test_part(monkeypatch):
    split = data.uci_split("yacht", 3)
    whole = data.load("uci/yacht")
    order = np.random.RandomState(1)
    for _ in range(4):
        rows = order.permutation(len(whole["y"]))
    held_out = rows[round(0.9 * len(rows)) :]
    np.testing.assert_array_equal(split["y_test"], whole["y"][held_out])

    altered = {name: value.copy() for name, value in whole.items()}
    altered["x"][held_out] += 100.0
    altered["y"][held_out] = 1e6
    monkeypatch.setattr(data, "load", lambda name: altered)
    other = data.uci_split("yacht", 3)
    for found, expected in ((other, split), (data.validation_split(other, 3), data.validation_split(split, 3))):
        for name in ("x_train", "y_train", "y_mean", "y_std"):
            np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(data.validation_split(other, 3)["x_test"], data.validation_split(split, 3)["x_test"])


@pytest.mark.skipif(not os.environ.get("SLICESTEIN_DATA"), reason="SLICESTEIN_DATA is not set")
def test_validation_rows_are_training_rows_left_out():
    split = data.uci_split("yacht", 0)
    part = data.validation_split(split, 0)
    together = np.concatenate([part["x_train"], part["x_test"]])
    assert len(part["x_test"]) == round(0.1 * len(split["x_train"]))
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(split["x_train"], axis=0))


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
        "| 0.300 ± 0.200 | 2.0 | 2 / 5 |"
    )
    assert bnn.leak_table(rows).splitlines()[2:] == []  # of one method only
    rows[1]["best_log_likelihood"] = -3.0
    assert bnn.leak_table(rows).splitlines()[2:] == ["| power | 1 | 1.000 | 0.125 |"]
