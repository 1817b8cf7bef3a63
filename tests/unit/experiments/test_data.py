"""Data sets: one clear message for what is missing or damaged, and downloads from a server on this machine."""

import functools
import http.server
import threading

import numpy as np
import pytest

from experiments import data

pooch = pytest.importorskip("pooch")
X, Y = np.array([[1.5, 2.5], [3.0, 4.0], [5.0, 6.0]]), np.array([7.0, 8.0, 9.5])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SLICESTEIN_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    return tmp_path


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A mirror of one UCI set, its target between the features, and an empty cache."""
    folder = tmp_path / "mirror" / "yacht" / "data"
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", np.column_stack([X[:, 0], Y, X[:, 1]]))
    np.savetxt(folder / "index_features.txt", [0, 2])
    np.savetxt(folder / "index_target.txt", [1])
    np.savez(tmp_path / "mirror" / "mnist.npz", x=X, y=Y)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.delenv("SLICESTEIN_DATA", raising=False)
        monkeypatch.setattr(data, "UCI_URL", url)
        monkeypatch.setattr(data, "MNIST_URL", f"{url}/mnist.npz")
        monkeypatch.setattr(data, "cache", lambda: tmp_path / "cache")
        yield server
        server.shutdown()


def test_a_missing_file_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"yacht\.npz is missing from the folder that SLICESTEIN_DATA names"):
        data.load("uci/yacht")


def test_a_damaged_file_is_named(folder):
    np.savez(folder / "uci" / "yacht.npz", x=X, y=Y)
    whole = (folder / "uci" / "yacht.npz").read_bytes()
    for damaged in (b"", b"text", whole[: len(whole) // 2]):
        (folder / "uci" / "yacht.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"yacht\.npz cannot be read, it is damaged"):
            data.load("uci/yacht")


def test_other_content_is_refused(folder):
    np.savez(folder / "uci" / "yacht.npz", x=X, y=Y)
    with pytest.raises(ValueError, match="uci/yacht is not the data these experiments were run with"):
        data.load("uci/yacht")


def test_the_content_sees_values_order_and_type():
    variants = [{"x": X, "y": Y}, {"x": X[::-1], "y": Y}, {"x": X.astype(np.float32), "y": Y}, {"x": X + 1e-15, "y": Y}]
    variants.append({"x": X.reshape(2, 3), "y": Y})
    assert len({data.content(v) for v in variants}) == len(variants)


@pytest.mark.parametrize("name", ["uci/yacht", "mnist"])
def test_downloads_are_assembled_checked_and_kept(server, monkeypatch, name):
    with pytest.raises(ValueError, match="its content differs, in the cache"):
        data.load(name)
    monkeypatch.setitem(data.CONTENT, name, data.content({"x": X, "y": Y}))
    found = data.load(name)
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["y"], Y)
    server.shutdown()
    assert data.load(name).keys() == {"x", "y"}  # from the cache


def test_an_unreachable_server_is_named(server, monkeypatch):
    monkeypatch.setattr(data, "MNIST_URL", "http://127.0.0.1:9/mnist.npz")
    with pytest.raises(FileNotFoundError, match="cannot be reached: set SLICESTEIN_DATA"):
        data.load("mnist")


@pytest.fixture
def rows(monkeypatch):
    """Fifty rows, their number in x and y; the arrays may be changed."""
    number = np.arange(50.0)
    arrays = {"x": np.column_stack([number, np.ones(50), -number]), "y": 3 * number}
    monkeypatch.setattr(data, "load", lambda name: arrays)
    return arrays


def row_numbers(split, part):
    """Rows of a part of a split, from its targets; its inputs must belong to the same rows."""
    y = split[f"y_{part}"] if part == "test" else split["y_mean"] + split["y_std"] * split[f"y_{part}"]
    number = np.round(y / 3).astype(int)
    assert np.all(np.diff(split[f"x_{part}"][np.argsort(number), 0]) > 0)
    return number


def test_splits_cover_the_rows_once(rows):
    split = data.uci_split("yacht", 3)
    part = data.validation_split(split, 3)
    test, kept, left_out = row_numbers(split, "test"), row_numbers(part, "train"), row_numbers(part, "test")
    assert (len(test), len(left_out), len(kept)) == (5, 5, 40)
    assert sorted([*test, *kept, *left_out]) == list(range(50))
    assert sorted([*kept, *left_out]) == sorted(row_numbers(split, "train"))


def test_a_split_is_standardised_by_its_training_part_alone(rows):
    split = data.uci_split("yacht", 3)
    np.testing.assert_allclose(split["x_train"].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(split["x_train"].std(0), [1, 0, 1], atol=1e-12)  # the constant column stays finite
    held_out = row_numbers(split, "test")
    rows["x"][held_out] += 100
    rows["y"][held_out] = 1e6
    altered = data.uci_split("yacht", 3)
    for name in ("x_train", "y_train", "y_mean", "y_std"):
        np.testing.assert_array_equal(altered[name], split[name])
    assert (altered["y_test"] == 1e6).all()
