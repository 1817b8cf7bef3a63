"""NumPyro: from a model and its draws to a verdict, in the unconstrained space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss

numpyro = pytest.importorskip("numpyro")
dist = numpyro.distributions if hasattr(numpyro, "distributions") else pytest.importorskip("numpyro.distributions")


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    upper = numpyro.sample("upper", dist.Uniform(0, tau))  # a bound that depends on another draw
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    numpyro.deterministic("twice", 2 * mu)
    numpyro.sample("y", dist.Normal(mu + upper + w[0], tau), obs=y)


Y = 1 + 0.8 * np.random.default_rng(0).standard_normal(30)


@pytest.fixture(scope="module")
def mcmc():
    run = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model),
        num_warmup=200,
        num_samples=250,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    run.run(jax.random.key(0), Y)
    return run


@pytest.mark.slow
def test_a_run_fits_its_model_and_not_another(mcmc):
    draws = ss.adapters.from_numpyro(model, mcmc, Y)
    assert draws.x.shape == (2, 250, 5)
    assert draws.names == ("mu", "tau", "upper", "w[0]", "w[1]")
    assert not ss.gof_test(draws.x, draws.score, names=draws.names, key=0, alpha=0.01).reject
    other = ss.adapters.from_numpyro(model, mcmc, Y + 1)
    assert ss.gof_test(other.x, other.score, names=other.names, key=0, alpha=0.01).reject


def test_the_score_is_that_of_the_unconstrained_density():
    """log density of log tau for tau ~ HalfNormal(2): y - exp(2 y) / 8."""

    def small():
        numpyro.sample("tau", dist.HalfNormal(2.0))

    tau = np.array([0.5, 1.0, 3.0])
    draws = ss.adapters.from_numpyro(small, {"tau": tau})
    np.testing.assert_allclose(draws.x[0, :, 0], np.log(tau))
    np.testing.assert_allclose(draws.score[0, :, 0], 1 - tau**2 / 4, rtol=1e-6)


def test_draws_outside_the_support_are_refused():
    def small():
        numpyro.sample("tau", dist.HalfNormal(2.0))

    with pytest.raises(ValueError, match="site tau has draws outside its support"):
        ss.adapters.from_numpyro(small, {"tau": np.array([-1.0, 1.0])})


def test_missing_sites_and_discrete_sites_are_named():
    def coin():
        p = numpyro.sample("p", dist.Beta(1, 1))
        numpyro.sample("n", dist.Bernoulli(p))

    with pytest.raises(ValueError, match=r"site n is discrete.*Marginalise"):
        ss.adapters.from_numpyro(coin, {"p": np.ones(3), "n": np.ones(3)})
    with pytest.raises(ValueError, match="no site mu: found nu"):
        ss.adapters.from_numpyro(model, {"nu": np.ones(3)}, Y)
    with pytest.raises(ValueError, match=r"draws of site mu have shape \(\)"):
        ss.adapters.from_numpyro(model, {k: np.ones(()) for k in ("mu", "tau", "upper", "w")}, Y)


def vector():
    numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))


SHAPES = [
    ((100,), (100, 1), r"draws of site beta have shape \(100, 1\), and the site \(3,\)"),  # would be broadcast
    ((100, 1), (100, 3), r"sites differ in chains or draws \(.*mu: \(100, 1\)"),
    ((2, 50), (50, 2, 3), r"sites differ in chains or draws \(.*beta: \(50, 2\)"),
]


@pytest.mark.parametrize(("mu", "beta", "message"), SHAPES)
def test_draws_that_are_not_of_one_run_are_refused(mu, beta, message):
    with pytest.raises(ValueError, match=message):
        ss.adapters.from_numpyro(vector, {"mu": np.zeros(mu), "beta": np.zeros(beta)})


def test_single_precision_is_refused_where_it_cannot_tell_draws_apart():
    def far():
        numpyro.sample("mu", dist.Normal(1e8, 1))

    mu = 1e8 + np.random.default_rng(0).standard_normal((2, 50))
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"single precision.*jax_enable_x64"):
        ss.adapters.from_numpyro(far, {"mu": mu})
    np.testing.assert_allclose(ss.adapters.from_numpyro(far, {"mu": mu}).score[..., 0], 1e8 - mu, atol=1e-6)


def test_draws_in_single_precision_are_taken_as_they_are():
    with jax.enable_x64(False):
        draws = ss.adapters.from_numpyro(vector, {"mu": np.arange(4.0), "beta": np.arange(12.0).reshape(4, 3)})
    np.testing.assert_array_equal(draws.score, -draws.x)
    np.testing.assert_array_equal(draws.x[0, 1], [3, 4, 5, 1])


# --- one call ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_check_tells_a_right_run_from_a_wrong_one(mcmc, tmp_path):
    result = ss.check(model, mcmc, Y)
    assert result.verdict == "fits"
    assert "tested unconstrained" not in str(result)
    assert result.draws.x.shape == (2, 250, 5)
    wrong = {name: np.asarray(site) for name, site in mcmc.get_samples(group_by_chain=True).items()}
    wrong["mu"] = wrong["mu"].mean() + 0.5 * (wrong["mu"] - wrong["mu"].mean())
    result = ss.check(model, wrong, y=Y)
    assert (result.verdict, result.parameters[0].name) == ("wrong", "mu")
    assert "parameters with bounds were tested unconstrained" in str(result)
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<b>mu</b>" in page
    assert "Witness function along slice" in page  # drawn with the draws that were kept


@pytest.mark.slow
def test_check_tells_of_divergences_and_of_trajectories_that_were_cut_off():
    def funnel():
        v = numpyro.sample("v", dist.Normal(0, 3))
        numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([5]).to_event(1))

    run = numpyro.infer.MCMC(
        numpyro.infer.NUTS(funnel, max_tree_depth=3), num_warmup=200, num_samples=200, progress_bar=False
    )
    run.run(jax.random.key(0), extra_fields=("num_steps",))
    fields = run.get_extra_fields()
    diverged, cut_off = int(fields["diverging"].sum()), int((fields["num_steps"] >= 7).sum())
    assert min(diverged, cut_off) > 0
    text = str(ss.check(funnel, run))
    assert f"{diverged} of 200 transitions diverged" in text
    assert f"{cut_off} of 200 trajectories were cut off" in text


@pytest.mark.slow
def test_check_takes_arviz_data_of_a_run(mcmc):
    az = pytest.importorskip("arviz")
    if not hasattr(az, "from_numpyro"):
        pytest.skip("this ArviZ has no from_numpyro")
    direct, converted = ss.check(model, mcmc, Y), ss.check(model, az.from_numpyro(mcmc), Y)
    assert converted.pvalue == direct.pvalue


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((model,), "fit is missing: pass the model and the fit"),
        ((model, np.zeros((3, 4))), r"cannot tell what package a fit of ndarray is from.*from_arviz"),
        ((3, {}), "model must be a function, or a model of PyMC or Stan, got int"),
        ((ss.adapters.Draws(np.zeros((1, 9, 2)), np.zeros((1, 9, 2)), ("a", "b")), None, Y), "no more arguments"),
    ],
)
def test_check_says_what_it_needs(arguments, message):
    with pytest.raises(ss.InputError, match=message):
        ss.check(*arguments)


@pytest.mark.slow
def test_arguments_that_the_model_does_not_take_are_told(mcmc):
    with pytest.raises(ss.InputError, match=r"does not take these arguments \(.*missing 1 required.*'y'"):
        ss.check(model, mcmc)
    with pytest.raises(ss.InputError, match=r"keyword argument 'alpha'.*settings of the test go into gof_test"):
        ss.check(model, mcmc, Y, alpha=0.01)
