"""The command line: what it answers, with which status, and twenty kinds of bad input to each command."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slicestein._cli.main import main

X = np.random.default_rng(0).standard_normal((400, 3))
MODEL = """
import jax.numpy as jnp
number = 3
def log_density(x):
    return -0.5 * jnp.sum(x**2)
def score(x):
    return -x
def vector(x):
    return x
def nan(x):
    return jnp.nan * x
def fails(x):
    raise RuntimeError("two\\nlines")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model and sample files, in which the command is run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "cli_model", raising=False)
    (tmp_path / "cli_model.py").write_text(MODEL)
    (tmp_path / "cli_broken.py").write_text("def f(:\n")
    np.save("x.npy", X)
    np.save("same.npy", X + 0.0)
    np.savez("run.npz", x=X, score=-X, names=["a", "b", "c"])
    np.savez("narrow.npz", x=X * [1.0, 0.5, 1.0], score=-X * [1.0, 0.5, 1.0], names=["a", "b", "c"])
    np.save("short.npy", X[:4])
    np.save("flat.npy", X[:, 0])
    np.save("wide.npy", np.tile(X, 2))
    np.save("nan.npy", np.where(X > 2, np.nan, X))
    np.save("chains.npy", X.reshape(4, 100, 3))
    (tmp_path / "words.csv").write_text("a,b\n1,x\n")
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "occupied" / "report.html").mkdir(parents=True)
    return tmp_path


def tree(folder):
    return {p.relative_to(folder) for p in folder.rglob("*") if "__pycache__" not in p.parts}


def test_samples_that_fit(folder, capsys):
    assert main(["test", "run.npz", "--score", "run.npz"]) == 0
    assert "no evidence against the model" in capsys.readouterr().out


def test_samples_that_do_not_fit_are_told_with_their_parameter(folder, capsys):
    arguments = ["test", "narrow.npz", "--target", "cli_model:log_density", "--report", "out.html"]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert "do NOT fit" in out
    assert "carried by b (" in out
    assert "worst directions" in out
    assert "do not fit the model" in Path("out.html").read_text()


def test_scores_and_targets_give_one_answer(folder, capsys):
    answers = []
    for model in (
        ["--score", "narrow.npz"],
        ["--target", "cli_model:log_density"],
        ["--target", "cli_model:score", "--target-kind", "score"],
    ):
        assert main(["test", "narrow.npz", "--json", "--key", "3", *model]) == 1
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["reject"] is True
    assert answers[0]["names"] == ["a", "b", "c"]
    for other in answers[1:]:
        assert other["statistic"] == pytest.approx(answers[0]["statistic"], rel=1e-9)


def test_chains_in_rows_are_told_by_an_option(folder, capsys):
    rows, chains = (
        (
            main(["test", name, "--target", "cli_model:log_density", "--json", *more]),
            json.loads(capsys.readouterr().out),
        )
        for name, more in (("x.npy", ["--chains", "4"]), ("chains.npy", []))
    )
    assert rows[1]["bootstrap"] == "dependent"
    assert rows[1]["pvalue"] == chains[1]["pvalue"]


def test_correlated_rows_get_a_note(folder, capsys):
    np.save("slow.npy", np.repeat(X, 10, axis=0))
    main(["test", "slow.npy", "--target", "cli_model:log_density"])
    err = capsys.readouterr().err
    assert err.startswith("note: the samples look serially correlated")
    assert err.count("\n") == 1


def test_samples_that_look_bounded_get_a_note(folder, capsys):
    np.savez("positive.npz", x=np.abs(X), names=["a", "b", "c"])
    main(["test", "positive.npz", "--target", "cli_model:log_density"])
    assert "note: every sample of a (and 2 more) is positive" in capsys.readouterr().err


def test_quality_ranks(folder, capsys):
    assert main(["quality", "narrow.npz", "x.npy", "--target", "cli_model:log_density", "--json"]) == 0
    ranked = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in ranked] == ["x.npy", "narrow.npz"]
    assert main(["quality", "narrow.npz", "x.npy", "--target", "cli_model:log_density"]) == 0
    assert "behind the best" in capsys.readouterr().out


def test_help_is_not_an_error(capsys):
    assert main(["--help"]) == 0
    assert "quality" in capsys.readouterr().out


GOOD = ["--target", "cli_model:log_density"]
BAD_MODELS = [
    ([], "give the model"),
    (["--target", "cli_model"], "--target must be MODULE:FUNCTION, got 'cli_model'"),
    (["--target", ":f"], "--target must be MODULE:FUNCTION"),
    (["--target", "no_such_module:f"], "cannot import no_such_module: ModuleNotFoundError"),
    (["--target", "cli_broken:f"], "cannot import cli_broken: SyntaxError"),
    (["--target", "cli_model:missing"], "cli_model has no function missing"),
    (["--target", "cli_model:number"], "cli_model has no function number"),
    (["--target", "cli_model:vector"], "cli_model:vector failed as a log-density: TypeError"),
    (["--target", "cli_model:fails"], "cli_model:fails failed as a log-density: RuntimeError: two lines"),
    (["--target", "cli_model:nan", "--target-kind", "score"], "score has 1200 values that are NaN or infinite"),
    (["--target", "cli_model:log_density", "--target-kind", "score"], "must return shape (400, 3)"),
    (["--target", "cli_model:score", "--target-kind", "potential"], "'potential' is not one of"),
    ([*GOOD, "--key", "one"], "--key"),
    ([*GOOD, "--key", "-1"], "--key"),
    ([*GOOD, "--key", str(2**70)], "--key"),
    ([*GOOD, "--chains", "7"], "cannot be cut into 7 chains"),
    ([*GOOD, "--frobnicate"], "No such option: --frobnicate"),
]
BAD_SAMPLES = [
    ("missing.npy", "missing.npy: no such file"),
    (".", "cannot read"),
    ("cli_model.py", "cannot read .py"),
    ("words.csv", "could not convert string"),
    ("flat.npy", "holds an array of shape (400,)"),
    ("nan.npy", "values that are NaN or infinite"),
]
CASES = (
    [(["test", "x.npy", *more], message) for more, message in BAD_MODELS]
    + [(["test", name, *GOOD], message) for name, message in BAD_SAMPLES]
    + [
        (["test"], "Missing argument"),
        (["test", "short.npy", *GOOD], "too few samples"),
        (["test", "x.npy", "x.npy", *GOOD], "unexpected extra argument"),
        (["test", "x.npy", "--score", "missing.npy"], "missing.npy: no such file"),
        (["test", "x.npy", "--score", "wide.npy"], "holds scores of shape (400, 6), but the samples have (400, 3)"),
        (["test", "x.npy", "--score", "x.nc"], "give it as the samples too"),
        (["test", "x.npy", "--score", "x.npy", *GOOD], "either as --score FILE or as --target"),
        (["test", "x.npy", *GOOD, "--alpha", "2"], "alpha must lie between 0 and 1"),
        (["test", "x.npy", *GOOD, "--alpha", "nan"], "alpha must lie between 0 and 1"),
        (["test", "x.npy", *GOOD, "--alpha", "1e-9"], "cannot reach level"),
        (["test", "x.npy", *GOOD, "--method", "best"], "method must be one of"),
        (["test", "x.npy", *GOOD, "--method", "mmd"], "mmd compares with draws of the model"),
        (["test", "x.npy", *GOOD, "--report", "out.pdf"], "out.pdf: a report is an .html file"),
        (["test", "x.npy", *GOOD, "--report", "taken/out.html"], "cannot be written there"),
        (["test", "x.npy", *GOOD, "--report", "nowhere/out.html"], "cannot be written there"),
    ]
    + [(["quality", "x.npy", "same.npy", *more], message) for more, message in BAD_MODELS]
    + [(["quality", "x.npy", name, *GOOD], message) for name, message in BAD_SAMPLES]
    + [
        (["quality", *GOOD], "Missing argument"),
        (["quality", "x.npy", *GOOD], "at least two sample sets"),
        (["quality", "x.npy", "x.npy", *GOOD], "given twice"),
        (["quality", "x.npy", "wide.npy", *GOOD], "differ in dimension"),
        (["quality", "x.npy", "short.npy", *GOOD], "short.npy: holds 4 samples: at least 100"),
    ]
    + [
        (["demo", "--out", "taken"], "'taken' cannot be a folder"),
        (["demo", "--out", "taken/deeper"], "'taken/deeper' cannot be a folder"),
        (["demo", "--out", "taken/../taken"], "cannot be a folder"),
        (["demo", "--out", ""], "'' cannot be a folder"),
        (["demo", "--out= "], "' ' cannot be a folder"),
        (["demo", "--out", "dangling"], "'dangling' cannot be a folder"),
        (["demo", "--out", "dangling/deeper"], "cannot be a folder"),
        (["demo", "--out", "loop"], "'loop' cannot be a folder"),
        (["demo", "--out", "occupied"], "'occupied' cannot be a folder"),  # a folder is called report.html
        (["demo", "--out", "n" * 300], "File name too long"),
        (["demo", "--out", "a\0b"], "null"),
        (["demo", "--out", "/dev/null"], "cannot be a folder"),
        (["demo", "--out", "/dev/null/deeper"], "cannot be a folder"),
        (["demo", "--out", "/proc/nowhere"], "/proc/nowhere"),
        (["demo", "--out"], "Option '--out' requires an argument"),
        (["demo", "--ot", "folder"], "No such option: --ot"),
        (["demo", "-o", "folder"], "No such option: -o"),
        (["demo", "folder"], "unexpected extra argument"),
        (["demo", "x.npy", "y.npy"], "extra argument"),
        (["demo", "--report", "out.html"], "No such option: --report"),
        (["demo", *GOOD], "No such option: --target"),
        (["demo", "--json"], "No such option: --json"),
        (["demo", "--key", "3"], "No such option: --key"),
    ]
    + [
        (["reproduce"], "Missing argument"),
        (["reproduce", "gaussian_gof"], "run it in the folder of a checkout"),
        (["reproduce", ""], "run it in the folder of a checkout"),
        (["reproduce", "--preset", "smoke"], "Missing argument"),
        (["reproduce", "gaussian_gof", "--preset"], "requires an argument"),
        (["reproduce", "gaussian_gof", "--presets", "smoke"], "No such option: --presets"),
        (["reproduce", "gaussian_gof", "-p", "smoke"], "No such option: -p"),
        (["reproduce", "gaussian_gof", "--key", "1"], "No such option: --key"),
        (["reproduce", "gaussian_gof", "--out", "folder"], "No such option: --out"),
        (["reproduce", "gaussian_gof", "--json"], "No such option: --json"),
        (["reproduce", "gaussian_gof", "--resume"], "No such option: --resume"),
        (["reproduce", "gaussian_gof", "rbm_gof"], "unexpected extra argument"),
        (["reproduce", "gaussian_gof", "smoke", "quick"], "extra argument"),
    ]
    + [([], "Missing command"), (["tset"], "No such command 'tset'"), (["--verbose"], "No such option: --verbose")]
)


@pytest.mark.parametrize(("arguments", "message"), CASES, ids=[" ".join(c) or "nothing" for c, _ in CASES])
def test_bad_input_is_one_line_and_writes_nothing(folder, capsys, arguments, message):
    before = tree(folder)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("slicestein: ")
    assert err.count("\n") == 1
    assert tree(folder) == before


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout in small: the runner and one experiment of its own, among other files."""
    folder = tmp_path / "experiments"
    (folder / "results").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "runner.py").write_text((Path(__file__).parents[2] / "experiments" / "runner.py").read_text())
    (folder / "tiny.py").write_text(TINY)
    (folder / "summary.py").write_text("# no cells here\n")
    (folder / "latin.py").write_bytes(b"# caf\xe9\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TINY = """
from experiments import runner

def cells(preset):
    return []

if __name__ == "__main__":
    print("ran", runner.preset("tiny"))
"""
NAMES = ("never", "", " ", "TINY", "tin", "tiny tiny", "tiny;ls", "tiny\n", "t*", "--")
PATHS = ("tiny.py", "experiments.tiny", "experiments/tiny", "./tiny", "../tiny", "/tiny")
OTHER_FILES = ("runner", "summary", "latin", "__init__", "results", "os")


@pytest.mark.parametrize("name", [*NAMES, *PATHS, *OTHER_FILES])
def test_an_unknown_experiment_is_told_the_known_ones(checkout, capfd, name):
    before = tree(checkout)
    assert main(["reproduce", "--", name]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert f"there is no experiment {name!r}: choose from tiny\n" in err
    assert err.count("\n") == 1
    assert tree(checkout) == before


@pytest.mark.slow
def test_reproduce_runs_an_experiment(checkout, capfd):
    assert main(["reproduce", "tiny", "--preset", "smoke"]) == 0
    assert "ran smoke" in capfd.readouterr().out
    for preset in ("never", "", "Smoke"):
        assert main(["reproduce", "tiny", "--preset", preset]) == 2
        out, err = capfd.readouterr()
        assert "ran" not in out
        assert f"invalid choice: {preset!r}" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("runner", ["missing", "a folder"])
def test_half_a_checkout_is_none(checkout, capsys, runner):
    (checkout / "experiments" / "runner.py").unlink()
    if runner == "a folder":
        (checkout / "experiments" / "runner.py").mkdir()
    assert main(["reproduce", "tiny"]) == 2
    assert "run it in the folder of a checkout" in capsys.readouterr().err


def test_a_report_is_not_written_when_the_test_fails(folder, capsys):
    assert main(["test", "nan.npy", *GOOD, "--report", "out.html"]) == 2
    assert not Path("out.html").exists()


def test_without_typer_the_remedy_is_told():
    program = """
import sys
sys.modules["typer"] = None
from slicestein._cli.main import main
sys.exit(main(["demo"]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == "slicestein: the command line needs typer: pip install 'slicestein[cli]'\n"
