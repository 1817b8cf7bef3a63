"""Samples come back from every format as they were written; every fault is one line that names the file."""

import numpy as np
import pytest

from slicestein.rows.files import flat_names, read_samples, read_scores

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


def test_a_number_keeps_its_name():
    assert flat_names("tau", ()) == ["tau"]
    assert flat_names("beta", (2,)) == ["beta[0]", "beta[1]"]


def write_archive(path):
    with path.open("wb") as file:
        np.savez(file, x=X)


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
    ("two.npz", lambda path: np.savez(path, a=X, b=X), "holds a, b: name one of them x or samples or draws"),
    ("none.npz", lambda path: np.savez(path), "holds no arrays"),
    ("pickle.npz", lambda path: np.savez(path, x=np.array([{}])), "is not a NumPy archive"),
    ("names.npz", lambda path: np.savez(path, x=X, names=["a"]), "holds 1 names for 3 columns"),
    ("flat.npy", lambda path: np.save(path, X[:, 0]), r"shape \(6,\): save samples as \(N, D\)"),
    ("norows.npy", lambda path: np.save(path, X[:0]), r"shape \(0, 3\)"),
    ("strings.npy", lambda path: np.save(path, np.array([["a"]])), "not real numbers"),
    ("complex.npy", lambda path: np.save(path, X + 1j), "holds complex128, not real numbers"),
    ("words.csv", text("a,b\n1,2\n3,x\n"), "could not convert string 'x'.*every cell below the header"),
    ("ragged.csv", text("a,b\n1,2\n3\n"), "number of columns changed"),
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


OPTIONAL_FAULTS = [
    ("text.parquet", "pyarrow", text("hello"), "is not a Parquet file"),
    ("text.nc", "xarray", text("hello"), "has no readable posterior group"),
]


@pytest.mark.parametrize(("name", "package", "write", "message"), OPTIONAL_FAULTS)
def test_faults_of_optional_formats(tmp_path, name, package, write, message):
    pytest.importorskip(package)
    test_faults_are_one_line_that_names_the_file(tmp_path, name, write, message)


def test_a_column_of_words_in_parquet_is_named(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": [1.0, 2.0], "who": ["x", "y"]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column who holds object, not real numbers"):
        read_samples(tmp_path / "a.parquet")


def test_a_file_without_chains_is_refused(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    xarray.Dataset({"mu": ("draw", np.zeros(3))}).to_netcdf(tmp_path / "a.nc", group="posterior", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"variable mu has dimensions.*chain and draw"):
        read_samples(tmp_path / "a.nc")
