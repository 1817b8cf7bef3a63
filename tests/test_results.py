"""Result files obey one schema, and a run that is killed goes on where it was."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import claims, runner, schema
from experiments.claim import VERDICTS, sign
from tests.test_experiments import NAMES

FILES = sorted(runner.RESULTS.glob("*.jsonl"))
HELPERS = {"data", "hais", "highlights", "imputation", "paper", "runner", "schema", "summary", "arena_problems"}
HELPERS |= {"claim", "claims", "claims_testing", "claims_training"}
HELPERS |= {"posterior_models", "posterior_samplers", "posterior_tables", "thinning_problems"}
HELPERS |= {"vae_networks", "vae_training"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_result_files_are_valid(path):
    assert path.read_text()
    assert schema.faults(path, schema.cells_of(path.stem)) == []


CELLS = [{"n": 1, "seed": 0}, {"n": 2, "seed": 0}]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ('{"n": 1, "seed": 0, "square": 1}\n', None),
        ('{"n": 1, "square": 1}\n', "not a cell of this preset"),
        ('{"n": 3, "seed": 0, "square": 9}\n', "not a cell of this preset"),
        ('{"n": 1, "seed": 0, "square": 1}\n{"n": 1, "seed": 0, "square": 1}\n', "a second line of the cell"),
        ('{"n": 1, "seed": 0}\n', "no result"),
        ('{"n": 1, "seed": 0, "curves": {"a": [1.0, NaN]}}\n', "a number that is not finite"),
        ('{"n": 1, "seed": 0, "square": Infinity}\n', "a number that is not finite"),
        ('{"n": 1, "seed": 0, "square": 1}', "cut short"),
        ('{"n": 1, "seed": 0, "squ', "not a line of JSON"),
        ("[1, 2]\n", "not an object"),
    ],
)
def test_faults_are_found(lines, fault, tmp_path):
    path = tmp_path / "squares-quick.jsonl"
    path.write_text(lines)
    found = schema.faults(path, CELLS)
    assert (found == []) if fault is None else any(fault in text for text in found)


def test_every_experiment_is_listed():
    modules = {path.stem for path in runner.HERE.glob("*.py")} - {"__init__"}
    assert modules - HELPERS == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_three_presets(name):
    experiment = importlib.import_module(f"experiments.{name}")
    smoke, quick, paper = (experiment.cells(preset) for preset in ("smoke", "quick", "paper"))
    assert 0 < len(smoke) <= len(quick) <= len(paper)
    for cell in smoke + quick + paper:
        assert json.loads(json.dumps(cell)) == cell  # as it comes back from a result file


# --- a run that is killed ----------------------------------------------------------------------

PROGRAM = """
import sys, time
from pathlib import Path
from experiments import runner

HERE = Path(__file__).parent

def work(cell):
    import os
    with (HERE / "calls").open("a") as file:
        file.write(f"{cell['n']} {os.getpid()}\\n")
    time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
    return {"square": cell["n"] ** 2}

if __name__ == "__main__":
    runner.RESULTS = runner.FIGURES = HERE
    runner.run("squares-quick", [{"n": n} for n in range(6)], work)
"""


def start(folder: Path, seconds: float) -> subprocess.Popen:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(runner.HERE.parent), *sys.path]),
        "SLICESTEIN_WORKERS": "1",
    }
    program = [sys.executable, str(folder / "squares.py"), str(seconds)]
    return subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL)


def calls(folder: Path) -> list[tuple[int, int]]:
    path = folder / "calls"
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []


def until(condition, seconds: float = 60.0) -> None:
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop, "waited too long"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    (tmp_path / "squares.py").write_text(PROGRAM)
    path = tmp_path / "squares-quick.jsonl"
    first = start(tmp_path, 0.4)
    until(lambda: path.exists() and path.read_text().count("\n") >= 2)
    first.send_signal(signal.SIGKILL)
    first.wait()
    (worker,) = {pid for _, pid in calls(tmp_path)}  # one, as SLICESTEIN_WORKERS says
    until(lambda: not alive(worker))
    done = path.read_text()
    kept = [json.loads(line)["n"] for line in done.splitlines()]
    assert 2 <= len(kept) < 6
    path.write_text(done + '{"n": 5, "squ')  # as if killed while it wrote

    before = len(calls(tmp_path))
    assert start(tmp_path, 0).wait() == 0
    assert path.read_text().startswith(done)
    assert schema.faults(path, [{"n": n} for n in range(6)]) == []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((row["n"], row["square"]) for row in rows) == [(n, n * n) for n in range(6)]
    assert sorted(n for n, _ in calls(tmp_path)[before:]) == sorted(set(range(6)) - set(kept))


# --- the claims of the paper -------------------------------------------------------------------


def test_every_claim_has_a_file_and_a_verdict():
    found = claims.claims()
    assert len({claim.what for claim in found}) == len(found)
    for claim in found:
        assert claim.verdict in VERDICTS
        assert claim.paper, claim.what
        assert claim.here, claim.what
        assert "nan" not in claim.here, claim.what
        path = runner.HERE.parent / claim.source
        assert (path if "/" in claim.source else runner.RESULTS / f"{claim.source}.jsonl").is_file()
    for file, test in claims.tests_of_laws():
        assert f"def {test}(" in (runner.HERE.parent / file).read_text(), test


@pytest.mark.parametrize(
    ("mean", "error", "expected"), [(1.0, 0.4, "same"), (-1.0, 0.4, "not seen"), (0.5, 0.4, "not decidable here")]
)
def test_a_difference_within_two_standard_errors_decides_nothing(mean, error, expected):
    assert sign(mean, error) == expected
