"""CmdStan itself: the program of a Stan model that the package prophet brings along, and CmdStanPy in front of it."""

import importlib.util
import json
import logging
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import slicestein as ss
from slicestein._cli.main import run as slicestein

found = importlib.util.find_spec("prophet")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(found is None, reason="no CmdStan program: pip install prophet")]
MODEL = Path(found.origin).parent / "stan_model" if found else Path()
PROGRAM = MODEL / "prophet_model.bin"
NAMES = ("k", "m", "delta[1]", "delta[2]", "delta[3]", "sigma_obs", "beta[1]", "beta[2]")
SIGMA = 5  # the one with a bound


def series(shift=0.0, changes=3):
    """A line that bends, a wave and noise: data of prophet's model."""
    t = np.linspace(0, 1, 60)
    waves = np.stack([np.sin(6 * np.pi * t), np.cos(6 * np.pi * t)], axis=1)
    noise = 0.1 * np.random.default_rng(0).standard_normal(60)
    y = 0.3 + 0.8 * t - 0.6 * np.maximum(t - 0.5, 0) + waves @ [0.3, -0.2] + noise + shift
    data = {"T": 60, "K": 2, "t": t, "cap": np.ones(60), "y": y, "S": changes, "X": waves, "sigmas": np.ones(2)}
    data |= {"t_change": np.arange(1, changes + 1) / (changes + 1), "tau": 0.5, "trend_indicator": 0}
    data |= {"s_a": np.ones(2), "s_m": np.zeros(2)}
    return {name: np.asarray(value).tolist() for name, value in data.items()}


def stan(folder, *arguments, name="run", data=None, digits=8):
    """Run the program; files of several chains are NAME_1.csv and NAME_diagnostic_1.csv, and so on."""
    (folder / f"{name}.json").write_text(json.dumps(data or series()))
    files = [f"file={folder / name}.csv", f"diagnostic_file={folder / name}_diagnostic.csv", f"sig_figs={digits}"]
    command = [PROGRAM, *arguments, "random", "seed=1", "data", f"file={folder / name}.json", "output", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return str(folder / f"{name}_diagnostic*.csv")


def output(path):
    """Columns of an output file by name, without comments."""
    lines = [line for line in Path(path).read_text().splitlines() if line and line[0] != "#"]
    return dict(zip(lines[0].split(","), np.loadtxt(lines[1:], delimiter=",", ndmin=2).T, strict=True))


def gradients(folder, x, data=None):
    """Scores as CmdStan computes them at given places: its method log_prob, which reads several column by column."""
    places = np.ravel(x).reshape((-1, len(NAMES)), order="F")
    (folder / "places.json").write_text(json.dumps({"params_r": places.tolist()}))
    places = f"unconstrained_params={folder / 'places.json'}"
    stan(folder, "log_prob", places, name="gradients", data=data, digits=18)
    columns = output(folder / "gradients.csv")
    assert next(iter(columns)) == "lp__"
    return np.stack(list(columns.values())[1:], axis=1).reshape(np.shape(x))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four chains of NUTS, 500 draws each."""
    folder = tmp_path_factory.mktemp("cmdstan")
    stan(folder, "sample", "num_chains=4", "num_samples=500", "num_warmup=500")
    return folder


def test_right_draws_fit(folder):
    result = ss.check(str(folder / "run_diagnostic_*.csv"))
    assert (result.verdict, result.names) == ("fits", NAMES)


def test_draws_are_those_of_the_output(folder):
    """Which has sigma_obs itself, and the diagnostic file its logarithm."""
    draws = ss.adapters.from_cmdstan(str(folder / "run_diagnostic_*.csv"))
    assert draws.x.shape == (4, 500, 8)
    for chain in range(4):
        columns = output(folder / f"run_{chain + 1}.csv")
        np.testing.assert_allclose(draws.x[chain, :, 0], columns["k"], rtol=1e-7)
        np.testing.assert_allclose(np.exp(draws.x[chain, :, SIGMA]), columns["sigma_obs"], rtol=1e-6)
        np.testing.assert_allclose(draws.x[chain, :, 7], columns["beta.2"], rtol=1e-7)


def test_scores_are_the_gradients_of_the_model(folder):
    """As another method of CmdStan gives them at the same places."""
    draws = ss.adapters.from_cmdstan(stan(folder, "sample", "num_chains=2", name="exact", digits=18))
    np.testing.assert_allclose(draws.score, gradients(folder, draws.x), rtol=1e-10, atol=1e-10)


def test_draws_of_other_data_do_not_fit(folder):
    """The data have moved up: the offset m is too low."""
    draws = ss.adapters.from_cmdstan(str(folder / "run_diagnostic_*.csv"))
    assert ss.gof_test(draws.x, gradients(folder, draws.x), key=0).verdict == "fits"
    result = ss.gof_test(draws.x, gradients(folder, draws.x, series(0.05)), key=0, names=NAMES)
    assert result.verdict == "wrong"
    assert {one.name: one.finding for one in result.parameters}["m"] == "too low"


def test_a_variational_fit_does_not_fit(folder):
    """Stan's mean-field approximation of correlated parameters is too narrow."""
    stan(folder, "variational", "algorithm=meanfield", "output_samples=1000", name="variational")
    columns = output(folder / "variational.csv")
    x = np.stack([columns[name.replace("[", ".").rstrip("]")] for name in NAMES], axis=1)[1:]  # the first is the mean
    x[:, SIGMA] = np.log(x[:, SIGMA])
    assert ss.gof_test(x, gradients(folder, x), key=0, names=NAMES).verdict == "wrong"


def test_chains_that_have_not_arrived_do_not_fit(folder, capsys):
    """Steps are too short to leave the start."""
    sampler = ("adapt", "engaged=0", "algorithm=hmc", "engine=nuts", "max_depth=2", "stepsize=0.0005")
    files = stan(folder, "sample", "num_chains=4", "num_samples=200", "num_warmup=0", *sampler, name="stuck")
    assert slicestein(["test", "--stan", files]) == 1
    said = capsys.readouterr().out
    assert "do NOT fit" in said
    assert "800 of 800 trajectories were cut off at the maximal tree depth" in said


def test_from_the_command_line(folder, capsys, tmp_path):
    paths = sorted(map(str, folder.glob("run_diagnostic_*.csv")))
    report = tmp_path / "report.html"
    assert slicestein(["test", "--stan", *paths, "--report", str(report), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "fits"
    assert "sigma_obs" in report.read_text("utf-8")


def test_warm_up_and_thinning(folder):
    settings = ("num_samples=100", "num_warmup=50", "save_warmup=1", "thin=3")
    draws = ss.adapters.from_cmdstan(stan(folder, "sample", "num_chains=2", *settings, name="warm"))
    assert draws.x.shape == (2, 34, 8)
    np.testing.assert_allclose(draws.x[1, :, 1], output(folder / "warm_2.csv")["m"][-34:], rtol=1e-7)


def test_divergences_are_told_of(folder):
    sampler = ("adapt", "engaged=0", "algorithm=hmc", "stepsize=0.2")
    files = stan(folder, "sample", "num_chains=2", "num_samples=200", "num_warmup=0", *sampler, name="coarse")
    count = sum(int(output(folder / f"coarse_{chain}.csv")["divergent__"].sum()) for chain in (1, 2))
    assert count > 0
    assert any(f"{count} of 400 transitions diverged" in note for note in ss.check(files).notes)


def test_static_trajectories(folder):
    sampler = ("algorithm=hmc", "engine=static", "int_time=1")
    draws = ss.adapters.from_cmdstan(stan(folder, "sample", "num_samples=20", *sampler, name="static"))
    assert (draws.x.shape, draws.names) == ((1, 20, 8), NAMES)


def test_a_run_that_was_killed(folder):
    """Every whole line is a draw; the last may have been cut off anywhere."""
    path = folder / "killed.csv"
    settings = ["num_samples=1000000", "num_warmup=200", "data", f"file={folder / 'run.json'}"]
    command = [PROGRAM, "sample", *settings, "output", f"file={folder / 'unused.csv'}", f"diagnostic_file={path}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while (not path.exists() or path.stat().st_size < 100_000) and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    whole = [line for line in path.read_text().splitlines(keepends=True) if line[0] not in "#l" and line[-1] == "\n"]
    draws = ss.adapters.from_cmdstan(path)
    assert draws.x.shape == (1, len(whole), 8)
    assert len(whole) > 100
    np.testing.assert_array_equal(draws.x[0, -1], np.array(whole[-1].split(",")[7:15], float))


def test_files_that_cannot_be_used(folder):
    with pytest.raises(ss.InputError, match=r"run_1.csv: holds no gradients: give the diagnostic file"):
        ss.check(str(folder / "run_?.csv"))
    more = stan(folder, "sample", "num_chains=2", "num_samples=20", name="longer", data=series(changes=4))
    with pytest.raises(ss.InputError, match=r"has other columns than .*run_diagnostic_1.csv"):
        ss.check([folder / "run_diagnostic_1.csv", more])
    fixed = stan(folder, "sample", "num_chains=2", "num_samples=20", "algorithm=fixed_param", name="fixed")
    with pytest.raises(ss.InputError, match=r"fixed_diagnostic_1.csv: holds no (gradients|draws)"):
        ss.check(fixed)
    for name in ("run_1.csv", "run_diagnostic_1.csv"):
        with pytest.raises(ss.InputError, match=f"{name}: is a file of CmdStan: test the diagnostic files"):
            ss.rows.open(folder / name)


def test_too_few_digits(folder):
    files = stan(folder, "sample", "num_samples=300", name="digits", digits=2)
    with pytest.raises(ss.InputError, match="so few digits that its draws are not told apart"):
        ss.check(files)


@pytest.fixture
def compiled():
    cmdstanpy = pytest.importorskip("cmdstanpy")
    logging.getLogger("cmdstanpy").setLevel(logging.ERROR)
    cmdstanpy.set_cmdstan_path(str(next(MODEL.glob("cmdstan-*"))))
    return cmdstanpy.CmdStanModel(exe_file=str(PROGRAM))


def test_a_fit_of_cmdstanpy(compiled, tmp_path):
    """From the model to the verdict in three lines, with the files that it knows of."""
    settings = {"data": series(), "chains": 4, "iter_sampling": 300, "seed": 1, "show_progress": False}
    fit = compiled.sample(**settings, save_latent_dynamics=True, output_dir=tmp_path)
    result = ss.check(fit)
    assert (result.verdict, result.names) == ("fits", NAMES)
    np.testing.assert_array_equal(ss.check(fit.runset.diagnostic_files).draws.x, result.draws.x)
    with pytest.raises(ss.InputError, match="has no diagnostic files: sample with save_latent_dynamics=True"):
        ss.check(compiled.sample(**settings))
