"""Rows from anywhere give the numbers of arrays in memory; what is wrong with them is one line that names the place."""

import concurrent.futures
import gc
import pickle
import tempfile
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest

import slicestein as ss
from slicestein.rows import opening, source
from slicestein.rows.tables import Table
from tests.rounding import rounding
from tests.unit.standard_input import autoregression, normal

X = normal(3000, 4)
NAMES = ["a", "b", "c", "d"]


def score_fn(x):
    return -x


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 250 rows: a file of 3000 is one that needs many."""
    monkeypatch.setattr(source, "CHUNK_VALUES", 1000)


@pytest.fixture(scope="module")
def expected():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK_VALUES", 1000)
        return ss.gof_test(X, -X, key=0)


def write(folder, suffix, x=X, names=NAMES):
    path = folder / f"draws{suffix}"
    if suffix == ".npy":
        np.save(path, x)
    elif suffix == ".npz":
        np.savez_compressed(path, x=x, score=-x, names=np.array(names))
    elif suffix == ".csv":
        np.savetxt(path, x, delimiter=",", header=",".join(names), comments="", fmt="%.17g")
    elif suffix == ".parquet":
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table(dict(zip(names, x.T, strict=True))), path, row_group_size=170)
    return path


def assert_same(found, expected):
    assert found.statistic == expected.statistic
    assert found.pvalue == expected.pvalue
    assert [p.shift for p in found.parameters] == [p.shift for p in expected.parameters]


# --- the same numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
def test_files_give_the_numbers_of_arrays(tmp_path, suffix, expected):
    rows = ss.rows.open(write(tmp_path, suffix))
    assert rows.shape == (1, 3000, 4)
    found = ss.gof_test(rows, score_fn, key=0)
    assert_same(found, expected)
    if suffix != ".npy":
        assert found.parameters[0].name in NAMES


@pytest.mark.parametrize("size", [1, 7, 1000, 5000])
def test_the_size_of_chunks_changes_nothing(size, expected):
    assert_same(ss.gof_test(ss.rows.open(X[i : i + size] for i in range(0, 3000, size)), score_fn, key=0), expected)
    pairs = ((X[i : i + size], -X[i : i + size]) for i in range(0, 3000, size))
    assert_same(ss.gof_test(ss.rows.open(pairs), key=0), expected)


def test_scores_in_files_are_put_in_the_order_of_the_samples(tmp_path, expected):
    (tmp_path / "s").mkdir()
    order = [2, 0, 3, 1]
    scores = write(tmp_path / "s", ".parquet", -X[:, order], [NAMES[i] for i in order])
    assert_same(ss.gof_test(ss.rows.open(write(tmp_path, ".parquet"), scores), key=0), expected)
    assert_same(ss.gof_test(ss.rows.open(write(tmp_path, ".npz"), write(tmp_path, ".npz")), key=0), expected)


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".csv"])
def test_folders_and_patterns_are_read_in_the_order_of_their_numbers(tmp_path, suffix, expected):
    for i in range(12):
        write(tmp_path, suffix, X[i * 250 : (i + 1) * 250]).rename(tmp_path / f"part-{i}{suffix}")
    for given in (tmp_path, str(tmp_path / f"part-*{suffix}"), [tmp_path / f"part-{i}{suffix}" for i in range(12)]):
        assert_same(ss.gof_test(ss.rows.open(given), score_fn, key=0), expected)
    rows = ss.rows.open(tmp_path, chains="files")
    assert (rows.shape, rows.ordered) == ((12, 250, 4), True)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.filterwarnings("ignore:.*zarr.*", "ignore:.*Zarr.*")
def test_chains_of_stores(tmp_path, suffix):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr" if suffix == ".zarr" else "h5netcdf")
    x = autoregression(0.5, 3, 400, 4)
    data = xarray.Dataset(
        {"alpha": (("chain", "draw"), x[..., 0]), "beta": (("chain", "draw", "k"), x[..., 1:])},
        {"chain": np.arange(3), "draw": np.arange(400)},
    )
    path = tmp_path / f"draws{suffix}"
    write = data.to_zarr if suffix == ".zarr" else data.to_netcdf
    write(path, group="posterior", **({} if suffix == ".zarr" else {"engine": "h5netcdf"}))
    rows = ss.rows.open(path)
    found, expected = ss.gof_test(rows, score_fn, key=0), ss.gof_test(x, score_fn, key=0)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.ess, expected.ess)
    assert rows.names == ("alpha", "beta[0]", "beta[1]", "beta[2]")
    assert pickle.loads(pickle.dumps(rows.table)).place(401) == f"{path}: chain 1, draw 1"


def test_chains_of_arrays_and_cut_rows(tmp_path):
    x = autoregression(0.5, 3, 400, 4)
    np.save(tmp_path / "x.npy", x)
    expected = ss.gof_test(x, -x, key=0)
    assert_same(ss.gof_test(ss.rows.open(tmp_path / "x.npy"), score_fn, key=0), expected)
    assert_same(ss.gof_test(ss.rows.open(iter([x[0], x[1], x[2]]), chains=3), score_fn, key=0), expected)
    assert_same(ss.gof_test(np.load(tmp_path / "x.npy", mmap_mode="r"), -x, key=0), expected)


def test_precision_and_byte_order_are_those_of_the_file(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(">f4"))
    x, s = ss.rows.open(tmp_path / "x.npy", score_fn).read(0, 10)
    assert x.dtype == s.dtype == np.float32
    np.testing.assert_array_equal(x, X[:10].astype(np.float32))
    np.save(tmp_path / "i.npy", np.arange(12).reshape(4, 3))
    assert ss.rows.open(tmp_path / "i.npy", score_fn).read(0, 4).x.dtype == float


def test_a_score_function_sees_chunks_of_one_size(monkeypatch):
    """A compiled function is compiled once; scores of a large array are not kept."""
    monkeypatch.setattr(opening, "SCORES_KEPT", 1000)
    sizes = set()

    def watched(x):
        sizes.add(len(x))
        return -x

    ss.gof_test(X[:2900], watched, key=0)
    assert sizes == {250}


def test_methods_that_need_all_rows_load_few_and_refuse_many(monkeypatch):
    rows = ss.rows.open(iter([X[:500]]), score_fn)
    assert (
        ss.gof_test(rows, key=0, method="ksd").statistic
        == ss.gof_test(X[:500], -X[:500], key=0, method="ksd").statistic
    )
    monkeypatch.setattr("slicestein.gof.method.MEMORY_VALUES", 1000)
    with pytest.raises(ss.InputError, match=r"ksd needs all rows in memory.*or use a maxsksd method"):
        ss.gof_test(rows, key=0, method="ksd")


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sksd_of_a_source_is_that_of_arrays(statistic, dtype):
    """To the 1e-5 of the mean of h(x, x) at which the spectrum is cut; bandwidths are those of the same rows."""
    slices, x = ss.Slices.random(0, 5, 4), 1.1 * X.astype(dtype) + 3
    with jax.enable_x64(True):
        expected = ss.sksd(x, 3 - x, slices, statistic=statistic, per_slice=True)
        diagonal = 3000 * (ss.sksd(x, 3 - x, slices, statistic="v") - ss.sksd(x, 3 - x, slices))
    rows = ss.rows.open((x[i : i + 700], 3 - x[i : i + 700]) for i in range(0, 3000, 700))
    found = ss.sksd(rows, None, slices, statistic=statistic, per_slice=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * float(diagonal) / 5 / 3000)
    np.testing.assert_allclose(ss.sksd(rows, None, slices, statistic=statistic), found.sum(), rtol=1e-6)
    with pytest.raises(ss.InputError, match="use a kernel with a spectrum"):
        ss.sksd(rows, None, slices, kernel=ss.IMQ())
    with pytest.raises(ss.InputError, match="score is missing"):
        ss.sksd(x, None, slices)


@pytest.mark.parametrize("statistic", ["u", "v"])
def test_sksd_of_a_source_with_heavy_tails(statistic):
    """Rows a hundred bandwidths out. The spectrum is cut at 4.8, beyond which E w^2 is 4e-5: of h(x, x) / N."""
    x = np.random.default_rng(0).standard_t(2, (3000, 2))
    s, slices = -3 * x / (2 + x**2), ss.Slices.basis(2)
    with jax.enable_x64(True):
        values = [
            ss.sksd(x, s, slices, statistic=kind, engine="exact", per_slice=True) for kind in (statistic, "u", "v")
        ]
    expected, u, v = map(np.asarray, values)
    rows = ss.rows.open([(x[:1700], s[:1700]), (x[1700:], s[1700:])])
    found = np.asarray(ss.sksd(rows, None, slices, statistic=statistic, per_slice=True))
    np.testing.assert_array_less(np.abs(found - expected), 4e-5 * (v - u) + rounding(1) * np.abs(expected))


def test_sksd_of_a_source_with_rows_too_far_out_is_refused():
    x = np.random.default_rng(0).standard_cauchy((20_000, 2))
    with pytest.raises(ss.InputError, match=r"rows reach \d+ bandwidths from the middle of slice [01].*as arrays"):
        ss.sksd(ss.rows.open([(x, -2 * x / (1 + x**2))]), None, ss.Slices.basis(2))


def test_sets_to_compare_may_be_sources(tmp_path):
    sets = {"right": X, "wide": 1.2 * normal(2000, 4, seed=1)}
    expected = ss.quality.compare(sets, score_fn, key=0)
    sources = {"right": ss.rows.open(write(tmp_path, ".npy")), "wide": ss.rows.open(iter([sets["wide"]]))}
    assert ss.quality.compare(sources, score_fn, key=0) == expected
    with_scores = {name: ss.rows.open(iter([(x, -x)])) for name, x in sets.items()}
    assert ss.quality.compare(with_scores, None, key=0) == expected


class MadeUp(Table):
    """A source made outside of the package: numbers that are made up when they are read."""

    names = tuple(NAMES)

    def __init__(self, path, x=X):
        self.path, self.x, self.shape = path, x, x.shape

    def read(self, start, stop):
        return self.x[start:stop]

    def place(self, row):
        return f"{self.path}: sample {row}"


def test_a_format_is_a_class_and_a_line(tmp_path, monkeypatch, expected):
    monkeypatch.setitem(opening.TABLES, ".made", lambda path, wanted: MadeUp(path))
    (tmp_path / "x.made").touch()
    assert_same(ss.gof_test(ss.rows.open(tmp_path / "x.made"), score_fn, key=0), expected)
    assert_same(ss.gof_test(ss.rows.open(tmp_path), score_fn, key=0), expected)
    monkeypatch.setitem(opening.TABLES, ".made", lambda path, wanted: MadeUp(path, X[:0]))
    assert message(tmp_path / "x.made").startswith(f"{tmp_path / 'x.made'}: holds no samples")


# --- faults ------------------------------------------------------------------------------------


def message(*arguments, **options):
    with pytest.raises(ss.InputError) as found:
        ss.gof_test(ss.rows.open(*arguments, **options), score_fn if len(arguments) == 1 else None, key=0)
    assert "\n" not in str(found.value)
    return str(found.value)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
def test_a_value_that_is_not_finite_is_told_by_file_and_row(tmp_path, suffix):
    x = X.copy()
    x[1234, 2] = np.nan
    path = write(tmp_path, suffix, x)
    where = "line 1236" if suffix == ".csv" else "row 1234"
    assert f"{path}: {where}, column 2: is NaN or infinite" in message(path)


def test_scores_that_are_not_finite(tmp_path):
    def broken(x):
        return np.where(x > 3, np.nan, -x)

    row = int(np.argmax((X > 3).any(1)))
    assert f"score at {tmp_path / 'draws.npy'}: row " in message(write(tmp_path, ".npy"), broken)
    s = -X
    s[row, 1] = np.inf
    np.save(tmp_path / "s.npy", s)
    assert f"s.npy: row {row}, column 1: is NaN or infinite" in message(write(tmp_path, ".npy"), tmp_path / "s.npy")


def test_files_that_are_cut_short(tmp_path):
    path = write(tmp_path, ".npy")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert message(path) == f"{path}: is cut short: it has 2998 of 3000 rows: save it again"
    path.write_bytes(whole)
    rows = ss.rows.open(path, score_fn)
    path.write_bytes(whole[: len(whole) // 2])  # while it is read
    with pytest.raises(ss.InputError, match=r"draws.npy: row \d+ is gone: the file was cut short while it was read"):
        ss.gof_test(rows, key=0)
    path = write(tmp_path, ".parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert message(path) == f"{path}: is not a Parquet file"
    path = write(tmp_path, ".npz")
    path.write_bytes(path.read_bytes()[:-100])
    assert "is not a NumPy archive of numbers" in message(path)


def test_a_parquet_file_that_is_damaged_within(tmp_path):
    path = write(tmp_path, ".parquet", normal(30_000, 4))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400_00] = bytes(400_00)
    path.write_bytes(content)
    assert "cannot be read" in message(path)


def test_chunks_that_do_not_fit_together():
    def chunks(*parts):
        return message(iter(parts), None)

    assert "chunk 1 of rows has 3 columns, the first one 4" in chunks(X, X[:, :3])
    assert "chunk 1 of rows holds float32, the first one float64" in chunks(X, X.astype(np.float32))
    assert "chunk 0 of rows: samples and scores differ in shape" in chunks((X, X[:5]))
    assert "chunk 1 of rows: some chunks have scores and some have not" in chunks((X, -X), X)
    assert "chunk 0 of rows must have shape (n, D)" in chunks(X[0])
    assert "rows holds no rows" in chunks()
    assert "score is missing" in chunks(X)


def test_files_that_do_not_fit_together(tmp_path):
    first = write(tmp_path, ".npy").rename(tmp_path / "1.npy")
    second = write(tmp_path, ".npy", X[:, :3]).rename(tmp_path / "2.npy")
    assert "2.npy: row 0 has 3 columns, those of" in message(tmp_path)
    assert "scores of shape (3000, 3), but the samples have (3000, 4)" in message(first, second)
    assert "holds the samples themselves" in message(first, first)
    write(tmp_path, ".csv")
    assert "holds files of several kinds, .csv and .npy" in message(tmp_path)
    assert "there is no file of samples" in message(str(tmp_path / "*.parquet"))
    assert "no such file" in message(tmp_path / "3.npy")
    assert "cannot be cut into 7 chains" in message(first, score_fn, chains=7)
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    assert "is written column by column" in message(tmp_path / "f.npy")
    np.save(tmp_path / "o.npy", np.array([["a"]]))
    assert "not real numbers" in message(tmp_path / "o.npy")


def test_temporary_files_go_with_their_source_and_after_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = ss.rows.open(iter([(X, -X)]))
    assert len(list(tmp_path.iterdir())) == 2
    del rows
    gc.collect()
    assert not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError):
        ss.rows.open(x if i < 2 else (_ for _ in ()).throw(RuntimeError) for i, x in enumerate([X] * 3))
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    with pytest.raises(ss.InputError):
        ss.rows.open(tmp_path / "empty.npz")
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["empty.npz"]


def test_tables_can_be_sent_elsewhere(tmp_path):
    for suffix in (".npy", ".parquet", ".csv"):
        rows = ss.rows.open(write(tmp_path, suffix), score_fn)
        rows.read(100, 200)
        there = pickle.loads(pickle.dumps(rows))
        np.testing.assert_array_equal(there.read(5, 900).x, X[5:900])
        del there
        gc.collect()
        np.testing.assert_array_equal(rows.read(0, 10).x, X[:10])  # the copy did not take the file with it


def test_rows_in_any_order_of_reading(tmp_path):
    rows = ss.rows.open(write(tmp_path, ".parquet"), score_fn)
    rng = np.random.default_rng(0)
    for _ in range(50):
        start, stop = np.sort(rng.choice(3001, 2, replace=False))
        np.testing.assert_array_equal(rows.read(int(start), int(stop)).x, X[start:stop])
    some = np.sort(rng.choice(3000, 40, replace=False))
    np.testing.assert_array_equal(rows.gather(some).x, X[some])
    np.testing.assert_array_equal(rows.gather(some).s, -X[some])
    assert Path(rows.table.path).exists()


def test_chains_of_samples_and_of_scores_must_be_the_same(tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 500, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "s.npy", -x.reshape(500, 2, 3))
    with pytest.raises(ss.InputError, match="in 500 and 2 chains"):
        ss.rows.open(tmp_path / "x.npy", tmp_path / "s.npy")


def test_names_of_streamed_files_are_checked(tmp_path):
    (tmp_path / "x.csv").write_text("a,a\n" + "1.0,2.0\n" * 30)
    with pytest.raises(ss.InputError, match="two columns are named 'a'"):
        ss.rows.open(tmp_path / "x.csv")


def test_a_pair_is_not_taken_for_two_chunks():
    x = np.random.default_rng(0).standard_normal((100, 3))
    with pytest.raises(ss.InputError, match="rows is a tuple"):
        ss.rows.open((x, -x))


def test_threads_may_share_a_parquet_file(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    x = np.random.default_rng(0).standard_normal((60_000, 2))
    parquet.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "x.parquet", row_group_size=5000)
    rows = ss.rows.open(tmp_path / "x.parquet", lambda x: -x)
    parts = [(start, start + 1000) for start in range(0, 60_000, 1000)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: rows.read(*part).x, parts[::2] + parts[1::2]))
    np.testing.assert_array_equal(np.concatenate(found), np.concatenate([x[a:b] for a, b in parts[::2] + parts[1::2]]))
