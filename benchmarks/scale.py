"""`python -m benchmarks.scale [--quick]`: the whole test as rows grow beyond memory, and the same rows from anywhere.

Every case runs in a process of its own, so that peak memory is that of the case alone. `benchmarks/results/scale.jsonl`
holds a line per case, `scale.md` the tables that docs/scale.md quotes; with ``--quick`` sizes are a hundredth, and only
the tables are printed. Takes a minute and a half on two cores, and 4 GB of disk.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.__main__ import RESULTS

CHUNK = 100_000


def score_fn(x):
    return -x


def write_case(path: str, count: str, dim: str) -> dict:
    """Standard normal rows, in a process of its own: the peak of a parent is handed down to its children."""
    rng = np.random.default_rng(0)
    out = np.lib.format.open_memmap(path, "w+", np.float64, (int(count), int(dim)))
    for start in range(0, len(out), CHUNK):
        out[start : start + CHUNK] = rng.standard_normal((min(CHUNK, len(out) - start), int(dim)))
    return {"n": len(out)}


def parquet_case(path: str) -> dict:
    """The same rows as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    x = np.load(path)
    table = pa.table({f"x{d}": x[:, d] for d in range(x.shape[1])})
    parquet.write_table(table, Path(path).with_suffix(".parquet"))
    return {"n": len(x)}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(function) -> tuple[object, dict]:
    before, wall, cpu = peak(), time.perf_counter(), time.process_time()
    found = function()
    seconds = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return found, seconds | {"gb": peak(), "gb_above": peak() - before}


# --- cases, each in a process of its own -------------------------------------------------------


def file_case(path: str) -> dict:
    """A test of a file, its scores from a function."""
    import slicestein as ss

    warm_up(ss, 20)
    rows = ss.rows.open(path, score_fn)
    found, cost = timed(lambda: ss.gof_test(rows, key=0))
    return {"n": rows.num_samples, "d": rows.dim, "pvalue": found.pvalue, **cost}


def memory_case(path: str) -> dict:
    """A test of arrays in memory, beside one discrepancy of the same data along D slices."""
    import jax

    import slicestein as ss

    jax.config.update("jax_enable_x64", True)
    x = np.load(path)
    s = -x
    warm_up(ss, x.shape[1])
    found, cost = timed(lambda: ss.gof_test(x, s, key=0))
    slices = ss.Slices.basis(x.shape[1])
    for _ in range(2):  # the second time nothing is compiled
        _, one = timed(lambda: jax.block_until_ready(ss.sksd(x, s, slices)))
    ratios = {"ratio": cost["seconds"] / one["seconds"], "cpu_ratio": cost["cpu"] / one["cpu"]}
    return {"n": len(x), "d": x.shape[1], "pvalue": found.pvalue, **cost, "sksd_seconds": one["seconds"], **ratios}


def source_case(path: str, source: str) -> dict:
    """The same rows from one source."""
    import slicestein as ss

    warm_up(ss, 20)
    if source == "Dask, two processes":
        from distributed import Client, LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
            found, cost = timed(lambda: ss.gof_test(ss.rows.open(path, score_fn, dask=True), key=0))
    else:
        found, cost = timed(lambda: ss.gof_test(opened(ss, path, source), score_fn, key=0))
    return {"source": source, "statistic": found.statistic, "pvalue": found.pvalue, **cost}


def opened(ss, path: str, source: str):
    x = np.load(path, mmap_mode="r")
    if source == "memory":
        return np.array(x)
    if source == ".npy":
        return ss.rows.open(path)
    if source == ".parquet":
        return ss.rows.open(str(Path(path).with_suffix(".parquet")))
    size = int(source.rpartition(" ")[2])
    return ss.rows.open(x[i : i + size] for i in range(0, len(x), size))


SOURCES = ("memory", ".npy", "chunks of 1000", "chunks of 77777", ".parquet", "Dask, two processes")


def warm_up(ss, dim: int) -> None:
    """What a process does once is not what is measured."""
    x = np.random.default_rng(1).standard_normal((5000, dim))
    ss.gof_test(x, -x, key=0)


CASES: dict = {"write": write_case, "parquet": parquet_case}
CASES |= {"file": file_case, "memory": memory_case, "source": source_case}

# --- the run -----------------------------------------------------------------------------------


def in_process(case: str, *arguments: str) -> dict:
    command = [sys.executable, "-m", "benchmarks.scale", "--case", case, *arguments]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise RuntimeError(found.stderr)
    row = {"case": case, **json.loads(found.stdout.splitlines()[-1])}
    print(json.dumps(row), file=sys.stderr)
    return row


def measured(quick: bool) -> list[dict]:
    part = 100 if quick else 1
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "x.npy")
        for count in (10**5, 10**6, 10**7):
            in_process("write", path, str(count // part), "20")
            rows.append(in_process("file", path))
        in_process("write", path, str(10**6 // part), "50")
        rows.append(in_process("memory", path))
        in_process("write", path, str(10**6 // part), "20")
        in_process("parquet", path)
        rows += [in_process("source", path, source) for source in SOURCES]
    return rows


def exponent(rows: list[dict], name: str) -> float:
    first, *_, last = rows
    return math.log(last[name] / first[name]) / math.log(last["n"] / first["n"])


def report(rows: list[dict]) -> str:
    files = [row for row in rows if row["case"] == "file"]
    memory = next(row for row in rows if row["case"] == "memory")
    sources = [row for row in rows if row["case"] == "source"]
    lines = ["| rows, D = 20, from .npy | seconds | processor seconds | peak memory, GB |", "| --- | --- | --- | --- |"]
    lines += [f"| {r['n']:,} | {r['seconds']:.1f} | {r['cpu']:.1f} | {r['gb']:.2f} |" for r in files]
    growth = [f"{exponent(files, name):.2f}" for name in ("seconds", "cpu")]
    lines += [f"| growth exponent | {growth[0]} | {growth[1]} | |", ""]
    lines += ["| in memory | seconds | against one `sksd` on D slices | memory above the inputs, GB |"]
    lines += ["| --- | --- | --- | --- |"]
    size = f"{memory['n']:,} x {memory['d']}"
    lines += [f"| {size} | {memory['seconds']:.1f} | {memory['ratio']:.1f}x | {memory['gb_above']:.2f} |", ""]
    lines += ["| the same rows from | seconds | statistic, against memory | p-value |", "| --- | --- | --- | --- |"]
    for r in sources:
        away = abs(r["statistic"] / sources[0]["statistic"] - 1)
        lines.append(f"| {r['source']} | {r['seconds']:.1f} | {away:.0e} | {r['pvalue']:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", nargs="+")
    options = parser.parse_args()
    if options.case:
        name, *arguments = options.case
        print(json.dumps(CASES[name](*arguments)))
        return
    rows = measured(options.quick)
    if not options.quick:
        (RESULTS / "scale.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (RESULTS / "scale.md").write_text(report(rows))
    print(report(rows))


if __name__ == "__main__":
    main()
