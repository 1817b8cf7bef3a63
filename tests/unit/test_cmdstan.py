"""CmdStan's diagnostic files: what is read, what is left out, and what is refused."""

import json

import numpy as np
import pytest

import slicestein as ss
from slicestein._cli.main import run
from tests import cmdstan

NAMES = ("mu", "p_mu", "b.1.2")  # a parameter may be called as a momentum is


def chains(num=4, draws=300):
    """Right draws of a Gaussian whose last coordinate has spread 2, and their scores."""
    x = np.random.default_rng(0).standard_normal((num, draws, 3)) * [1, 1, 2]
    return x, -x / np.array([1, 1, 4])


@pytest.fixture
def files(tmp_path):
    x, score = chains()
    for i in range(4):
        (tmp_path / f"diagnostic_{i + 1}.csv").write_text(cmdstan.text(x[i], score[i], NAMES, divergent=2 * i))
    return tmp_path


def test_draws_and_gradients_come_back(files):
    """The file holds the gradient of the potential: its sign is turned."""
    x, score = chains()
    draws = ss.adapters.from_cmdstan(str(files / "diagnostic_*.csv"))
    assert draws.names == ("mu", "p_mu", "b[1,2]")
    np.testing.assert_allclose(draws.x, x, rtol=1e-5)  # six digits
    np.testing.assert_allclose(draws.score, score, rtol=1e-5)
    listed = ss.adapters.from_cmdstan([files / f"diagnostic_{i}.csv" for i in (1, 2, 3, 4)])
    np.testing.assert_array_equal(listed.x, draws.x)


def test_a_pattern_is_a_verdict(files):
    result = ss.check(str(files / "diagnostic_*.csv"))
    assert result.verdict == "fits"
    assert any("12 of 1200 transitions diverged" in note for note in result.notes)
    assert not any("cut off" in note for note in result.notes)


def test_a_wrong_sampler_is_found(tmp_path):
    x, _ = chains()
    x[..., 1] *= 1.4
    for i in range(4):
        text = cmdstan.text(x[i], -x[i] / np.array([1, 1, 4]), NAMES, treedepth=10)
        (tmp_path / f"{i}.csv").write_text(text)
    result = ss.check([tmp_path / f"{i}.csv" for i in range(4)])
    assert (result.verdict, result.parameters[0].name) == ("wrong", "p_mu")
    assert any("1200 of 1200 trajectories were cut off" in note for note in result.notes)


def test_chain_ten_comes_after_chain_nine(tmp_path):
    x, score = chains(10, 20)
    for i in range(10):
        (tmp_path / f"d_{i + 1}.csv").write_text(cmdstan.text(x[i], score[i], NAMES, digits=17))
    np.testing.assert_array_equal(ss.adapters.from_cmdstan(str(tmp_path / "d_*.csv")).x, x)


@pytest.mark.parametrize("saved", ["1", "true"])
def test_warm_up_is_left_out(tmp_path, saved):
    """Every third of 100 draws of warm-up was saved: the draws 0, 3, ..., 99."""
    x, score = chains(1, 60)
    text = cmdstan.text(x[0], score[0], NAMES, warmup=100, saved=saved, thin=3, digits=17)
    (tmp_path / "d.csv").write_text(text)
    np.testing.assert_array_equal(ss.adapters.from_cmdstan(tmp_path / "d.csv").x[0], x[0, 34:])
    (tmp_path / "d.csv").write_text(text.replace(f"save_warmup = {saved}", "save_warmup = 0"))
    assert ss.adapters.from_cmdstan(tmp_path / "d.csv").x.shape == (1, 60, 3)


@pytest.mark.parametrize(("cut", "end"), [(3, ""), (40, ""), (120, ""), (40, "\n"), (120, "\n")])
def test_a_line_that_was_cut_off_is_left_out(tmp_path, cut, end):
    """Within its last number it has as many cells as a whole one."""
    x, score = chains(2, 50)
    whole, ended = (cmdstan.text(x[i], score[i], NAMES, digits=17) for i in range(2))
    (tmp_path / "a.csv").write_text(whole)
    stopped = ended.removesuffix(cmdstan.TIMING).removesuffix("\n")[:-cut]
    (tmp_path / "b.csv").write_text(stopped + end)
    with pytest.warns(UserWarning, match="the chains have 50, 49 draws: the first 49 of each are used"):
        draws = ss.adapters.from_cmdstan([tmp_path / "a.csv", tmp_path / "b.csv"])
    np.testing.assert_array_equal(draws.x, x[:, :49])


def without_gradients(text):
    """The header of the output file."""
    return text.replace(",p_mu,p_p_mu,p_b.1.2,g_mu,g_p_mu,g_b.1.2", ",twice")


FAULTS = [
    (without_gradients, "holds no gradients: give the diagnostic file.*save_latent_dynamics=True"),
    (lambda text: "", "holds no draws: give a diagnostic file"),
    (
        lambda text: "".join(f"{line}\n" for line in text.splitlines() if line[0] in "#l"),
        "holds no draws after warm-up",
    ),
    (
        lambda text: text.replace("-1.5,", "-1.5,7,", 1),
        f"line {cmdstan.SETTINGS.count(chr(10)) + 2} has 17 cells, not 16",
    ),
    (lambda text: text.replace("-1.5,", "high,", 1), "holds cells that are not numbers"),
    (
        lambda text: text.replace("b.1.2", "c"),
        "has other columns than .*diagnostic_1.csv: give the chains of one model",
    ),
]


@pytest.mark.parametrize(("change", "message"), FAULTS)
def test_faults_are_told_with_the_file(files, change, message):
    path = files / "diagnostic_2.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(ss.InputError, match=f"diagnostic_2.csv: {message}"):
        ss.check(str(files / "diagnostic_*.csv"))


def test_files_that_are_not_there_or_twice(files):
    with pytest.raises(ss.InputError, match=r"other_\*.csv: no such file"):
        ss.check("other_*.csv")
    path = files / "diagnostic_1.csv"
    with pytest.raises(ss.InputError, match="given twice"):
        ss.check([path, str(path)])


def test_too_few_digits_are_refused(tmp_path):
    x, score = chains(1, 300)
    (tmp_path / "d.csv").write_text(cmdstan.text(x[0] + [0, 1e6, 0], score[0], NAMES))
    with pytest.raises(ss.InputError, match=r"p_mu is written with so few digits .* sig_figs=18"):
        ss.check(tmp_path / "d.csv")
    (tmp_path / "d.csv").write_text(cmdstan.text(x[0] + [0, 1e6, 0], score[0], NAMES, digits=9))
    assert ss.check(tmp_path / "d.csv").verdict == "fits"


def test_a_chain_that_does_not_move_has_digits_enough(tmp_path):
    """Draws far from each other, each of them many times."""
    x = np.repeat([[0.0, 0, 0], [1, 1, 1], [-1, 2, 0]], 100, axis=0)
    (tmp_path / "d.csv").write_text(cmdstan.text(x, -x, NAMES))
    np.testing.assert_array_equal(ss.adapters.from_cmdstan(tmp_path / "d.csv").x[0], x)


def test_from_the_command_line(files, capsys):
    """As a pattern for us, or as the shell has expanded it."""
    paths = [str(files / f"diagnostic_{i}.csv") for i in (1, 2, 3, 4)]
    assert run(["test", "--stan", *paths, "--json"]) == 0
    expanded = json.loads(capsys.readouterr().out)
    assert run(["test", "--stan", str(files / "diagnostic_*.csv")]) == 0
    assert "12 of 1200 transitions diverged" in capsys.readouterr().out
    assert run(["test", str(files / "diagnostic_*.csv"), "--stan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pvalue"] == expanded["pvalue"]


def test_the_files_without_the_option(files, capsys):
    path = str(files / "diagnostic_1.csv")
    for arguments in ([path, "--score", path], [str(files / "*.csv"), "--score", path]):
        assert run(["test", *arguments]) == 2
        assert "diagnostic_1.csv: is a file of CmdStan: test the diagnostic files, with" in capsys.readouterr().err
    assert run(["test", path]) == 2
    assert "diagnostic files of CmdStan hold it, and go with --stan" in capsys.readouterr().err
    assert run(["quality", path, path]) == 2
    assert "--stan" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stan", "d.csv", "--score", "s.csv"], "--stan files hold chains and gradients: leave --score out"),
        (["--stan", "d.csv", "--target-kind", "score", "--chains", "2"], "leave --target-kind and --chains out"),
        (["--stan", "d.csv"], "d.csv: no such file"),
        (
            ["a.csv", "b.csv", "--score", "s.csv"],
            "got 2 files; a file per chain is what --stan takes",
        ),
    ],
)
def test_options_that_do_not_go_together(arguments, message, capsys):
    assert run(["test", *arguments]) == 2
    assert message in capsys.readouterr().err
