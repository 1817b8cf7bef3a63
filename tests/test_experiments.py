"""Every experiment runs at its smallest preset, and a run that stopped goes on where it was."""

import importlib
import json
import os

import pytest

from experiments import runner

NAMES = (
    "gaussian_gof",
    "arena",
    "calibration",
    "posteriors",
    "estimates",
    "rbm_gof",
    "sensitivity",
    "sghmc_step",
    "chain_level",
    "long_level",
    "slice_choice",
    "slice_search",
    "thinning",
    "svgd_variance",
    "svgd_targets",
    "bnn",
    "bnn_splits",
    "ica",
    "vae",
)
NEED_DATA = ("bnn", "bnn_splits", "vae")
NEED_NUMPYRO = ("posteriors",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.packages] * (name in NEED_NUMPYRO)) for name in NAMES]
)
def test_smallest_preset(name, tmp_path, monkeypatch):
    if name in NEED_DATA:
        if not os.environ.get("SLICESTEIN_DATA"):
            pytest.skip("SLICESTEIN_DATA is not set")
        monkeypatch.setattr("experiments.vae_training.CHECKPOINTS", tmp_path)
    if name in NEED_NUMPYRO:
        pytest.importorskip("numpyro")
    experiment = importlib.import_module(f"experiments.{name}")
    cell = experiment.cells("smoke")[-1]
    assert json.loads(json.dumps(cell | experiment.work(cell)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["smoke", "quick", "paper"])
def test_cells_are_distinct(name, preset):
    cells = importlib.import_module(f"experiments.{name}").cells(preset)
    assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells)


def square(cell):
    return {"square": cell["n"] ** 2}


def test_done_cells_are_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    (tmp_path / "squares.jsonl").write_text(
        '{"n": 1, "square": "already there"}\n{"n": 3, "square": "not asked for"}\n'
    )
    rows = runner.run("squares", [{"n": 1}, {"n": 2}], square)
    assert sorted((row["n"], row["square"]) for row in rows) == [(1, "already there"), (2, 4)]


def test_a_cell_that_fails_takes_no_other_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    with pytest.raises(TypeError) as failed:
        runner.run("squares", [{"n": "two"}, {"n": 3}], square)
    assert "in the cell {'n': 'two'}" in failed.value.__notes__
    assert [row["square"] for row in runner.load("squares")] == [9]
