"""The door of NumPy: precision is kept, shapes are found, and messages name the argument and the remedy."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import slicestein as ss
from slicestein._checks import InputError
from slicestein.rows.arrays import as_chains, as_rows, score_at
from tests.unit.standard_input import normal

X = normal(20, 3)


@pytest.fixture(autouse=True)
def _default_precision():
    with jax.enable_x64(False):
        yield


# --- precision ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("float64", "float64"),
        ("float32", "float32"),
        ("float16", "float32"),
        (ml_dtypes.bfloat16, "float32"),
        ("longdouble", "float64"),
        ("int32", "float64"),
        ("uint8", "float64"),
        ("bool", "float64"),
    ],
)
def test_precision_is_kept_and_at_least_single(given, kept):
    x = (4 * X).astype(given)
    found, scores = as_rows(x, x)
    assert type(found) is np.ndarray
    assert found.dtype == scores.dtype == kept
    np.testing.assert_array_equal(found, x.astype(kept))


def test_values_that_single_precision_cannot_tell_apart_are_kept():
    """JAX at its default would round them all to 1e9."""
    x = 1e9 + X
    np.testing.assert_array_equal(as_rows(x, -X)[0], x)
    far, near = (ss.gof_test(z, -X, key=0, method="ksd", num_bootstrap=19) for z in (x, X))
    np.testing.assert_allclose(far.statistic, near.statistic, rtol=1e-5)
    assert far.pvalue == near.pvalue


def test_numbers_beyond_single_precision_are_finite():
    x = X.copy()
    x[3, 1] = 1e300
    np.testing.assert_array_equal(as_rows(x, -x)[0], x)


@pytest.mark.parametrize(("x_type", "s_type"), [("float64", "float32"), ("float32", "float64"), ("float16", "float64")])
def test_samples_and_scores_have_one_type_the_better_one(x_type, s_type):
    x, s = as_rows(X.astype(x_type), X.astype(s_type))
    assert x.dtype == s.dtype == np.float64


def test_nothing_is_copied_that_is_as_it_should_be():
    x, s = as_rows(X, -X)
    assert np.shares_memory(x, X)
    assert not np.shares_memory(s, X)


def test_arrays_of_jax_and_lists_are_arrays():
    for value in (jnp.asarray(X), X.tolist()):
        x, s = as_rows(value, value)
        np.testing.assert_allclose(x, X, rtol=1e-6)
        np.testing.assert_array_equal(x, s)


# --- shapes ------------------------------------------------------------------------------------


def test_rows_are_one_chain_without_order_and_chains_keep_theirs():
    rows, chains = as_chains(X, -X), as_chains(X.reshape(4, 5, 3), -X.reshape(4, 5, 3))
    assert (rows.x.shape, rows.ordered) == ((1, 20, 3), False)
    assert (chains.x.shape, chains.ordered) == ((4, 5, 3), True)
    for part in (rows, chains):
        assert (part.num_samples, part.dim) == (20, 3)
        np.testing.assert_array_equal(part.flat[0], X)
        np.testing.assert_array_equal(part.flat[1], -X)


def test_a_part_is_the_same_stretch_of_every_chain():
    part = as_chains(X.reshape(4, 5, 3), -X.reshape(4, 5, 3)).part(slice(3, None))
    np.testing.assert_array_equal(part.x, X.reshape(4, 5, 3)[:, 3:])
    np.testing.assert_array_equal(part.s, -part.x)
    assert part.ordered


def test_a_score_function_sees_all_rows_of_all_chains_at_once():
    seen = []

    def score(x):
        seen.append(x.shape)
        return -x

    chains = as_chains(X.reshape(4, 5, 3), score)
    assert seen == [(20, 3)]
    np.testing.assert_array_equal(chains.s, -chains.x)


def test_a_score_function_gets_the_samples_in_their_own_precision():
    def score(x):
        assert type(x) is np.ndarray
        assert x.dtype == np.float64
        return -(x - 1e9)

    _, s = as_rows(1e9 + X, score)
    np.testing.assert_allclose(s, -X, atol=2e-7)  # the spacing of doubles at 1e9


# --- scores in single precision ----------------------------------------------------------------

FAR = X + np.array([0.0, 1e9, 0.0])


def test_a_score_that_cannot_tell_the_samples_apart_is_refused():
    """In single precision numbers at 1e9 are 64 apart: the score would be wrong in every row, and say nothing."""
    with pytest.raises(InputError) as caught:
        ss.gof_test(FAR, lambda x: -(jnp.asarray(x) - jnp.array([0, 1e9, 0])), key=0)
    message = str(caught.value)
    for part in ("score(x) works in single precision", "column 1", "1e+09", "jax_enable_x64", "shift the parameter"):
        assert part in message
    assert "as an array" in message


def test_the_remedies_help():
    as_rows(FAR, -X)  # an array
    as_rows(FAR, lambda x: -(x - np.array([0, 1e9, 0])))  # NumPy
    as_rows(X, jnp.negative)  # shifted
    with jax.enable_x64(True):
        _, s = as_rows(FAR, lambda x: -(jnp.asarray(x) - jnp.array([0, 1e9, 0])))
    np.testing.assert_allclose(s, -X, atol=2e-7)


@pytest.mark.parametrize(("offset", "refused"), [(1e3, False), (1e5, False), (1e6, True), (1e8, True)])
def test_the_bound_is_where_rounding_is_a_twentieth_of_the_spread(offset, refused):
    """Spacing 0.0625 at 1e6, 0.0078 at 1e5."""
    x = offset + normal(500, 1)
    if refused:
        with pytest.raises(InputError, match="single precision"):
            as_rows(x, jnp.negative)
    else:
        as_rows(x, jnp.negative)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_a_column_that_does_not_vary_is_called_that(value):
    """It is not a matter of precision, and to switch x64 on would not help."""
    x = X.copy()
    x[:, 1] = value
    as_rows(x, jnp.negative)
    with pytest.raises(InputError, match="column 1 of x does not vary"):
        ss.fit_slices(x, jnp.negative, key=0)


# --- messages ----------------------------------------------------------------------------------

SPOILT = X.copy()
SPOILT[4, 1] = np.nan
SPOILT[7, 2] = np.inf

FAULTS = [
    (X[:, 0], X[:, 0], r"x must have shape \(N, D\) or \(chains, draws, D\), got \(20,\); .* pass x\[:, None\]"),
    (X[None, None], X[None, None], r"x must have shape .* got \(1, 1, 20, 3\)"),
    (np.float64(3.0), 1.0, r"x must have shape .* got \(\)"),
    (X[:, :0], X[:, :0], r"x must have shape .* got \(20, 0\)"),
    (X[:0], X[:0], r"x must have shape .* got \(0, 3\)"),
    (X[:1], X[:1], r"x must hold at least two samples, got shape \(1, 3\)"),
    (SPOILT, X, r"x has 2 values that are NaN or infinite, the first at \(4, 1\): drop those samples"),
    (X, SPOILT, r"score has 2 values that are NaN or infinite, the first at \(4, 1\)"),
    (SPOILT.reshape(4, 5, 3), X.reshape(4, 5, 3), r"the first at \(0, 4, 1\)"),
    (X, X[:10], r"score must have the shape of x, \(20, 3\), got \(10, 3\)"),
    (X, lambda x: x[0], r"score\(x\) must return shape \(20, 3\).*got \(3,\): .* score_from\(log_density\)"),
    (X, lambda x: 1.0, r"score\(x\) must return shape \(20, 3\).*got None"),
    (X, lambda x: 1j * x, r"score\(x\) must hold real numbers, got dtype complex128"),
    (X.astype(complex), X, "x must hold real numbers, got dtype complex128"),
    (X.astype(str), X, "x must hold real numbers, got dtype <U"),
    ([[1.0, 2.0], [3.0]], X, r"x must be a numeric array of shape \(N, D\).*lengths from 1 to 2; cut chains"),
    ([X, X[:7]], [X, X[:7]], "its parts have lengths from 7 to 20; cut chains to the shortest"),
    ("draws.npy", X, r"x is a path: open the file with slicestein.rows.open\('draws.npy', score\)"),
    (X, None, "score must hold real numbers, got dtype object"),
]


@pytest.mark.parametrize(("x", "score", "message"), FAULTS, ids=[message for _, _, message in FAULTS])
def test_faults_name_the_argument_and_the_remedy(x, score, message):
    with pytest.raises(InputError, match=message):
        as_chains(x, score)


def test_other_samples_have_their_own_name():
    with pytest.raises(InputError, match="train has 2 values that are NaN"):
        as_chains(SPOILT, X, "train")
    with pytest.raises(InputError, match="the score of train has 2 values that are NaN"):
        as_chains(X, SPOILT, "train")
    with pytest.raises(InputError, match=r"the score of train must have the shape of train, \(20, 3\)"):
        as_rows(X, X[:10], "train")


def test_chains_where_rows_are_asked_for():
    with pytest.raises(
        InputError, match=r"x must have shape \(N, D\), got \(4, 5, 3\): lay chains one after the other"
    ):
        as_rows(X.reshape(4, 5, 3), X.reshape(4, 5, 3))


def test_traced_samples_are_refused_with_the_reason():
    with pytest.raises(InputError, match="x is traced: call this outside of jit, vmap and grad"):
        jax.jit(lambda x: as_rows(x, -x)[0])(X)


def test_a_score_is_evaluated_once_and_in_the_shape_of_the_rows():
    np.testing.assert_array_equal(score_at(np.negative, X), -X)
    assert score_at(jnp.negative, X).dtype == np.float32


def test_tables_are_matched_by_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    score = -table
    np.testing.assert_array_equal(as_chains(table, score[["c", "a", "b"]]).s, as_chains(table, score).s)
    with pytest.raises(InputError, match="x has a column 'c', which score has not"):
        as_chains(table, score.rename(columns={"c": "d"}))
    with pytest.raises(InputError, match="score has a column 'd', which x has not"):
        as_chains(table, score.assign(d=1.0))


def test_faults_of_a_score_function_say_how_it_is_called():
    with pytest.raises(ZeroDivisionError) as failed:
        as_chains(X, lambda x: 1 / 0)
    assert "all samples at once, here an array of shape (20, 3)" in failed.value.__notes__[-1]
