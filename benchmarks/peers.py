"""`python -m benchmarks.peers [--quick]`: whole tests of other packages beside the default one: time, memory, power.

D = 50, double precision, one thread, every case in a process of its own. `benchmarks/results/peers.jsonl` holds a line
per case, `peers.md` the tables that docs/scale.md quotes. A case that is there is not run again; with ``--again`` those
of the default test are. Other packages' tests are those of `peer_tests`; *here*: the same test in this package. Ten
minutes of a core, and 2 GB of memory. With ``--quick`` sizes are small, and only the tables are printed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

from benchmarks import peer_tests
from benchmarks.__main__ import RESULTS
from experiments.arena_problems import draw

DIM, SIZES, TRIALS = 50, (1000, 4000, 16_000), 20
TIMED = "one shifted"  # in which every method has power
PROBLEMS = ("one shifted", "all shifted", "one narrow")  # experiments/arena_problems.py
DEFAULT = "slicestein, default"
PEERS = {
    "KSD, kernel-gof": peer_tests.ksd,
    "KSDAgg, ksdagg": peer_tests.ksdagg,
    "FSSD-opt, kernel-gof": peer_tests.fssd_opt,
}
HERE = {"KSD, here": "ksd", "KSDAgg, here": "ksdagg", "FSSD-opt, here": "fssd-opt"}
METHODS = (DEFAULT, *PEERS, *HERE)
MATRICES = {"KSD, kernel-gof": 8, "KSDAgg, ksdagg": 9, "KSD, here": 9, "KSDAgg, here": 10}  # N x N at once, at N = 4000
MOST_MEMORY = 4.0  # GB; what needs more is not run


def pvalue(method: str, x: np.ndarray, score_fn, seed: int) -> float:
    if method in PEERS:
        return PEERS[method](x, score_fn, seed)
    import slicestein as ss

    return ss.gof_test(x, score_fn, key=seed, method=HERE.get(method, "auto")).pvalue


def trial(method: str, problem: str, n: int, seed: int) -> tuple[float, float]:
    """The p-value, and processor seconds of the test."""
    data = draw(problem, seed, n, DIM)
    x, score_fn = data.x.astype(float), data.score_fn
    start = time.process_time()
    found = pvalue(method, x, score_fn, seed)
    return found, time.process_time() - start


def time_case(method: str, n: str) -> dict:
    """One test, after a small one: what a process does once is not what is measured."""
    trial(method, TIMED, 200, 1)
    found, cpu = trial(method, TIMED, int(n), 0)
    return {"pvalue": found, "cpu": cpu, "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def power_case(method: str, problem: str, n: str, trials: str) -> dict:
    found = [trial(method, problem, int(n), seed)[0] for seed in range(int(trials))]
    return {"rejected": int(np.sum(np.array(found) <= peer_tests.LEVEL)), "trials": len(found)}


CASES: dict = {"time": time_case, "power": power_case}


def gigabytes(method: str, n: int) -> float:
    return MATRICES.get(method, 0) * n**2 * 8 / 2**30


def cells(quick: bool) -> list[tuple[str, ...]]:
    sizes, trials = ((200, 400), 2) if quick else (SIZES, TRIALS)
    timed = [("time", method, str(n)) for n in sizes for method in METHODS if gigabytes(method, n) <= MOST_MEMORY]
    return timed + [("power", m, problem, str(sizes[0]), str(trials)) for problem in PROBLEMS for m in METHODS]


def in_process(cell: tuple[str, ...]) -> dict:
    command = [sys.executable, "-m", "benchmarks.peers", "--case", *cell]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP")}
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    if found.returncode:
        raise RuntimeError(found.stderr)
    row = {"cell": list(cell), **json.loads(found.stdout.splitlines()[-1])}
    print(json.dumps(row), file=sys.stderr)
    return row


def report(rows: dict[tuple[str, ...], dict]) -> str:
    sizes = sorted({int(cell[2]) for cell in rows if cell[0] == "time"})
    lines = ["| test, processor seconds | " + " | ".join(f"N = {n:,}" for n in sizes) + " |"]
    lines += ["| --- |" + " --- |" * len(sizes)]
    for method in METHODS:
        found = [rows.get(("time", method, str(n))) for n in sizes]
        cells = [
            f"needs {gigabytes(method, n):.0f} GB" if row is None else f"{row['cpu']:.2f}"
            for n, row in zip(sizes, found, strict=True)
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    power = {cell[1:3]: row for cell, row in rows.items() if cell[0] == "power"}
    trials = next(iter(power.values()))["trials"]
    lines += ["", f"| rejected, N = {sizes[0]:,}, {trials} trials | " + " | ".join(PROBLEMS) + " |"]
    lines += ["| --- |" + " --- |" * len(PROBLEMS)]
    for method in METHODS:
        rates = [power[method, problem]["rejected"] / trials for problem in PROBLEMS]
        lines.append(f"| {method} | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--case", nargs="+")
    options = parser.parse_args()
    if options.case:
        name, *arguments = options.case
        print(json.dumps(CASES[name](*arguments)))
        return
    path = RESULTS / "peers.jsonl"
    kept = path.read_text().splitlines() if path.exists() and not options.quick else []
    rows = {tuple(row["cell"]): row for row in map(json.loads, kept)}
    if options.again:
        rows = {cell: row for cell, row in rows.items() if DEFAULT not in cell}
    for cell in cells(options.quick):
        if cell not in rows:
            rows[cell] = in_process(cell)
        if not options.quick:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))
    if not options.quick:
        (RESULTS / "peers.md").write_text(report(rows))
    print(report(rows))


if __name__ == "__main__":
    main()
