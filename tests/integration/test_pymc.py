"""PyMC and nutpie: both adapters give one answer, and the draws fit."""

import warnings

import numpy as np
import pytest

import slicestein as ss

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what these packages warn of when imported is theirs
    pm = pytest.importorskip("pymc")
    nutpie = pytest.importorskip("nutpie")
xarray = pytest.importorskip("xarray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Y = 1 + 2 * np.random.default_rng(0).standard_normal(30)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        sd = pm.HalfNormal("sd", 5)
        beta = pm.Normal("beta", 0, 1, shape=2)
        w = pm.Dirichlet("w", np.ones(3))
        upper = pm.Uniform("upper", 0, sd)  # a bound that depends on another draw
        pm.Deterministic("twice", 2 * mu)
        pm.Normal("y", mu + beta.sum() + w[0] + upper, sd, observed=Y)
    return model


@pytest.fixture(scope="module")
def trace(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = nutpie.compile_pymc_model(model)
        options = {"draws": 300, "tune": 300, "chains": 2, "seed": 1, "progress_bar": False}
        return nutpie.sample(compiled, store_gradient=True, store_unconstrained=True, **options)


def test_stored_gradients_give_a_verdict(trace):
    draws = ss.adapters.from_nutpie(trace)
    assert draws.x.shape == (2, 300, 7)
    assert "mu" in draws.names
    assert not ss.gof_test(draws.x, draws.score, names=draws.names, key=0, alpha=0.01).reject


def test_pymc_finds_what_nutpie_has_stored(model, trace):
    computed, stored = ss.adapters.from_pymc(model, trace), ss.adapters.from_nutpie(trace)
    np.testing.assert_allclose(computed.x, stored.x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(computed.score, stored.score, rtol=1e-6, atol=1e-8)
    assert computed.names[:4] == ("mu", "sd_log__", "beta[0]", "beta[1]")


def test_a_file_of_nutpie_is_read_by_the_command_line(trace, tmp_path, capsys):
    from slicestein._cli.main import main

    path = str(tmp_path / "trace.nc")
    trace.to_netcdf(path)
    assert main(["test", path, "--score", path]) == 0
    assert "no evidence against the model" in capsys.readouterr().out


def test_a_trace_without_gradients_is_refused(trace):
    stats = trace["sample_stats"].drop_vars("gradient")
    with pytest.raises(ValueError, match="has not stored gradient: sample with store_unconstrained=True"):
        ss.adapters.from_nutpie({"sample_stats": stats})


def test_draws_of_another_model_are_refused(trace):
    with pm.Model() as other:
        pm.Normal("nu")
    with pytest.raises(ValueError, match="no variable nu: found"):
        ss.adapters.from_pymc(other, trace)


def test_a_bound_without_transform_is_refused():
    with pm.Model() as model:
        pm.HalfNormal("sd", default_transform=None)
    draws = np.abs(np.random.default_rng(0).standard_normal((1, 50)))
    tree = xarray.DataTree.from_dict({"posterior": xarray.Dataset({"sd": (("chain", "draw"), draws)})})
    with pytest.raises(ValueError, match="every draw of sd is positive, but the model has no transform"):
        ss.adapters.from_pymc(model, tree)


def test_discrete_variables_are_refused():
    with pm.Model() as model:
        pm.Poisson("n", 3)
    with pytest.raises(ValueError, match="variable n is discrete"):
        ss.adapters.from_pymc(model, {"posterior": xarray.Dataset()})
