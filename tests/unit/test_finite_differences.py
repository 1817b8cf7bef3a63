"""check_score: a wrong derivative is found and named, a right one is not accused, in any arithmetic."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss

RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((6, 6)) / 3 + np.eye(6)
PRECISION = ROOT @ ROOT.T
CENTRE = np.array([0, 1e3, -1e-3, 5, 0, 0])
X = CENTRE + RNG.standard_normal((300, 6)) @ np.linalg.inv(ROOT)
SCORE = -(X - CENTRE) @ PRECISION


def in_numpy(x):
    return -0.5 * (x - CENTRE) @ PRECISION @ (x - CENTRE)


def in_jax(x):
    return -0.5 * jnp.dot(x - CENTRE, PRECISION @ (x - CENTRE))


def in_torch(x):
    torch = pytest.importorskip("torch")
    return -0.5 * (x - torch.tensor(CENTRE)) @ torch.tensor(PRECISION) @ (x - torch.tensor(CENTRE))


def torch_is_here(function):
    if function is in_torch:
        pytest.importorskip("torch")


@pytest.mark.parametrize("log_density", [in_numpy, in_jax, in_torch])
def test_the_wrong_derivative_is_named(log_density):
    torch_is_here(log_density)
    wrong = SCORE.copy()
    wrong[:, 3] *= 1 + 2e-3
    with jax.enable_x64(True):  # single precision hides so small an error where samples are 1000 from the origin
        right = ss.check_score(log_density, SCORE, X)
        found = ss.check_score(log_density, wrong, X, names=list("abcdef"))
    assert right.ok
    assert right.resolution < 1e-3
    assert not found.ok
    assert [(e.name, e.coordinate) for e in found.errors] == [("d", 3)]
    row = found.errors[0].rows[0]
    assert found.errors[0].score == wrong[row, 3]
    assert found.errors[0].derivative == pytest.approx(SCORE[row, 3], rel=1e-6)


WORDS = [
    (lambda s: -s, "its sign is wrong"),
    (lambda s: 2 * s, "it is 2 times what it should be"),
    (lambda s: s - 1, "it is off by -1 everywhere"),
    (lambda s: 0 * s, "it is zero"),
    (lambda s: s + s**2, "it is wrong"),
]


@pytest.mark.parametrize(("change", "words"), WORDS)
def test_what_is_wrong_is_said(change, words):
    wrong = SCORE.copy()
    wrong[:, 0] = change(wrong[:, 0])
    text = str(ss.check_score(in_numpy, wrong, X))
    assert text.startswith("the score is NOT the gradient of the log-density (100 rows")
    assert f"\n  x[0]: {words} (10 of 10 rows; row " in text
    assert len(text.splitlines()) == 2


def test_samples_far_from_the_origin_are_not_accused():
    """At 1000 a step is rounded by 1e-10 of itself, which is measured with the rest."""
    for key in range(20):
        assert ss.check_score(in_numpy, SCORE, X, key=key).ok


@pytest.mark.parametrize("centre", [1e8, 2.0**20])  # at a power of two the spacing of numbers changes
def test_samples_very_far_from_the_origin(centre):
    far = centre + RNG.standard_normal((100, 2)) * [1, 1e-3]
    found = ss.check_score(lambda x: -0.5 * np.sum((x - centre) ** 2), centre - far, far)
    assert found.ok, str(found)
    assert found.resolution < 1e-3


def test_a_few_wrong_rows_are_found():
    """They are where the random direction disagrees, and are then looked at along every coordinate."""
    wrong = SCORE[:100].copy()
    wrong[[17, 42], 4] += 0.1
    found = ss.check_score(in_numpy, wrong, X[:100])
    assert [e.name for e in found.errors] == ["x[4]"]
    assert sorted(found.errors[0].rows) == [17, 42]
    assert "2 of 10 rows" in str(found)


DENSITIES = {
    "Cauchy": lambda x: -jnp.sum(jnp.log1p(x**2)),
    "two modes": lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 2) ** 2), -0.5 * jnp.sum((x + 2) ** 2)),
    "funnel": lambda x: -(x[0] ** 2) / 18 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * x[0] * (x.size - 1),
    "a sum of many": lambda x: (
        jnp.sum(jax.nn.log_sigmoid(jnp.linspace(-1, 1, 1000)[:, None] * x)) - 0.1 * jnp.sum(x**4)
    ),
    "a large constant": lambda x: 3e4 - 0.5 * jnp.sum(x**2),
}


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("double", [True, False])
def test_right_scores_are_not_accused(name, double):
    with jax.enable_x64(double):
        for key in range(3):
            x = np.random.default_rng(key).standard_normal((100, 10))
            found = ss.check_score(DENSITIES[name], ss.score_from(DENSITIES[name]), x, key=key)
            assert found.ok, str(found)


def test_what_rounding_hides_is_said():
    x = RNG.standard_normal((100, 3))
    with jax.enable_x64(False):
        found = ss.check_score(lambda x: 3e5 - 0.5 * jnp.sum(x**2), -x, x)
    assert found.ok
    assert found.resolution > 0.1
    assert str(found).startswith("no error of the score was found, but rounding hides any below")


def test_chains_bounds_and_columns_that_do_not_vary():
    x = np.abs(RNG.standard_normal((2, 50, 2))) + 1e-6
    x[..., 1] = 3.0
    with np.errstate(invalid="ignore", divide="ignore"):
        found = ss.check_score(lambda x: np.sum(np.log(x) - x), 1 / x - 1, x)
    assert found.ok


def test_many_coordinates_fit_into_memory():
    """The points of a row, 4 D of D numbers each, are made in parts."""
    x = RNG.standard_normal((3, 3000))
    score = -x
    score[:, 2999] *= 2
    found = ss.check_score(lambda x: -0.5 * (x @ x), score, x)
    assert [e.coordinate for e in found.errors] == [2999]


FAULTS = [
    (dict(log_density=3), "log_density must be a function, got int"),
    (dict(log_density=lambda x: x), r"log_density must return one number for one sample, got shape \(6,\)"),
    (dict(log_density=lambda x: np.nan), r"log_density is not finite at row \d+ of x"),
    (dict(names=["a"]), "names must hold 6 names, one per column of x, got 1"),
    (dict(score=SCORE[:5]), r"score must have the shape of x"),
]


@pytest.mark.parametrize(("change", "message"), FAULTS)
def test_faults_are_told(change, message):
    arguments = dict(log_density=in_numpy, score=SCORE, x=X) | change
    with pytest.raises(ss.InputError, match=message):
        ss.check_score(**arguments)


def test_a_density_that_is_finite_at_the_samples_alone():
    known = {row.tobytes() for row in X}
    with pytest.raises(ss.InputError, match="not finite beside any row"):
        ss.check_score(lambda x: 0.0 if x.tobytes() in known else -np.inf, SCORE, X)


@pytest.mark.parametrize("stored", [lambda s: s.astype(np.float32).astype(float), lambda s: np.round(s, 5)])
def test_a_score_in_single_precision_or_with_few_digits_is_not_accused(stored):
    x = np.random.default_rng(0).standard_normal((300, 4))
    assert ss.check_score(lambda x: -0.5 * np.sum(x**2), stored(-x), x).ok
    assert not ss.check_score(lambda x: -0.5 * np.sum(x**2), stored(-x) * [1, 1.001, 1, 1], x).ok
