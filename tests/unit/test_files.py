"""Samples come back from every format as they were written; every fault is one line that names the file."""

import io
import json
import warnings

import jax
import numpy as np
import pytest

from slicestein._checks import InputError
from slicestein.rows.files import read_samples, read_scores
from slicestein.rows.variables import flat_names

X = np.random.default_rng(0).standard_normal((6, 3))
NAMES = ("alpha", "beta[0]", "beta[1]")


def write_csv(path, x=X, names=NAMES, fmt="%.17g"):
    np.savetxt(path, x, delimiter=",", header=",".join(names), comments="", fmt=fmt)


def write_parquet(path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table(dict(zip(NAMES, X.T, strict=True))), path)


WRITERS = {
    "a.npy": lambda path: np.save(path, X),
    "one.npz": lambda path: np.savez(path, whatever=X),
    "several.npz": lambda path: np.savez(path, other=np.zeros(3), x=X, names=np.array(NAMES)),
    "a.csv": write_csv,
    "bare.csv": lambda path: np.savetxt(path, X, delimiter=",", fmt="%.17g"),
    "UPPER.CSV": lambda path: path.write_text("# by a sampler\n" + csv_text(), encoding="utf-8"),
    "a.parquet": write_parquet,
}


def csv_text():
    rows = [",".join(NAMES), *(",".join(f"{v:.17g}" for v in row) for row in X)]
    return "\n".join(rows) + "\n\n"


@pytest.mark.parametrize("name", WRITERS)
def test_samples_come_back(tmp_path, name):
    WRITERS[name](tmp_path / name)
    x, names = read_samples(tmp_path / name)
    np.testing.assert_array_equal(x, X)
    assert names == (None if name in ("a.npy", "one.npz", "bare.csv") else NAMES)


def test_chains_of_arviz_are_kept_apart(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    rng = np.random.default_rng(1)
    mu, beta = rng.standard_normal((4, 10)), rng.standard_normal((4, 10, 2, 2))
    dataset = xarray.Dataset(
        {"mu": (("chain", "draw"), mu), "beta": (("row", "chain", "draw", "column"), np.moveaxis(beta, 2, 0))}
    )
    dataset.to_netcdf(tmp_path / "a.nc", group="posterior", engine="h5netcdf")
    x, names = read_samples(tmp_path / "a.nc")
    assert names == ("mu", "beta[0,0]", "beta[0,1]", "beta[1,0]", "beta[1,1]")
    np.testing.assert_array_equal(x, np.concatenate([mu[..., None], beta.reshape(4, 10, 4)], axis=2))


def test_one_archive_holds_samples_and_scores(tmp_path):
    np.savez(tmp_path / "run.npz", x=X, score=-X)
    np.testing.assert_array_equal(read_samples(tmp_path / "run.npz").x, X)
    np.testing.assert_array_equal(read_scores(tmp_path / "run.npz"), -X)


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
def test_scores_are_matched_by_name(tmp_path, suffix):
    """A score file with its columns the other way round is the same score file."""
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"s.{suffix}"
    write_named(path, X[:, ::-1], NAMES[::-1])
    np.testing.assert_array_equal(read_scores(path, names=NAMES), X)
    np.testing.assert_array_equal(read_scores(path), X[:, ::-1])
    with pytest.raises(InputError, match="has no column 'tau', which the samples have"):
        read_scores(path, names=("tau", *NAMES[1:]))
    with pytest.raises(InputError, match="has a column 'alpha', which the samples have not"):
        read_scores(path, names=NAMES[1:])


def write_named(path, x, names):
    if path.suffix == ".npz":
        np.savez(path, score=x, names=names)
    elif path.suffix == ".csv":
        write_csv(path, x, names)
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(dict(zip(names, x.T, strict=True))), path)


def test_scores_without_names_are_taken_in_order(tmp_path):
    np.save(tmp_path / "s.npy", X)
    np.testing.assert_array_equal(read_scores(tmp_path / "s.npy", names=NAMES), X)


@pytest.mark.parametrize("arrays", [{"x": X}, {"whatever": X}, {"x": X, "draws": X}])
def test_samples_are_not_read_as_scores(tmp_path, arrays):
    """A file of the samples alone, given as the scores, was a test of score = x."""
    np.savez(tmp_path / "a.npz", **arrays)
    message = f"holds {', '.join(arrays)}: name the array of the scores score or scores or gradient"
    with pytest.raises(InputError, match=message):
        read_scores(tmp_path / "a.npz")


def test_two_arrays_of_scores_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", score=X, gradient=-X)
    with pytest.raises(InputError, match="holds score and gradient: keep one of them"):
        read_scores(tmp_path / "a.npz")


def test_columns_that_pandas_has_numbered_are_a_header(tmp_path):
    """`DataFrame(x).to_csv(index=False)` writes 0,1,2 on top, which is not a sample."""
    write_csv(tmp_path / "a.csv", names=("0", "1", "2"))
    x, names = read_samples(tmp_path / "a.csv")
    np.testing.assert_array_equal(x, X)
    assert names == ("0", "1", "2")


def test_quoted_cells_are_numbers(tmp_path):
    (tmp_path / "a.csv").write_text('"a","b"\n"1.5","2"\n')
    assert read_samples(tmp_path / "a.csv").x.tolist() == [[1.5, 2.0]]


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv"])
def test_samples_far_from_the_origin_keep_their_digits(tmp_path, suffix):
    far = X + 1e9
    path = tmp_path / f"far.{suffix}"
    {"npy": np.save, "npz": lambda path, x: np.savez(path, x=x), "csv": write_csv}[suffix](path, far)
    with jax.enable_x64(False):
        np.testing.assert_array_equal(read_samples(path).x, far)


def test_the_index_of_pandas_is_no_parameter(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    metadata = {"pandas": json.dumps({"index_columns": ["step"], "columns": [], "column_indexes": []})}
    table = pa.table({"a": X[:, 0], "step": np.arange(6)}).replace_schema_metadata(metadata)
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read_samples(tmp_path / "a.parquet").names == ("a",)


@pytest.mark.parametrize("name", ["a.npy", "several.npz", "a.csv", "a.parquet"])
def test_broken_files_are_told_in_our_words(tmp_path, name):
    """Bytes changed at random: samples, or one line that names the file, and never a fault of a parser."""
    path = tmp_path / name
    WRITERS[name](path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(whole[: rng.integers(len(whole) // 2, len(whole) + 1)])
        for place in rng.integers(0, len(broken), 4):
            broken[place] = rng.integers(256)
        path.write_bytes(bytes(broken))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_samples(path)
        except InputError as error:
            assert str(error).startswith(str(path))  # noqa: PT017


def test_a_number_keeps_its_name():
    assert flat_names("tau", ()) == ["tau"]
    assert flat_names("beta", (2,)) == ["beta[0]", "beta[1]"]


def write_archive(path):
    with path.open("wb") as file:
        np.savez(file, x=X)


def huge_array():
    """A header that speaks of more numbers than any memory holds."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**15, 3)})
    return buffer.getvalue()


def text(content):
    return lambda path: path.write_text(content)


FAULTS = [
    ("missing.npy", lambda path: None, "no such file"),
    ("folder.npy", lambda path: path.mkdir(), "is a folder"),
    ("a.xlsx", text("1,2"), "cannot read .xlsx: use .npy"),
    ("noext", text("1,2"), "without a suffix"),
    ("text.npy", text("hello"), "is not a NumPy array"),
    ("empty.npy", text(""), "is not a NumPy array"),
    ("pickle.npy", lambda path: np.save(path, np.array([{}]), allow_pickle=True), "is not a NumPy array"),
    ("archive.npy", write_archive, "is an .npz archive"),
    ("array.npz", lambda path: path.write_bytes(b"\x93NUMPY\x01"), "is not a NumPy archive"),
    ("text.npz", text("hello"), "is not a NumPy archive"),
    (
        "two.npz",
        lambda path: np.savez(path, a=X, b=X),
        "holds a, b: name the array of the samples x or samples or draws",
    ),
    ("scores.npz", lambda path: np.savez(path, gradient=X), "holds gradient: name the array of the samples x or"),
    ("both.npz", lambda path: np.savez(path, x=X, draws=X), "holds x and draws: keep one of them"),
    ("none.npz", lambda path: np.savez(path), "holds no arrays"),
    ("pickle.npz", lambda path: np.savez(path, x=np.array([{}])), "is not a NumPy archive"),
    ("names.npz", lambda path: np.savez(path, x=X, names=["a"]), "holds 1 names for 3 columns"),
    ("flat.npy", lambda path: np.save(path, X[:, 0]), r"shape \(6,\): save samples as \(N, D\)"),
    ("norows.npy", lambda path: np.save(path, X[:0]), r"shape \(0, 3\)"),
    ("strings.npy", lambda path: np.save(path, np.array([["a"]])), "not real numbers"),
    ("complex.npy", lambda path: np.save(path, X + 1j), "holds complex128, not real numbers"),
    ("words.csv", text("a,b\n1,2\n3,x\n"), "line 3, column b: 'x' is not a number: every cell below the header"),
    ("late.csv", text("# by hand\n\na,b\n1,2\n\n3,\n"), "line 6, column b: '' is not a number"),
    ("bare.csv", text("1,2\n3,x\n"), "line 2, column 2: 'x' is not a number"),
    ("ragged.csv", text("a,b\n1,2\n3\n"), "line 3 has 1 cells, not 2"),
    ("underscore.csv", text("a,b\n1,2\n3,1_0\n"), "line 3, column b: '1_0' is not a number"),
    (
        "nan.csv",
        text("# by hand\na,b\n1,2\n\n3,nan\ninf,4\n"),
        "has 2 values that are NaN or infinite.* line 5, column b",
    ),
    ("bare_nan.csv", text("1,2\nnan,3\n"), "the first in line 2, column 1"),
    ("nan.npy", lambda path: np.save(path, np.where(X[2, 1] == X, np.nan, X)), r"the first at index \[2, 1\]"),
    ("long.npy", lambda path: path.write_bytes(huge_array()), "does not fit into memory|is not a NumPy array"),
    ("empty.csv", text(""), "holds no samples"),
    ("header.csv", text("a,b\n"), "holds no samples"),
    ("index.csv", text(",a,b\n0,1,2\n1,3,4\n"), "column 1 has no name"),
    ("twice.csv", text("a,a\n1,2\n3,4\n"), "two columns are named 'a'"),
    ("wide.csv", text("a\n1,2\n3,4\n"), "holds 1 names for 2 columns"),
    ("binary.csv", lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not a text of comma-separated values"),
]


@pytest.mark.parametrize(("name", "write", "message"), FAULTS, ids=[name for name, _, _ in FAULTS])
def test_faults_are_one_line_that_names_the_file(tmp_path, name, write, message):
    write(tmp_path / name)
    with pytest.raises(ValueError, match=message) as error:
        read_samples(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))
    assert "\n" not in str(error.value)
    assert "numpy." not in str(error.value).replace("numpy.save", "")
    assert isinstance(error.value, InputError)


OPTIONAL_FAULTS = [
    ("text.parquet", "pyarrow", text("hello"), "is not a Parquet file"),
    ("text.nc", "xarray", text("hello"), "is not an ArviZ file with a posterior group"),
]


@pytest.mark.parametrize(("name", "package", "write", "message"), OPTIONAL_FAULTS)
def test_faults_of_optional_formats(tmp_path, name, package, write, message):
    pytest.importorskip(package)
    test_faults_are_one_line_that_names_the_file(tmp_path, name, write, message)


def test_a_column_of_words_in_parquet_is_named(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": [1.0, 2.0], "who": ["x", "y"]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column who holds string, not real numbers"):
        read_samples(tmp_path / "a.parquet")


def test_a_file_without_chains_is_refused(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    xarray.Dataset({"mu": ("draw", np.zeros(3))}).to_netcdf(tmp_path / "a.nc", group="posterior", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"variable mu has dimensions.*chain and draw"):
        read_samples(tmp_path / "a.nc")
