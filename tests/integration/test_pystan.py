"""PyStan 3: a real Stan model, compiled here, from its build to a verdict."""

import json

import numpy as np
import pytest

import slicestein as ss
from tests import cmdstan

stan = pytest.importorskip("stan")  # imports pkg_resources, which setuptools has up to 81
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # warnings of PyStan are its own

CODE = """
data { int<lower=0> N; vector[N] y; }
parameters { real mu; real<lower=0> tau; real<lower=0, upper=tau> u; simplex[3] w; array[2, 2] real b; }
transformed parameters { real twice = 2 * mu; }
model {
  mu ~ normal(0, 5);
  tau ~ normal(0, 2);
  to_array_1d(b) ~ normal(0, 1);
  y ~ normal(mu + u + w[1], tau);
}
generated quantities { real z = normal_rng(mu, tau); }
"""
DATA = {"N": 30, "y": (1 + 0.8 * np.random.default_rng(0).standard_normal(30)).tolist()}
NAMES = ("mu", "tau", "u", "w[1]", "w[2]", "b[1,1]", "b[1,2]", "b[2,1]", "b[2,2]")


@pytest.fixture(scope="module")
def model():
    return stan.build(CODE, data=DATA, random_seed=1)


@pytest.fixture(scope="module")
def fit(model):
    return model.sample(num_chains=4, num_samples=500)


def by_parameter(fit):
    """Draws of a fit as another sampler would give them, (chains, draws, ...)."""
    shapes = {"mu": (), "tau": (), "u": (), "w": (3,), "b": (2, 2)}
    return {n: np.moveaxis(fit[n], -1, 0).reshape(-1, 4, *shape).swapaxes(0, 1) for n, shape in shapes.items()}


def test_from_build_to_verdict_in_three_lines():
    model = stan.build(CODE, data=DATA, random_seed=1)
    fit = model.sample(num_chains=4, num_samples=500)
    result = ss.check(model, fit)
    assert result.verdict == "fits"
    assert result.names == NAMES


def test_a_wrong_sampler_is_found(model, fit):
    draws = by_parameter(fit)
    assert ss.check(model, draws).verdict == "fits"
    draws["b"] = draws["b"] * [[1, 1.3], [1, 1]]
    result = ss.check(model, draws)
    assert (result.verdict, result.parameters[0].name, result.parameters[0].finding) == ("wrong", "b[1,2]", "too wide")


def test_a_fit_of_other_data_is_found(fit):
    other = stan.build(CODE, data={"N": 30, "y": (np.array(DATA["y"]) + 1).tolist()}, random_seed=1)
    assert ss.check(other, fit).verdict == "wrong"


def test_the_score_is_the_gradient_of_the_log_density(model, fit):
    draws = ss.adapters.from_pystan(model, fit)
    rows, score = draws.x.reshape(-1, 9)[:40], draws.score.reshape(-1, 9)[:40]
    assert ss.check_score(lambda row: model.log_prob(row.tolist()), score, rows, names=draws.names).ok
    np.testing.assert_allclose(score[0], model.grad_log_prob(rows[0].tolist()), rtol=1e-12)
    lp = fit["lp__"][0].reshape(-1, 4).T.reshape(-1)[:40]
    np.testing.assert_allclose([model.log_prob(row.tolist()) for row in rows[:3]], lp[:3], rtol=1e-12)


def diagnostics(fit, chain):
    """What Stan's sampler has handed to its diagnostic writer, which CmdStan sends to a file."""
    told = (json.loads(line) for line in fit.stan_outputs[chain].splitlines())
    return [one["values"] for one in told if one["topic"] == "diagnostic" and isinstance(one["values"], dict)]


def test_diagnostic_files_hold_what_the_model_says(model, fit, tmp_path):
    """Names and values are those of Stan's own sampler: the sign of its gradients is that of the potential."""
    for chain in range(4):
        rows = diagnostics(fit, chain)
        lines = [",".join(rows[0]), *(",".join(f"{v:.10g}" for v in row.values()) for row in rows)]
        text = cmdstan.SETTINGS.format(warmup=1000, saved=0, thin=1) + "\n".join(lines) + "\n" + cmdstan.TIMING
        (tmp_path / f"diagnostic_{chain + 1}.csv").write_text(text)
    written, asked = ss.adapters.from_cmdstan(str(tmp_path / "*.csv")), ss.adapters.from_pystan(model, fit)
    np.testing.assert_allclose(written.x, asked.x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(written.score, asked.score, rtol=1e-6, atol=1e-6)
    assert set(written.names) == set(asked.names)
    assert ss.check(str(tmp_path / "*.csv")).verdict == "fits"


def test_warm_up_is_left_out_and_divergences_are_told(model):
    fit = model.sample(num_chains=2, num_samples=60, num_warmup=31, num_thin=2, save_warmup=True)
    draws = ss.adapters.from_pystan(model, fit)
    assert draws.x.shape == (2, 30, 9)
    np.testing.assert_array_equal(draws.x[1, :, 0], fit["mu"][0].reshape(-1, 2).T[1, 16:])
    coarse = model.sample(num_chains=2, num_samples=200, num_warmup=0, stepsize=1.5)  # too long a step, not adapted
    count = int(coarse["divergent__"].sum())
    assert count > 0
    assert any(note.startswith(f"{count} of 400 transitions diverged") for note in ss.check(model, coarse).notes)


FAULTS = [
    (lambda d: {n: v for n, v in d.items() if n != "tau"}, "the draws have no tau, a parameter: found mu, u, w, b"),
    (lambda d: d | {"tau": -d["tau"]}, "draw 0 of chain 0 is outside the support of the model: .*Lower bounded"),
    (lambda d: d | {"b": d["b"][..., 0]}, r"draws of b have shape \(4, 500, 2\), and the parameter \(2, 2\)"),
    (lambda d: d | {"mu": d["mu"][:, :7]}, r"differ in chains or draws \(mu: \(4, 7\), tau: \(4, 500\)"),
    (lambda d: {"x": d["mu"]}, "the draws have none of mu, tau, u, w, b"),
    (lambda d: d["mu"], "draws must be what model.sample returned, or a dict of draws by parameter, got ndarray"),
]


@pytest.mark.parametrize(("change", "message"), FAULTS)
def test_draws_of_another_model_are_refused(model, fit, change, message):
    with pytest.raises(ss.InputError, match=message):
        ss.check(model, change(by_parameter(fit)))


def test_a_model_and_a_fit_are_needed(model, fit):
    with pytest.raises(ss.InputError, match="fit is missing: pass the model and the fit, got Model alone"):
        ss.check(model)
    with pytest.raises(ss.InputError, match="model is missing: pass the model and the fit, got Fit alone"):
        ss.check(fit)
    with pytest.raises(ss.InputError, match="with a PyStan model no more arguments are needed, got dict"):
        ss.check(model, fit, DATA)
