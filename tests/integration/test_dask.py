"""The test on a real cluster: a scheduler and two worker processes. The answer is that of one machine."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import slicestein as ss
from slicestein.rows import cluster, source
from tests.unit.standard_input import autoregression, normal

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

X = normal(200_000, 5)


def score_fn(x):
    return -x


@pytest.fixture(scope="module")
def expected():
    return ss.gof_test(X, -X, key=0)


@pytest.fixture
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as workers, distributed.Client(workers) as client:
        yield client


def assert_same(found, expected):
    np.testing.assert_allclose(found.statistic, expected.statistic, rtol=1e-6)
    assert found.pvalue == expected.pvalue


def test_arrays_and_loaders_and_files(client, tmp_path, expected):
    x = da.from_array(X, chunks=(77_777, 2))
    assert_same(ss.gof_test(x, score_fn, key=0), expected)
    assert_same(ss.gof_test(x, -x.rechunk((1000, 5)), key=0), expected)
    for i in range(4):
        np.save(tmp_path / f"{i}.npy", X[i * 50_000 : (i + 1) * 50_000])
    loaders = [dask.delayed(np.load)(tmp_path / f"{i}.npy") for i in range(4)]
    assert_same(ss.gof_test(ss.rows.open(loaders, score_fn), key=0), expected)
    on_files = ss.gof_test(ss.rows.open(tmp_path, score_fn, dask=True), key=0)
    assert on_files.statistic == expected.statistic  # to the last digit: chunks are added in the same tree


def test_chains(client):
    x = autoregression(0.5, 3, 20_000, 4)
    expected = ss.gof_test(x, -x, key=0)
    found = ss.gof_test(da.from_array(x, chunks=(2, 7000, 4)), score_fn, key=0)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.rhat, expected.rhat)
    np.testing.assert_array_equal(found.ess, expected.ess)


@pytest.mark.parametrize("fault", ["killed", "slow"])
def test_a_worker_that_is_killed_half_way_or_is_slow(client, tmp_path, expected, fault, monkeypatch):
    """The victim dies with signal 9 while it works on a piece: its pieces, done or not, are done elsewhere."""
    monkeypatch.setattr(cluster, "TASK_CHUNKS", 1)  # many tasks
    np.save(tmp_path / "x.npy", X)
    victim = min(client.scheduler_info(n_workers=-1)["workers"])
    victim_pid = client.run(os.getpid, workers=[victim])[victim]
    mark = tmp_path / "calls"

    def score(x):
        with mark.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if os.getpid() == victim_pid and fault == "slow":
            time.sleep(0.3)
        if os.getpid() == victim_pid and fault == "killed" and mark.read_text().count(f"{victim_pid}\n") >= 3:
            os.kill(victim_pid, signal.SIGKILL)
        return -x

    monkeypatch.setattr(source, "CHUNK_VALUES", 2**16)
    client.run(_set_chunks, 2**16)
    rows = ss.rows.open(tmp_path / "x.npy", score, dask=True)
    found = ss.gof_test(rows, key=0)
    assert_same(found, expected)
    calls = [int(line) for line in mark.read_text().split()]
    assert calls.count(victim_pid) >= (3 if fault == "killed" else 1)
    assert len(set(calls)) >= 2
    if fault == "killed":
        assert victim_pid not in client.run(os.getpid).values()


def _set_chunks(values):
    source.CHUNK_VALUES = values


def test_faults_of_workers_are_told_in_one_line(client, tmp_path):
    x = X.copy()
    x[123_456, 3] = np.nan
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(ss.InputError, match=r"x.npy: row 123456, column 3: is NaN"):
        ss.gof_test(ss.rows.open(tmp_path / "x.npy", score_fn, dask=True), key=0)
    with pytest.raises(ss.InputError, match="x: row 123456, column 3: is NaN"):
        ss.gof_test(da.from_array(x, chunks=(50_000, 5)), score_fn, key=0)
    with pytest.raises(ss.InputError, match="score must be a Dask array as x is, or a function"):
        ss.gof_test(da.from_array(X, chunks=(50_000, 5)), -X, key=0)
    y = da.from_array(X, chunks=(50_000, 5))
    with pytest.raises(ss.InputError, match=r"call x\.compute_chunk_sizes"):
        ss.gof_test(y[y[:, 0] > 0], score_fn, key=0)


MODEL = """
import jax.numpy as jnp
SCALE = 1.0
def log_density(x):
    return -0.5 * jnp.sum((x / SCALE) ** 2)
"""


@pytest.mark.parametrize("where", ["local", "elsewhere"])
def test_the_command_line_on_a_cluster(tmp_path, where):
    """The model is a file beside the samples, which workers of another folder cannot import: it is sent."""
    (tmp_path / "cluster_model.py").write_text(MODEL)
    (tmp_path / "draws").mkdir()
    for i in range(3):
        np.save(tmp_path / "draws" / f"{i}.npy", X[i * 60_000 : (i + 1) * 60_000])
    command = [sys.executable, "-m", "slicestein._cli", "test", "draws/*.npy", "--target", "cluster_model:log_density"]

    def answer(*more):
        run = subprocess.run([*command, "--json", *more], cwd=tmp_path, capture_output=True, text=True, timeout=200)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    expected = answer()
    if where == "local":
        found = answer("--dask", "local")
    else:
        options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
        with distributed.LocalCluster(**options) as workers:
            rows = str(tmp_path / "draws" / "*.npy")
            command[4] = rows  # workers see the files by absolute paths
            found = answer("--dask", workers.scheduler_address)
    for name in ("statistic", "pvalue"):
        assert found[name] == expected[name]
