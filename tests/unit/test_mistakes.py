"""Mistakes of the input: they are told, and are not taken for mistakes of the sampler."""

import numpy as np
import pytest

import slicestein as ss
from tests.unit.standard_input import autoregression


def correlated(rng, shape=(4, 500, 3)):
    """Draws of a normal law with correlations 0.8, and their scores."""
    covariance = 0.8 * np.ones((3, 3)) + 0.2 * np.eye(3)
    x = rng.standard_normal(shape) @ np.linalg.cholesky(covariance).T
    return 5 + 2 * x, -x @ np.linalg.inv(covariance) / 2


@pytest.mark.parametrize("twin", [0, 2])
def test_a_chain_that_is_a_copy_is_refused(twin):
    x, score = correlated(np.random.default_rng(0))
    assert ss.gof_test(x, score, key=0).verdict == "fits"
    x[3], score[3] = x[twin], score[twin]
    with pytest.raises(ss.InputError, match=f"chains {twin + 1} and 4 of x are the same draws: give every run a seed"):
        ss.gof_test(x, score, key=0)
    streamed = ss.rows.open(iter(x), lambda x: -x, chains=4)
    with pytest.raises(ss.InputError, match=f"chains {twin + 1} and 4 of x are the same draws"):
        ss.gof_test(streamed, key=0)


def test_chains_that_begin_alike_are_not_copies():
    """One start for all, and moves that are refused at first."""
    x = autoregression(0.5, 4, 400, 2)
    x[:, :20] = 0.0
    assert ss.gof_test(x, -x, key=0).verdict == "fits"


@pytest.mark.parametrize("shape", [(2000, 3), (4, 500, 3)])
def test_a_score_of_the_wrong_sign_is_called_that(shape):
    x, score = correlated(np.random.default_rng(0), shape)
    result = ss.gof_test(x, -score, key=0)
    assert result.verdict == "wrong"
    assert result.notes == (
        "the score looks like the gradient of MINUS the log-density: turn its sign (check_score compares a score with "
        "the log-density)",
    )
    assert result.summary().splitlines()[1] == "  " + result.notes[0]
    assert ss.gof_test(x, score, key=0).notes == ()


def test_a_derivative_of_the_wrong_sign_is_named():
    x, score = correlated(np.random.default_rng(0), (2000, 3))
    result = ss.gof_test(x, score * [1, -1, 1], key=0, names=["a", "b", "c"])
    assert "MINUS the log-density in b: turn its sign" in result.notes[0]
    wide = np.random.default_rng(0).standard_normal((2000, 8))
    result = ss.gof_test(wide, wide * np.array([-1, 1, 1, 1, 1, 1, -1, 1]), key=0)
    assert "in x[1], x[2], x[3] and 3 more" in result.notes[0]


@pytest.mark.parametrize("wrong", ["wide", "narrow", "shifted", "rotated", "modes", "tails"])
def test_a_wrong_sampler_is_not_accused_of_its_score(wrong):
    rng = np.random.default_rng(0)
    x, score = rng.standard_normal((2000, 4)), lambda x: -x
    if wrong == "wide":
        x *= 3
    elif wrong == "narrow":
        x *= 0.1
    elif wrong == "shifted":
        x += 4
    elif wrong == "rotated":
        x[:, 1] = x[:, 0] + 0.01 * x[:, 1]
    elif wrong == "tails":
        x = rng.standard_t(1.5, x.shape)
    else:  # between two modes of the model, where its log-density is convex
        score = lambda x: 3 * np.tanh(3 * x) - x
    result = ss.gof_test(x, score, key=0)
    assert result.verdict == "wrong"
    assert result.notes == ()


def test_chains_with_their_axes_exchanged_get_a_note():
    x = np.random.default_rng(0).standard_normal((4, 100, 2))
    assert ss.gof_test(x, -x, key=0).notes == ()
    turned = x.swapaxes(0, 1)
    assert ss.gof_test(turned, -turned, key=0).notes[0].startswith("x is 100 chains of 4 draws each")


def test_samples_in_columns_get_a_hint():
    x = np.random.default_rng(0).standard_normal((5, 300))
    with pytest.raises(ss.InputError, match=r"too few samples to split: 5 .* of an array \(D, N\) pass x.T"):
        ss.gof_test(x, -x, key=0)


def test_faults_of_a_column_name_its_parameter():
    x = np.random.default_rng(0).standard_normal((300, 3))
    x[:, 1] = 2.0
    with pytest.raises(ss.InputError, match=r"column 1 of x \(chain\) does not vary"):
        ss.gof_test(x, -x, key=0, names=["a", "chain", "b"])
    with pytest.raises(ss.InputError, match="column 1 of x does not vary"):
        ss.gof_test(x, -x, key=0)
    x[7, 1] = np.nan
    with pytest.raises(ss.InputError, match=r"the first at \(7, 1\) \(chain\): drop those samples"):
        ss.gof_test(x, -x, key=0, names=["a", "chain", "b"])


def test_what_has_seen_nothing_is_not_called_minus_infinity():
    x = np.random.default_rng(0).standard_normal((1501, 6))
    x[-1] = 1e6
    text = str(ss.gof_test(x, -x, key=0))
    assert "inf" not in text
    assert "< -9" in text
    assert "... and 1 more parameter\n" in text


def test_bounds_are_mentioned_where_the_density_does_not_fade():
    rng = np.random.default_rng(0)
    half = np.abs(rng.standard_normal((1000, 3)))
    (note,) = ss.gof_test(half, -half, key=0, names=["a", "b", "c"]).notes
    assert note.startswith("all samples of a, b, c are positive, down to zero: if the model bounds them")
    gamma = rng.gamma(6, size=(1000, 2))  # right, with a density that fades at zero
    assert ss.gof_test(gamma, 5 / gamma - 1, key=0).notes == ()


def test_columns_that_count_chains_or_draws_are_no_parameters():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 2)), columns=["a", ".draw"])
    with pytest.raises(ss.InputError, match=r"x has a column '\.draw', which is no parameter: drop it"):
        ss.gof_test(table, lambda x: -x, key=0)


def test_names_are_a_list_of_strings():
    x = np.random.default_rng(0).standard_normal((100, 3))
    with pytest.raises(ss.InputError, match="names must be a list of names"):
        ss.gof_test(x, -x, key=0, names="abc")
    assert ss.gof_test(x, -x, key=0, names=[0, 1, 2]).names == ("0", "1", "2")
