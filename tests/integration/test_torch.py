"""PyTorch: log-densities written in it, and tensors wherever arrays go."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss
from slicestein._cli.main import run

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((8, 8)) / 8 + np.eye(8)
PRECISION = ROOT @ ROOT.T
X = RNG.standard_normal((4, 400, 8)) @ np.linalg.inv(ROOT)


def in_torch(x):
    return -0.5 * x @ torch.tensor(PRECISION) @ x


def in_jax(x):
    return -0.5 * x @ jnp.asarray(PRECISION) @ x


@pytest.mark.parametrize("factor", [1.0, 1.15])
def test_the_verdict_is_that_of_the_same_function_in_jax(factor):
    x = X * np.r_[np.ones(7), factor]
    ours, theirs = (ss.gof_test(x, ss.score_from(f), key=0) for f in (in_torch, in_jax))
    assert ours.verdict == theirs.verdict == ("fits" if factor == 1 else "wrong")
    assert ours.pvalue == theirs.pvalue
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-9)
    assert [p.name for p in ours.parameters] == [p.name for p in theirs.parameters]


def test_scores_are_those_of_jax_in_either_precision():
    x = X[0]
    np.testing.assert_allclose(ss.score_from(in_torch)(x), ss.score_from(in_jax)(x), rtol=1e-12, atol=1e-12)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    score = ss.score_from(lambda x: net(x)[0])(x)  # its parameters are in single precision, x is not
    assert score.dtype == torch.float32
    assert not score.requires_grad
    double = net.double()
    np.testing.assert_allclose(score, ss.score_from(lambda x: double(x)[0])(x), rtol=1e-4, atol=1e-6)


def test_functions_that_look_at_values_go_row_by_row():
    """Which `vmap` cannot follow."""

    def log_density(x):
        return in_torch(x) if x[0] < 0 else 2 * in_torch(x)

    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(log_density)(torch.tensor(X[0]))
    expected = -X[0] @ PRECISION * np.where(X[0, :, :1] < 0, 1, 2)
    np.testing.assert_allclose(ss.score_from(log_density)(X[0]), expected, rtol=1e-9, atol=1e-9)


def test_distributions_of_torch():
    centre, spread = torch.zeros(8, dtype=torch.float64), torch.linspace(1, 2, 8, dtype=torch.float64)
    normal = torch.distributions.Independent(torch.distributions.Normal(centre, spread), 1)
    np.testing.assert_allclose(ss.score_from(normal.log_prob)(X[0]), -X[0] / np.linspace(1, 2, 8) ** 2, rtol=1e-12)


def test_a_jax_function_stays_one():
    """Also where torch is there: what JAX can trace is JAX, under its transformations too."""
    x = jnp.asarray(X[0])
    assert isinstance(ss.score_from(in_jax)(x), jax.Array)
    np.testing.assert_array_equal(ss.score_from(in_jax)(x), jax.vmap(jax.grad(in_jax))(x))
    np.testing.assert_allclose(jax.jit(ss.score_from(in_jax))(x), ss.score_from(in_jax)(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ss.score_from(in_jax)(torch.tensor(X[0])), ss.score_from(in_jax)(x))


def test_what_fails_in_both_is_told_of_both():
    with pytest.raises(
        ss.InputError, match=r"as a function of JAX with TypeError.*as one of torch with TypeError.*shape \(\).*\(8,\)"
    ) as failed:
        ss.score_from(torch.exp)(X[0])
    assert "with one sample, shape (8,), at a time" in failed.value.__notes__[-1]

    def misses(x):
        raise KeyError("precision")

    with pytest.raises(KeyError, match="precision"):  # the same in both is the function's own fault
        ss.score_from(misses)(X[0])


KINDS = [
    lambda a: torch.tensor(a),
    lambda a: torch.tensor(a, requires_grad=True),
    lambda a: torch.tensor(a, requires_grad=True) * 1,  # no leaf
    lambda a: torch.tensor(np.repeat(a, 2, axis=0))[::2],  # a view
]
FLAT = X.reshape(-1, 8)[:400]
SCORE = -FLAT @ PRECISION
USES = {
    "gof_test": lambda x, s: ss.gof_test(x, s, key=0).pvalue,
    "ksd method": lambda x, s: ss.gof_test(x, s, key=0, method="ksd").pvalue,
    "mmd": lambda x, s: ss.gof_test(x, s, key=0, method=ss.gof.MMD(x)).pvalue,
    "sksd": lambda x, s: ss.sksd(x, s, ss.Slices.basis(8)),
    "ksd": lambda x, s: ss.ksd(x, s),
    "ssd": lambda x, s: ss.ssd(x, s, ss.Slices.basis(8)).per_slice,
    "integrated_sksd": lambda x, s: ss.integrated_sksd(x, s, key=0),
    "witness": lambda x, s: ss.witness(x, s, ss.Slices.basis(8), np.linspace(-1, 1, 5)),
    "fit_slices": lambda x, s: ss.fit_slices(x, s, key=0, steps=3).slices.g,
    "active_slices": lambda x, s: ss.active_slices(x, s, 3).g,
    "whiten": lambda x, s: ss.whiten(x, s).forward,
    "compare": lambda x, s: (
        ss.quality.compare({"a": x, "b": x * 1.1}, lambda rows: -rows @ PRECISION, key=0)[0].discrepancy
    ),
    "check_score": lambda x, s: ss.check_score(lambda row: -0.5 * row @ PRECISION @ row, s, x).ok,
    "slices": lambda x, s: ss.Slices(x, s).r,
}


@pytest.mark.parametrize("use", USES)
def test_tensors_are_taken_for_arrays(use):
    expected = np.asarray(USES[use](FLAT, SCORE))
    for kind in KINDS[:: 1 if use == "gof_test" else 2]:
        np.testing.assert_allclose(np.asarray(USES[use](kind(FLAT), kind(SCORE))), expected, rtol=1e-12, atol=1e-12)


def test_half_precision_and_chains():
    x = torch.tensor(X)
    assert ss.gof_test(x, (-x @ torch.tensor(PRECISION)).requires_grad_(), key=0).verdict == "fits"
    rough = x.to(torch.bfloat16)
    assert ss.gof_test(rough, -rough.double() @ torch.tensor(PRECISION), key=0).pvalue > 0


def test_samples_that_single_precision_cannot_tell_apart_are_refused():
    net = torch.nn.Linear(1, 1)
    x = 1e8 + RNG.standard_normal((50, 1))
    with pytest.raises(ss.InputError, match=r"single precision.*torch\.float64"):
        ss.gof_test(x, ss.score_from(lambda x: net(x)[0]), key=0)


def test_a_report_of_tensors(tmp_path):
    x = torch.tensor(FLAT, requires_grad=True)
    result = ss.gof_test(x, SCORE, key=0)
    ss.report.write_report(result, tmp_path / "report.html", x=x, score=torch.tensor(SCORE))
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_from_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "densities_in_torch.py").write_text(
        "import jax.numpy as jnp, torch\n"
        "def right(x): return -0.5 * torch.sum(x**2)\n"
        "def wrong(x): return -torch.sum(x**2)\n"
        "def in_jax(x): return -0.5 * jnp.sum(x**2)\n"
        "def broken(x): return torch.sum(x @ torch.ones(3))\n"
    )
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((400, 4)))
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, status in (("right", 0), ("in_jax", 0), ("wrong", 1)):
        assert run(["test", "x.npy", "--target", f"densities_in_torch:{name}", "--json"]) == status
        found[name] = json.loads(capsys.readouterr().out)["pvalue"]
    assert found["right"] == found["in_jax"]
    assert run(["test", "x.npy", "--target", "densities_in_torch:broken"]) == 2
    assert "densities_in_torch:broken failed as a log-density" in capsys.readouterr().err
