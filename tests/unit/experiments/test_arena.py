"""The problems of the arena: densities are densities, scores are scores, and what is said to be wrong is."""

import numpy as np
import pytest

from experiments import arena
from experiments.arena_problems import COEFFICIENT, PROBLEMS, draw, likelihood_ratio, mixing, null_ratios

KINDS = {(p.law, p.size): name for name, p in PROBLEMS.items()}  # each law and size once


def grid(dim):
    """Points and the volume of each."""
    line = np.linspace(-14, 14, 28001 if dim == 1 else 561)
    return np.stack(np.meshgrid(*[line] * dim), -1).reshape(-1, dim), (line[1] - line[0]) ** dim


@pytest.mark.parametrize("name", KINDS.values())
def test_likelihood_ratio_is_that_of_the_draws(name):
    problem = PROBLEMS[name]
    law, dim = problem.law(problem.size), 2 if "pair" in name or name == "all contaminated" else 1
    points, volume = grid(dim)
    with np.errstate(divide="ignore"):
        mass = np.exp(law.log_ratio(points) - 0.5 * np.sum(points**2, axis=1)) * volume / (2 * np.pi) ** (dim / 2)
    # The grid loses what is beyond it, 1e-4 of t(3).
    assert np.sum(mass) == pytest.approx(1, abs=2e-4)
    drawn = law.draw(np.random.default_rng(0), 100_000, dim)
    for function in (
        lambda y: y[:, 0],
        lambda y: np.minimum(y[:, -1] ** 2, 9),
        lambda y: np.tanh(y[:, 0]) ** 3,
        lambda y: np.minimum(y[:, 0] ** 2, 4) * np.minimum(y[:, -1] ** 2, 4),
    ):
        values = function(drawn)
        error = 4 * values.std() / np.sqrt(len(values))
        assert values.mean() == pytest.approx(np.sum(mass * function(points)), abs=error + 1e-3)


@pytest.mark.parametrize("name", ["one skewed", "one skewed, correlated", "all skewed, rotated", "all t(5)"])
def test_score_is_that_of_the_model(name):
    """Its products with draws of the model have the mean -I, and the spread of products of normal variables."""
    data = draw(name, 0, 20_000, 6)
    s = data.score_fn(data.model)
    noise = np.outer(s.std(0), data.model.std(0)) / np.sqrt(len(s))
    assert np.all(np.abs(s.T @ data.model / len(s) + np.eye(6)) < 6 * noise)


def test_the_wrong_parameter_is_the_one_that_is_named():
    for name in ("one shifted", "one shifted, correlated"):
        data = draw(name, 3, 50_000, 8)
        off = np.abs(data.x.mean(0))
        assert np.argmax(off) == data.wrong
        assert off[data.wrong] == pytest.approx(PROBLEMS[name].size, abs=0.02)
    assert draw("one shifted, rotated", 3, 100, 8).wrong is None
    assert draw("all shifted", 3, 100, 8).wrong is None


def test_the_correlated_model_is_a_process_in_random_order():
    matrix, first = mixing("correlated", np.random.default_rng(0), 10)
    covariance = matrix @ matrix.T
    np.testing.assert_allclose(np.diag(covariance), 1, rtol=1e-12)
    np.testing.assert_allclose(sorted(covariance[np.triu_indices(10, 1)])[-9:], COEFFICIENT, rtol=1e-12)
    np.testing.assert_allclose(matrix[first], np.eye(10)[0], atol=1e-12)  # the first coordinate and nothing else


def test_the_likelihood_ratio_test_has_its_level_and_sees():
    name, n, d = "all skewed, rotated", 60, 4
    law, null = PROBLEMS[name].law(PROBLEMS[name].size), null_ratios(name, n, d)
    rng = np.random.default_rng(1)
    fresh = np.array([np.sum(law.log_ratio(rng.standard_normal((n, d)))) for _ in range(500)])
    assert 8 <= np.sum(fresh > np.quantile(null, 0.95)) <= 48
    assert np.mean([likelihood_ratio(name, draw(name, seed, n, d).y) <= 0.05 for seed in range(50)]) > 0.2


def test_all_problems_have_a_batch_before_any_has_two():
    cells = arena.cells("paper")
    assert len(PROBLEMS) >= 24
    firsts = [cell["first"] for cell in cells]
    assert firsts == sorted(firsts)
    assert {c["d"] for c in cells if c["problem"] == arena.BOLTZMANN} == {50}
