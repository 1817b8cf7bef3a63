"""`python -m benchmarks`: accuracy, time and memory of the engines, as a table and as JSON lines.

Every case runs in a process of its own, so that peak memory is that of the case alone, and times the bare
matrix product ``x @ g.T`` beside it, so that ratios are of one run. `benchmarks/results/core.jsonl` holds a
line per case, `core.md` the tables and the claims that the documentation quotes.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks import claims

RESULTS = Path(__file__).parent / "results"
# Samples beyond which a case takes minutes. "portable" is the Fourier engine without the compiled kernel.
LIMIT = {"dense": 5_000, "exact": 20_000, "portable": 100_000, "fourier": 1_000_000}


def speed_cases(quick: bool):
    grid = [(n, d) for n in (200, 800, 5_000, 20_000, 100_000, 1_000_000) for d in (10, 100, 200)]
    for n, d in [(200, 10), (800, 100)] if quick else grid:
        for method, limit in LIMIT.items():
            for derivative in (False, True):
                pairs = n * n * d if method in ("dense", "exact") else 0
                too_large = n * d > 1e8 or (derivative and n * d == 1e8)  # for 24 GB of memory
                too_slow = pairs > (2e8 if derivative else 3e9)
                if n > limit or too_slow or too_large or (method == "portable" and d != 100):
                    continue
                yield {"case": "speed", "method": method, "n": n, "d": d, "derivative": derivative}


def all_cases(quick: bool):
    yield from speed_cases(quick)
    for data in ("gaussian", "laplace", "t5", "bimodal", "duplicated", "outlier"):
        for d in (1, 10, 100):
            for dtype in ("float64", "float32"):
                yield {"case": "accuracy", "data": data, "n": 1_000, "d": d, "dtype": dtype}
    yield {"case": "tails", "n": 20_000 if quick else 100_000, "d": 10}


def stored() -> list[dict]:
    path = RESULTS / "core.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(case: dict) -> dict:
    command = [sys.executable, "-m", "benchmarks.case", json.dumps(case)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"{case} failed:\n{process.stderr}")
    return json.loads(process.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing stored")
    parser.add_argument("--resume", action="store_true", help="run only what the result file does not have")
    options = parser.parse_args()
    known = stored() if options.resume else []
    rows = []
    for case in all_cases(options.quick):
        row = next((row for row in known if case.items() <= row.items()), None) or run(case)
        rows.append(row)
        print(claims.describe(row), flush=True)
    report = claims.report(rows)
    print("\n" + report)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "core.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (RESULTS / "core.md").write_text(report)


if __name__ == "__main__":
    main()
