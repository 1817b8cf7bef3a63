"""The command line: what it answers, with which status, and twenty kinds of bad input to each command."""

import dataclasses
import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import slicestein as ss
from slicestein._cli import commands, output
from slicestein._cli.main import run
from slicestein.gof.result import Parameter

X = np.random.default_rng(2).standard_normal((400, 3))
MODEL = """
import sys
import jax.numpy as jnp
number = 3
print("hello from the model")
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
def exits(x):
    sys.exit(0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model and sample files, in which the command is run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "cli_model", raising=False)
    (tmp_path / "cli_model.py").write_text(MODEL)
    (tmp_path / "cli_broken.py").write_text("def f(:\n")
    (tmp_path / "cli_exit.py").write_text("import sys\nsys.exit(0)\n")
    np.save("x.npy", X)
    np.save("same.npy", X + 0.0)
    np.savez("run.npz", x=X, score=-X, names=["a", "b", "c"])
    np.savez("narrow.npz", x=X * [1.0, 0.5, 1.0], score=-X * [1.0, 0.5, 1.0], names=["a", "b", "c"])
    np.save("short.npy", X[:4])
    np.save("flat.npy", X[:, 0])
    np.save("wide.npy", np.tile(X, 2))
    np.save("nan.npy", np.where(X > 2, np.nan, X))
    np.save("chains.npy", X.reshape(4, 100, 3))
    np.savez("only.npz", x=X)
    (tmp_path / "words.csv").write_text("a,b\n1,x\n")
    write_csv("abc.csv", X, "abc")
    write_csv("xyz.csv", -X, "xyz")
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "occupied" / "report.html").mkdir(parents=True)
    return tmp_path


def write_csv(path, x, names):
    np.savetxt(path, x, delimiter=",", header=",".join(names), comments="", fmt="%.17g")


def tree(folder):
    return {p.relative_to(folder) for p in folder.rglob("*") if "__pycache__" not in p.parts}


def test_samples_that_fit(folder, capsys):
    assert run(["test", "run.npz", "--score", "run.npz"]) == 0
    out, err = capsys.readouterr()
    assert "no evidence against the model" in out
    assert err == ""


def test_samples_that_do_not_fit_are_told_with_their_parameter(folder, capsys):
    arguments = ["test", "narrow.npz", "--target", "cli_model:log_density", "--report", "out.html"]
    assert run(arguments) == 1
    out = capsys.readouterr().out
    assert "do NOT fit" in out
    assert "b is too narrow" in out
    assert "worst slices" in out
    assert "do not fit the model" in Path("out.html").read_text()


def test_scores_and_targets_give_one_answer(folder, capsys):
    answers = []
    for model in (
        ["--score", "narrow.npz"],
        ["--target", "cli_model:log_density"],
        ["--target", "cli_model:score", "--target-kind", "score"],
    ):
        assert run(["test", "narrow.npz", "--json", "--key", "3", *model]) == 1
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["reject"] is True
    assert answers[0]["worst"][0]["name"] == "b"
    for other in answers[1:]:
        assert other["statistic"] == pytest.approx(answers[0]["statistic"], rel=1e-9)


def test_chains_in_rows_are_told_by_an_option(folder, capsys):
    rows, chains = (
        (
            run(["test", name, "--target", "cli_model:log_density", "--json", *more]),
            json.loads(capsys.readouterr().out),
        )
        for name, more in (("x.npy", ["--chains", "4"]), ("chains.npy", []))
    )
    assert rows[1]["bootstrap"] == "dependent"
    assert rows[1]["pvalue"] == chains[1]["pvalue"]


def test_correlated_rows_get_a_note(folder, capsys):
    np.save("slow.npy", np.repeat(X, 10, axis=0))
    run(["test", "slow.npy", "--target", "cli_model:log_density", "--report", "slow.html"])
    out, err = capsys.readouterr()
    assert out.count("the samples look serially correlated") == 1
    assert "correlated" not in err  # once is enough
    assert "The samples look serially correlated" in Path("slow.html").read_text()


def test_samples_that_look_bounded_get_a_note(folder, capsys):
    np.savez("positive.npz", x=np.abs(X), names=["a", "b", "c"])
    run(["test", "positive.npz", "--target", "cli_model:log_density"])
    assert "all samples of a, b, c are positive, down to zero" in capsys.readouterr().out


def test_what_is_missing_is_told_before_the_model(folder, capsys):
    np.savez("other.npz", draws=X, grad=-X)
    for arguments, said in (
        (["test", "none.npz"], "none.npz: no such file"),
        (["quality", "none.npz", "x.npy"], "none.npz: no such file"),
        (["test", "other.npz"], "or call scores in an .npz score, scores or gradient"),
    ):
        assert run(arguments) == 2
        assert said in capsys.readouterr().err


def test_quality_ranks(folder, capsys):
    assert run(["quality", "narrow.npz", "x.npy", "--target", "cli_model:log_density", "--json"]) == 0
    ranked = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in ranked] == ["x.npy", "narrow.npz"]
    assert run(["quality", "narrow.npz", "x.npy", "--target", "cli_model:log_density"]) == 0
    assert "behind the best" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--help"], ["test", "--help"]])
def test_help_is_not_an_error(capsys, arguments):
    assert run(arguments) == 0
    assert "Usage: slicestein" in capsys.readouterr().out


def test_the_version_comes_with_what_it_runs_on(capsys):
    assert run(["--version"]) == 0
    out = capsys.readouterr().out
    assert re.match(r"slicestein \S+ with(out)? compiled kernels, Python 3\.\S+, jax \S+\n", out)


@pytest.mark.parametrize("available", [True, False])
def test_the_version_says_what_is_slower_without_compiled_kernels(capsys, monkeypatch, available):
    monkeypatch.setattr(commands.compiled, "AVAILABLE", available)
    assert run(["--version"]) == 0
    first, *more = capsys.readouterr().out.splitlines()
    assert ("without compiled kernels" in first) is not available
    assert bool(more) is not available
    assert all("results are the same; discrepancies take about ten times as long" in line for line in more)


def test_columns_are_matched_by_name(folder, capsys):
    """Scores with their columns in another order are the same scores, and a set of samples is the same set."""
    write_csv("forward.csv", X * [1, 0.5, 2], "abc")
    write_csv("scores.csv", -X * [1, 0.5, 2], "abc")
    write_csv("backward.csv", (-X * [1, 0.5, 2])[:, ::-1], "cba")
    answers = []
    for scores in ("scores.csv", "backward.csv"):
        run(["test", "forward.csv", "--score", scores, "--json"])
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]


def test_sample_sets_are_matched_by_name(folder, capsys):
    (folder / "cli_wide.py").write_text("def score(x):\n    return -x / 4.0 ** __import__('numpy').arange(3)")
    write_csv("forward.csv", X * [1, 2, 4], "abc")
    write_csv("backward.csv", (X * [1, 2, 4])[:, ::-1], "cba")
    target = ["--target", "cli_wide:score", "--target-kind", "score"]
    assert run(["quality", "forward.csv", "backward.csv", *target, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["discrepancy"] == second["discrepancy"]


def test_quality_takes_scores_from_files(folder, capsys):
    """The same ranking as from the model that the scores are of."""
    scores = ["--score", "narrow.npz", "--score", "run.npz"]
    answers = []
    for model in (scores, GOOD):
        assert run(["quality", "narrow.npz", "run.npz", *model, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    for found, expected in zip(*answers, strict=True):
        assert found["name"] == expected["name"]
        assert found["discrepancy"] == pytest.approx(expected["discrepancy"], rel=1e-9)


def test_one_sample_with_two_scores_is_refused(folder, capsys):
    np.savez("other.npz", x=X, score=-2 * X)
    assert run(["quality", "run.npz", "other.npz", "--score", "run.npz", "--score", "other.npz"]) == 2
    assert "one sample has two scores" in capsys.readouterr().err


def test_the_number_of_draws_is_an_option(folder, capsys):
    run(["test", "narrow.npz", "--score", "narrow.npz", "--num-bootstrap", "99", "--json"])
    assert json.loads(capsys.readouterr().out)["pvalue"] == 0.01


def test_json_is_a_verdict_and_arrays_go_to_a_file(folder, capsys):
    assert run(["test", "narrow.npz", "--score", "narrow.npz", "--json", "--arrays", "out.npz"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["reject"] is True
    assert not any(isinstance(value, list) and len(value) > 8 for value in answer.values())
    with np.load("out.npz") as arrays:
        assert arrays["null_distribution"].shape == (1000,)
        assert arrays["r"].shape == arrays["g"].shape == (len(arrays["per_slice"]), 3)
        assert arrays["names"].tolist() == ["a", "b", "c"]
        assert arrays["per_dimension"].argmax() == 1


def test_json_stays_small_with_many_parameters():
    dim = 2000
    slices, shares = ss.Slices.basis(dim), np.full(dim, 1 / dim)
    names = tuple(f"beta[{i}]" for i in range(dim))
    options = {"slices": slices, "per_slice": shares, "per_dimension": shares, "names": names}
    result = ss.GofResult(1.0, 0.01, np.zeros(1000), 0.05, "maxsksd-rg", 10, 10, **options)
    parameters = tuple(Parameter(name, 0.5, 0.0, 0.1, 1.0, 0.1, 1.0, "") for name in names)
    assert len(json.dumps(output.verdict(dataclasses.replace(result, parameters=parameters)))) < 4000


def test_json_has_no_numbers_that_json_does_not_know(capsys):
    output.print_json({"a": [math.nan, {"b": -math.inf}], "c": 1.5})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"a": [None, {"b": None}], "c": 1.5}


def test_lines_do_not_wrap_where_there_is_no_terminal(folder, capsys):
    names = [letter * 70 for letter in "abc"]
    np.savez("long.npz", x=X * 0.6, names=names)
    run(["test", "long.npz", *GOOD])
    out = capsys.readouterr().out
    assert all(re.search(rf"^  {name} is too narrow: .* \(p < 0.001\)$", out, re.MULTILINE) for name in names)


def test_what_a_model_prints_is_no_part_of_the_answer(folder, capsys):
    run(["test", "x.npy", *GOOD, "--json"])
    out, err = capsys.readouterr()
    assert set(json.loads(out)) >= {"samples", "reject", "pvalue"}
    assert err == "hello from the model\n"


def fails_with(error):
    def function(*_, **__):
        raise error

    return function


def test_a_fault_of_ours_is_told_as_ours(folder, capsys, monkeypatch):
    """An error that is not about the input must not look as if it were."""
    monkeypatch.setattr(commands, "gof_test", fails_with(ValueError("shapes\nbroke")))
    assert run(["test", "run.npz", "--score", "run.npz"]) == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Traceback")
    assert err.endswith("\nslicestein: internal error: ValueError: shapes broke; please report it\n")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")])
def test_too_little_memory_is_no_fault_of_ours(folder, capsys, monkeypatch, error):
    monkeypatch.setattr(commands, "gof_test", fails_with(error))
    assert run(["test", "run.npz", "--score", "run.npz"]) == 2
    assert capsys.readouterr().err.startswith("slicestein: the work does not fit into memory")


FITS = ["test", "run.npz", "--score", "run.npz"]


def test_a_file_that_is_there_is_kept_unless_forced(folder, capsys, monkeypatch):
    Path("out.html").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(commands, "gof_test", fails_with(AssertionError("checked too late")))
        assert run([*FITS, "--report", "out.html"]) == 2
    assert "out.html: exists already: name another file, or overwrite it with --force" in capsys.readouterr().err
    assert Path("out.html").read_text() == "mine"
    assert run([*FITS, "--report", "out.html", "--force"]) == 0
    assert "No evidence" in Path("out.html").read_text()


@pytest.mark.parametrize("before", [None, "mine"])
def test_a_full_disk_costs_the_file_and_not_the_verdict(folder, capsys, monkeypatch, before):
    if before is not None:
        Path("out.html").write_text(before)
    files = tree(folder)
    monkeypatch.setattr(os, "fsync", fails_with(OSError(errno.ENOSPC, "No space left on device")))
    assert run([*FITS, "--report", "out.html", "--arrays", "out.npz", "--force"]) == 2
    out, err = capsys.readouterr()
    assert "no evidence against the model" in out
    assert err == (
        "slicestein: out.html: could not be written (No space left on device); "
        "out.npz: could not be written (No space left on device): the verdict stands\n"
    )
    assert tree(folder) == files
    if before is not None:
        assert Path("out.html").read_text() == before


def test_what_a_report_needs_is_checked_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr(commands, "gof_test", fails_with(AssertionError("checked too late")))
    assert run([*FITS, "--report", "out.html"]) == 2
    assert "a report needs jinja2: pip install jinja2 matplotlib" in capsys.readouterr().err
    assert run(["demo"]) == 2
    assert not Path("demo").exists()


def test_the_demonstration_may_overwrite_its_own_reports(folder, monkeypatch):
    Path("demo").mkdir()
    Path("demo/report.html").write_text("an older one")
    done = []
    monkeypatch.setattr(commands.demo, "run", lambda out, **_: done.append(out))
    assert run(["demo"]) == 0
    assert done == [Path("demo")]


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
    (["--target", "cli_model:exits"], "cli_model:exits failed as a log-density: SystemExit: 0"),
    (["--target", "cli_exit:f"], "cannot import cli_exit: SystemExit: 0"),
    (["--target", "cli_model:nan", "--target-kind", "score"], "score has 1200 values that are NaN or infinite"),
    (["--target", "cli_model:log_density", "--target-kind", "score"], "must return shape (400, 3)"),
    (["--target", "cli_model:score", "--target-kind", "potential"], "'potential' is not one of"),
    ([*GOOD, "--key", "one"], "--key"),
    ([*GOOD, "--key", "-1"], "--key"),
    ([*GOOD, "--key", str(2**70)], "--key"),
    ([*GOOD, "--chains", "7"], "cannot be cut into 7 chains"),
    ([*GOOD, "--frobnicate"], "No such option: --frobnicate"),
    (["--target", "a\0b:f"], "null byte"),
]
BAD_SAMPLES = [
    ("missing.npy", "missing.npy: no such file"),
    ("cli_model.py", "cannot read .py"),
    ("words.csv", "words.csv: line 2, column b: 'x' is not a number"),
    ("n" * 300 + ".npy", "File name too long"),
    ("loop", "without a suffix"),
    ("a\0b.npy", "null byte"),
    ("flat.npy", "holds an array of shape (400,)"),
    ("nan.npy", "values that are NaN or infinite"),
]
CASES = (
    [(["test", "x.npy", *more], message) for more, message in BAD_MODELS]
    + [(["test", name, *GOOD], message) for name, message in BAD_SAMPLES]
    + [(["test", ".", *GOOD], "holds files of several kinds, .csv and .npy and .npz")]
    + [
        (["test"], "Missing argument"),
        (["test", "short.npy", *GOOD], "too few samples"),
        (["test", "x.npy", "x.npy", *GOOD], "got 2 files"),
        (["test", "x.npy", "--score", "missing.npy"], "missing.npy: no such file"),
        (["test", "x.npy", "--score", "wide.npy"], "holds scores of shape (400, 6), but the samples have (400, 3)"),
        (["test", "x.npy", "--score", "x.nc"], "give it as the samples too"),
        (["test", "x.npy", "--score", "x.npy", *GOOD], "either as --score FILE or as --target"),
        (["test", "x.npy", *GOOD, "--alpha", "2"], "alpha must lie between 0 and 1"),
        (["test", "x.npy", *GOOD, "--alpha", "nan"], "alpha must lie between 0 and 1"),
        (["test", "x.npy", *GOOD, "--alpha", "1e-9"], "--num-bootstrap 1000 cannot reach --alpha 1e-09: use at least"),
        (["test", "x.npy", *GOOD, "--num-bootstrap", "10"], "cannot reach --alpha 0.05: use at least 19 draws"),
        (["test", "x.npy", *GOOD, "--num-bootstrap", "0"], "--num-bootstrap"),
        (["test", "x.npy", "--score", "x.npy"], "x.npy: holds the samples themselves"),
        (["test", "same.npy", "--score", "x.npy"], "x.npy: holds the samples themselves"),
        (["test", "only.npz", "--score", "only.npz"], "only.npz: holds x: name the array of the scores score or"),
        (["test", "abc.csv", "--score", "xyz.csv"], "xyz.csv: has no column 'a', which the samples have"),
        (["test", "run.npz", "--score", "run.npz", "--target-kind", "score"], "--target-kind says what --target is"),
        (["test", "x.npy", *GOOD, "--method", "best"], "method must be"),
        (["test", "x.npy", *GOOD, "--method", "mmd"], "mmd compares with draws of the model"),
        (["test", "x.npy", *GOOD, "--report", "out.pdf"], "out.pdf: a report is an .html file"),
        (["test", "x.npy", *GOOD, "--report", "taken/out.html"], "cannot be written there"),
        (["test", "x.npy", *GOOD, "--report", "nowhere/out.html"], "cannot be written there"),
        (["test", "x.npy", *GOOD, "--report", "/proc/out.html"], "/proc/out.html: cannot be written there"),
        (["test", "x.npy", *GOOD, "--report", "n" * 300 + ".html"], "cannot be written there (File name too long)"),
        (["test", "x.npy", *GOOD, "--report", "occupied/report.html"], "occupied/report.html: is a folder"),
        (["test", "x.npy", *GOOD, "--arrays", "out.npy"], "out.npy: a file of arrays is an .npz file"),
        (["test", "x.npy", *GOOD, "--arrays", "run.npz"], "run.npz: exists already"),
        (["test", "run.npz", *GOOD, "--arrays", "run.npz", "--force"], "run.npz: holds the input: name another file"),
    ]
    + [(["quality", "x.npy", "same.npy", *more], message) for more, message in BAD_MODELS]
    + [(["quality", "x.npy", name, *GOOD], message) for name, message in BAD_SAMPLES]
    + [(["quality", "x.npy", ".", *GOOD], "holds files of several kinds")]
    + [
        (["quality", *GOOD], "Missing argument"),
        (["quality", "x.npy", *GOOD], "at least two sample sets"),
        (["quality", "x.npy", "x.npy", *GOOD], "given twice"),
        (["quality", "x.npy", "wide.npy", *GOOD], "differ in dimension"),
        (["quality", "x.npy", "short.npy", *GOOD], "short.npy: holds 4 samples: at least 100"),
        (["quality", "x.npy", "./x.npy", *GOOD], "given twice"),
        (["quality", "run.npz", "narrow.npz", "--score", "run.npz"], "give --score once for each of the 2 sample sets"),
        (["quality", "run.npz", "narrow.npz", "--score", "run.npz", *GOOD], "either as --score FILE or as --target"),
        (["quality", "abc.csv", "xyz.csv", *GOOD], "xyz.csv: has no column 'a'"),
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
        (["demo", "--out", "/proc/nowhere"], "/proc/nowhere: No such file"),
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
    + [(["tset"], "No such command 'tset'"), (["--verbose"], "No such option: --verbose")]
)


@pytest.mark.parametrize(("arguments", "message"), CASES, ids=[" ".join(c) or "nothing" for c, _ in CASES])
def test_bad_input_is_one_line_and_writes_nothing(folder, capsys, arguments, message):
    before = tree(folder)
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    *printed, line = err.splitlines()
    assert message in line
    assert line.startswith("slicestein: ")
    assert printed in ([], ["hello from the model"])
    assert "Errno" not in line
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
    assert run(["reproduce", "--", name]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert f"there is no experiment {name!r}: choose from tiny\n" in err
    assert err.count("\n") == 1
    assert tree(checkout) == before


@pytest.mark.slow
def test_reproduce_runs_an_experiment(checkout, capfd):
    assert run(["reproduce", "tiny", "--preset", "smoke"]) == 0
    assert "ran smoke" in capfd.readouterr().out
    for preset in ("never", "", "Smoke"):
        assert run(["reproduce", "tiny", "--preset", preset]) == 2
        out, err = capfd.readouterr()
        assert "ran" not in out
        assert f"invalid choice: {preset!r}" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("runner", ["missing", "a folder"])
def test_half_a_checkout_is_none(checkout, capsys, runner):
    (checkout / "experiments" / "runner.py").unlink()
    if runner == "a folder":
        (checkout / "experiments" / "runner.py").mkdir()
    assert run(["reproduce", "tiny"]) == 2
    assert "run it in the folder of a checkout" in capsys.readouterr().err


def test_a_report_is_not_written_when_the_test_fails(folder, capsys):
    assert run(["test", "nan.npy", *GOOD, "--report", "out.html"]) == 2
    assert not Path("out.html").exists()


def test_without_typer_the_remedy_is_told():
    program = """
import sys
sys.modules["typer"] = None
from slicestein._cli.main import run
sys.exit(run(["demo"]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == "slicestein: the command line needs typer: pip install typer rich\n"


def start(folder, *arguments, stdout=subprocess.PIPE, **environment):
    """The command as a process of its own, as a shell starts it."""
    command = [sys.executable, "-m", "slicestein._cli", *arguments]
    environment["JAX_COMPILATION_CACHE_DIR"] = jax.config.jax_compilation_cache_dir  # that of the tests
    environment["PYTHONUNBUFFERED"] = ""  # with buffers, as usual
    pipes = {"stdout": stdout, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=os.environ | environment, **pipes)


@pytest.mark.slow
def test_a_reader_that_has_gone_is_not_a_rejection(folder):
    """Status 1 is a verdict; `slicestein test ... | head -0` ends as other commands do, by the signal."""
    with start(folder, *FITS, "--method", "linear-ksd") as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGPIPE


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--version"], [*FITS, "--method", "linear-ksd"]])
def test_a_screen_that_cannot_be_written_to_is_told(folder, arguments):
    with open("/dev/full", "w") as full, start(folder, *arguments, stdout=full) as process:
        assert process.stderr.read() == "slicestein: the answer cannot be written: No space left on device\n"
    assert process.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_that_knows_no_bars_gets_the_verdict(folder, encoding):
    arguments = ["test", "narrow.npz", "--score", "narrow.npz"]
    process = start(folder, *arguments, PYTHONIOENCODING=encoding)
    out, err = process.communicate()
    assert process.returncode == 1
    assert "b is too narrow" in out
    assert err == ""


@pytest.mark.slow
def test_samples_far_from_the_origin_are_tested_in_double_precision(folder):
    """At 1e8 single precision has steps of 8: nothing of a sample with spread 1 would be left."""
    np.savez("far.npz", x=X + 1e8)
    (folder / "cli_far.py").write_text("def log_density(x):\n    return -0.5 * ((x - 1e8) ** 2).sum()\n")
    process = start(folder, "test", "far.npz", "--target", "cli_far:log_density")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "no evidence against the model" in out


BUSY = """
import sys, time
import jax, jax.numpy as jnp
import numpy as np

def started():
    print("started", file=sys.stderr, flush=True)

def compiles(x):
    for i in range(3000):
        x = jnp.sin(x * (1.0 + i)) @ jnp.ones((3, 3))
    started()
    return jnp.sum(x)

compiles = jax.jit(compiles)

def is_native(x):
    started()
    np.linalg.svd(np.random.default_rng(0).standard_normal((4000, 4000)))

def loops(x):
    started()
    while True:
        pass

def catches(x):
    started()
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("work", ["compiles", "is_native", "loops", "catches"])
def test_an_interrupt_ends_it_at_once_with_one_line(folder, work, wait):
    (folder / "cli_busy.py").write_text(BUSY)
    process = start(folder, "test", "x.npy", "--target", f"cli_busy:{work}", "--target-kind", "score")
    assert process.stderr.readline() == "started\n"
    time.sleep(wait)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert time.monotonic() - sent < 1
    assert (process.returncode, out, err) == (130, "", "slicestein: interrupted\n")


@pytest.mark.slow
def test_an_interrupt_ends_an_experiment_too(checkout):
    tiny = checkout / "experiments" / "tiny.py"
    body = "import os, time; open('pid', 'w').write(str(os.getpid())); print('ran', flush=True); time.sleep(100)"
    tiny.write_text(TINY.replace('print("ran", runner.preset("tiny"))', body))
    process = start(checkout, "reproduce", "tiny")
    assert process.stdout.readline() == "ran\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "slicestein: interrupted\n"
    assert process.returncode == 130
    child = int((checkout / "pid").read_text())
    deadline = time.monotonic() + 10
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def is_running(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


# --- files larger than memory ------------------------------------------------------------------


def answer(capsys, *arguments):
    status = run(["test", *arguments, "--target", "cli_model:log_density", "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_folders_patterns_and_large_files_give_the_answer_of_one_file(folder, capsys, monkeypatch):
    parts = folder / "parts"
    parts.mkdir()
    for i in range(12):
        np.save(parts / f"{i}.npy", (X * [1.0, 0.5, 1.0])[34 * i : 34 * (i + 1)])
    expected = answer(capsys, "narrow.npz")
    assert expected[0] == 1
    found = [answer(capsys, given) for given in ("parts", "parts/*.npy")]
    monkeypatch.setattr(commands.inputs, "LARGE_SHARE", 2**60)  # every file is large
    found.append(answer(capsys, "narrow.npz", "--report", "out.html", "--arrays", "out.npz"))
    for status, one in found:
        assert status == 1
        assert (one["statistic"], one["pvalue"]) == (expected[1]["statistic"], expected[1]["pvalue"])
    assert found[-1][1]["parameters"][0]["name"] == "b"
    assert "do not fit the model" in Path("out.html").read_text()
    assert run(["test", "narrow.npz", "--score", "run.npz"]) == 1


@pytest.mark.parametrize("model", ["target", "scores"])
def test_quality_of_large_files_is_that_of_small_ones(folder, capsys, monkeypatch, model):
    """Not read as a whole; the columns of one set are in another order, and one set is in parts."""
    write_csv("turned.csv", (1.2 * X)[:, ::-1], "cba")
    write_csv("turned-score.csv", (-1.2 * X)[:, ::-1], "cba")
    (folder / "parts").mkdir()
    for i in range(4):
        np.save(folder / "parts" / f"{i}.npy", X[100 * i : 100 * (i + 1)])
    np.save("scores.npy", -X)
    scores = [f"--score={name}" for name in ("narrow.npz", "turned-score.csv", "scores.npy")]
    options = [*(scores if model == "scores" else GOOD), "--json"]
    assert run(["quality", "narrow.npz", "turned.csv", "x.npy", *options]) == 0
    expected = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(commands.inputs, "LARGE_SHARE", 2**60)  # every file is large
    monkeypatch.setattr(commands.inputs.files, "read_samples", lambda path: pytest.fail(f"{path} was read"))
    assert run(["quality", "narrow.npz", "turned.csv", "parts", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    for one, other in zip(found, expected, strict=True):
        assert one["name"] == other["name"].replace("x.npy", "parts")
        for number in ("discrepancy", "standard_error", "num_samples", "behind"):
            assert one[number] == pytest.approx(other[number], rel=1e-9)


def test_faults_of_streamed_files_are_one_line(folder, capsys, monkeypatch):
    monkeypatch.setattr(commands.inputs, "LARGE_SHARE", 2**60)
    (folder / "bare").mkdir()
    for arguments, said in [
        (["nan.npy"], r"nan\.npy: row \d+, column \d: is NaN or infinite: drop those rows or mend the run"),
        (["bare"], "there is no file of samples"),
        (["*.nowhere"], "there is no file of samples"),
        (["x.npy", "--chains", "7"], "400 rows cannot be cut into 7 chains"),
        (["x.npy", "--dask", "tcp://127.0.0.1:1"], "--dask tcp://127.0.0.1:1: no scheduler answers there"),
    ]:
        if "--dask" in arguments:
            pytest.importorskip("distributed")
            monkeypatch.setattr(commands.inputs, "CONNECTION_SECONDS", 1)
        assert run(["test", *arguments, "--target", "cli_model:log_density"]) == 2
        err = capsys.readouterr().err.splitlines()[-1]
        assert re.search(f"^slicestein: .*{said}", err), err


def test_an_npz_may_hold_the_scores_too(folder, capsys):
    np.savez("both.npz", x=X, score=-X)
    np.savez("wide.npz", x=2 * X, score=-2 * X)
    np.savez("alone.npz", x=X)
    assert run(["test", "both.npz"]) == 0
    assert run(["test", "wide.npz", "--report", "wide.html"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "report: wide.html"
    assert run(["quality", "wide.npz", "both.npz", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["both.npz", "wide.npz"]
    assert run(["test", "alone.npz"]) == 2


def test_a_target_is_a_module(folder, capsys):
    assert run(["test", "x.npy", "--target", "cli_model.py:log_density"]) == 2
    assert "--target names a module, not a file: cli_model:log_density" in capsys.readouterr().err
