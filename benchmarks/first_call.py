"""`python -m benchmarks.first_call`: what a person waits for: the import, a first test, the command line.

`benchmarks/results/first_call.md` holds the table. Each case runs in fresh processes, the cases in turn, and the least
counts. Processor seconds (user and system) depend less than those of the clock on what else the machine does; matrix
products have one thread, since two wait for each other in loops that count as work.
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
MODEL = """
import jax.numpy as jnp
def log_density(x):
    return -0.5 * jnp.sum(x**2)
"""
COMMAND = ["-m", "slicestein._cli", "test", "draws.npz"]
JAX = "import jax"
CASES = {
    JAX: ["-c", "import jax"],
    "import slicestein": ["-c", "import slicestein"],
    "import, and a first test with N=1000, D=100": ["-c", FIRST_TEST],
    "`slicestein test`, 20,000 x 50 from .npz, with its scores": [*COMMAND, "--score", "draws.npz"],
    "`slicestein test`, 20,000 x 50 from .npz, `--target model:log_density`": [
        *COMMAND,
        "--target",
        "model:log_density",
    ],
}
ROUNDS = 7


def measured(arguments: list[str], folder: str) -> dict:
    """Wall and processor seconds and the peak of memory of one process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as a user has it
    environment["OPENBLAS_NUM_THREADS"] = "1"
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):  # 1: samples were rejected
        raise RuntimeError(f"{arguments} failed")
    wall = time.perf_counter() - start
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "gb": usage.ru_maxrss / 2**20}


def report(rows: dict[str, dict]) -> str:
    lines = ["| what | seconds | processor seconds | against `import jax` | peak memory, GB |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for what, r in rows.items():
        ratio = f"{r['cpu'] / rows[JAX]['cpu']:.1f}x"
        lines.append(f"| {what} | {r['wall']:.2f} | {r['cpu']:.2f} | {ratio} | {r['gb']:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.py").write_text(MODEL)
        measured(["-c", DRAWS], folder)
        runs = [{what: measured(arguments, folder) for what, arguments in CASES.items()} for _ in range(ROUNDS)]
    rows = {what: {name: min(run[what][name] for run in runs) for name in ("wall", "cpu", "gb")} for what in CASES}
    (RESULTS / "first_call.md").write_text(report(rows))
    print(report(rows))


if __name__ == "__main__":
    main()
