"""`python -m benchmarks.first_call`: what a person waits for: the import, a first test, the command line.

`benchmarks/results/first_call.md` holds the table. Each case runs in fresh processes, and the least counts. Processor
seconds (user and system, all threads) depend less than those of the clock on what else the machine does.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.__main__ import RESULTS

DRAWS = """
import numpy as np
x = np.random.default_rng(0).standard_normal((20000, 50))
x[:, 17] *= 0.95
np.savez("draws.npz", x=x, score=-x)
"""
FIRST_TEST = """
import numpy as np
import slicestein as ss
x = np.random.default_rng(0).standard_normal((1000, 100), dtype=np.float32)
ss.gof_test(x, -x, key=0)
"""
COMMAND = ["-m", "slicestein._cli", "test", "draws.npz", "--score", "draws.npz"]
CASES = {
    "import jax": (["-c", "import jax"], 5),
    "import slicestein": (["-c", "import slicestein"], 5),
    "import, and a first test with N=1000, D=100": (["-c", FIRST_TEST], 2),
    "`slicestein test`, 20,000 x 50 from .npz": (COMMAND, 2),
}


def measured(arguments: list[str], folder: str) -> dict:
    """Wall and processor seconds and the peak of memory of one process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as a user has it
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):  # 1: samples were rejected
        raise RuntimeError(f"{arguments} failed")
    wall = time.perf_counter() - start
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "gb": usage.ru_maxrss / 2**20}


def report(rows: dict[str, dict]) -> str:
    lines = ["| what | seconds | processor seconds | peak memory, GB |", "| --- | --- | --- | --- |"]
    lines += [f"| {what} | {r['wall']:.1f} | {r['cpu']:.1f} | {r['gb']:.2f} |" for what, r in rows.items()]
    ratio = rows["import slicestein"]["cpu"] / rows["import jax"]["cpu"]
    lines.append(f"| `import slicestein` against `import jax` | | {ratio:.2f}x | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    rows: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        measured(["-c", DRAWS], folder)
        for what, (arguments, repeats) in CASES.items():
            found = [measured(arguments, folder) for _ in range(repeats)]
            rows[what] = {name: min(run[name] for run in found) for name in ("wall", "cpu", "gb")}
            print(what, rows[what], flush=True)
    (RESULTS / "first_call.md").write_text(report(rows))
    print(report(rows))


if __name__ == "__main__":
    main()
