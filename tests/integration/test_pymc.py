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
    from slicestein._cli.main import run

    path = str(tmp_path / "trace.nc")
    trace.to_netcdf(path)
    assert run(["test", path, "--score", path]) == 0
    assert "no evidence against the model" in capsys.readouterr().out
    assert run(["test", path, "--score", path, "--chains", "2"]) == 2
    assert "cannot be cut into 2 chains" in capsys.readouterr().err  # the file has its own


def test_a_trace_without_gradients_is_refused(trace):
    stats = trace["sample_stats"].drop_vars("gradient")
    with pytest.raises(ValueError, match="has not stored gradient: sample by nutpie with store_unconstrained=True"):
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


def test_a_model_without_variables_is_refused():
    with pytest.raises(ValueError, match="no free variables"):
        ss.adapters.from_pymc(pm.Model(), {"posterior": xarray.Dataset()})


def test_discrete_variables_are_refused():
    with pm.Model() as model:
        pm.Poisson("n", 3)
    with pytest.raises(ValueError, match="variable n is discrete"):
        ss.adapters.from_pymc(model, {"posterior": xarray.Dataset()})


class Stats(dict):
    """Two arrays that are not aligned, as a dataset would align them."""

    @property
    def data_vars(self):
        return self


@pytest.mark.parametrize("other", ["unconstrained_parameter", "gradient_parameter"])
def test_stored_gradients_are_matched_by_name(other):
    x = np.random.default_rng(0).standard_normal((2, 5, 3))
    dims = ("chain", "draw")
    draws = xarray.DataArray(
        x, dims=(*dims, "unconstrained_parameter"), coords={"unconstrained_parameter": list("abc")}
    )
    gradient = xarray.DataArray(-x[..., [2, 0, 1]], dims=(*dims, other), coords={other: list("cab")})
    found = ss.adapters.from_nutpie({"sample_stats": Stats(unconstrained_draw=draws, gradient=gradient)})
    assert found.names == ("a", "b", "c")
    np.testing.assert_array_equal(found.score, -x)
    strange = gradient.assign_coords({other: list("cad")})
    with pytest.raises(ValueError, match="gradients of 3, of other names"):
        ss.adapters.from_nutpie({"sample_stats": Stats(unconstrained_draw=draws, gradient=strange)})


SCALES = np.array([[1.0, 2.0], [3.0, 4.0]])


def square(coords=None, dims=None):
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", 0, SCALES, dims=dims, shape=None if dims else (2, 2))
    return model


@pytest.mark.parametrize("dims", [("row", "column"), ("beta_dim_0", "beta_dim_1")])
def test_axes_are_matched_by_name(dims):
    """A square variable whose axes were exchanged has the same shape, and other entries."""
    labels = {"row": ["a", "b"], "column": ["c", "d"]}
    model = square(labels, dims) if dims[0] == "row" else square()
    values = np.random.default_rng(0).standard_normal((2, 4, 2, 2)) * SCALES
    dataset = xarray.Dataset({"beta": (("chain", "draw", *dims), values)})
    if dims[0] == "row":
        dataset = dataset.assign_coords(labels).sel(row=["b", "a"])
    exchanged = dataset.transpose("draw", dims[1], "chain", dims[0])
    found = ss.adapters.from_pymc(model, {"posterior": exchanged})
    assert found.names == ("beta[0,0]", "beta[0,1]", "beta[1,0]", "beta[1,1]")
    np.testing.assert_array_equal(found.x, values.reshape(2, 4, 4))
    np.testing.assert_allclose(found.score, (-values / SCALES**2).reshape(2, 4, 4))


def test_draws_with_other_axes_are_refused():
    values = np.zeros((2, 4, 2, 2))
    other = xarray.Dataset({"beta": (("chain", "draw", "row", "column"), values)}, coords={"row": ["a", "x"]})
    with pytest.raises(ValueError, match="draws of beta have other labels along row than the model"):
        ss.adapters.from_pymc(
            square({"row": ["a", "b"], "column": ["c", "d"]}, ("row", "column")), {"posterior": other}
        )
    wide = xarray.Dataset({"beta": (("chain", "draw", "i", "j"), np.zeros((2, 4, 2, 3)))})
    with pytest.raises(ValueError, match=r"the model needs chain, draw and \(2, 2\)"):
        ss.adapters.from_pymc(square(), {"posterior": wide})
    flat = xarray.Dataset({"beta": (("sample", "i", "j"), np.zeros((4, 2, 2)))})
    with pytest.raises(ValueError, match=r"have dimensions \('sample', 'i', 'j'\)"):
        ss.adapters.from_pymc(square(), {"posterior": flat})


# --- one call ----------------------------------------------------------------------------------


def test_check_takes_a_model_or_stored_gradients(model, trace):
    by_model, by_trace = ss.check(model, trace), ss.check(trace)
    assert by_model.verdict == by_trace.verdict == "fits"
    np.testing.assert_allclose(by_model.draws.score, by_trace.draws.score, rtol=1e-6, atol=1e-8)
    with pm.Model() as other:  # the same variables, and a prior mistyped
        mu = pm.Normal("mu", 0, 0.05)
        sd = pm.HalfNormal("sd", 5)
        beta = pm.Normal("beta", 0, 1, shape=2)
        w = pm.Dirichlet("w", np.ones(3))
        upper = pm.Uniform("upper", 0, sd)
        pm.Normal("y", mu + beta.sum() + w[0] + upper, sd, observed=Y)
    wrong = ss.check(other, trace)
    assert (wrong.verdict, wrong.parameters[0].name) == ("wrong", "mu")


def test_check_tells_of_divergences(trace):
    stats = trace["sample_stats"].copy()
    for name, count in (("diverging", 7), ("maxdepth_reached", 4)):
        flags = np.zeros((2, 300), bool)
        flags[1, :count] = True
        stats[name] = (("chain", "draw"), flags)
    tree = xarray.DataTree.from_dict({"sample_stats": stats})
    result = ss.check(tree)
    assert len(result.notes) == 2 + result.reject
    assert "7 of 600 transitions diverged" in str(result)
    assert "4 of 600 trajectories were cut off" in str(result)
    assert ss.check(trace).notes == () or trace["sample_stats"]["diverging"].any()


def test_check_refuses_a_model_alone_and_arguments_that_are_not_needed(model, trace):
    with pytest.raises(ss.InputError, match="fit is missing"):
        ss.check(model)
    with pytest.raises(ss.InputError, match="with a PyMC model no more arguments are needed, got ndarray, alpha"):
        ss.check(model, trace, Y, alpha=0.1)
