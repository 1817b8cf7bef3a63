"""ArviZ: from InferenceData or a DataTree to a verdict; draws with bounds need a transform."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import slicestein as ss
from slicestein.rows.files import read_samples

xarray = pytest.importorskip("xarray")
RNG = np.random.default_rng(0)
SHAPE = (2, 400)
MU = RNG.standard_normal(SHAPE)
BETA = 3.0 * RNG.standard_normal((*SHAPE, 2))
TAU = RNG.gamma(3.0, 0.5, SHAPE)  # rate 2
SHARE = RNG.beta(2.0, 3.0, SHAPE)


def dataset(**variables):
    dims = ("chain", "draw", "k")
    return xarray.Dataset({name: (dims[: np.ndim(v)], v) for name, v in variables.items()})


def of_arviz(**variables):
    """What the installed ArviZ makes: InferenceData below 1.0, a DataTree from 1.0 on."""
    arviz = pytest.importorskip("arviz")
    if arviz.__version__ < "1":
        return arviz.from_dict(posterior=variables)
    return arviz.from_dict({"posterior": variables})


def data_tree(**variables):
    return xarray.DataTree.from_dict({"posterior": dataset(**variables)})


def log_density(draw):
    return -0.5 * draw["mu"] ** 2 - 0.5 * jnp.sum(draw["beta"] ** 2) / 9


@pytest.mark.parametrize("make", [of_arviz, data_tree])
def test_draws_keep_their_chains_and_names(make):
    draws = ss.adapters.from_arviz(make(mu=MU, beta=BETA), log_density=log_density)
    assert draws.names == ("mu", "beta[0]", "beta[1]")
    np.testing.assert_array_equal(draws.x, np.concatenate([MU[..., None], BETA], axis=2))
    np.testing.assert_allclose(draws.score, np.concatenate([-MU[..., None], -BETA / 9], axis=2), rtol=1e-12)


def test_the_file_of_the_installed_arviz_is_read(tmp_path):
    of_arviz(mu=MU, beta=BETA).to_netcdf(str(tmp_path / "draws.nc"))
    x, names = read_samples(tmp_path / "draws.nc")
    assert names == ("mu", "beta[0]", "beta[1]")
    np.testing.assert_array_equal(x, np.concatenate([MU[..., None], BETA], axis=2))


def test_the_kind_is_that_of_the_version():
    arviz = pytest.importorskip("arviz")
    kind = type(of_arviz(mu=MU)).__name__
    assert kind == ("InferenceData" if arviz.__version__ < "1" else "DataTree")


def test_a_wrong_variable_is_named():
    tree = data_tree(mu=MU, beta=BETA * np.array([1.0, 0.6]))
    draws = ss.adapters.from_arviz(tree, log_density=log_density)
    result = ss.gof_test(draws.x, draws.score, names=draws.names, key=0)
    assert result.reject
    assert result.worst(1)[0][0] == "beta[1]"


def test_scores_follow_the_transform():
    """The density of log tau and of logit share, written down by hand."""

    def density(draw):
        gamma = 2 * jnp.log(draw["tau"]) - 2 * draw["tau"]
        return gamma + jnp.log(draw["share"]) + 2 * jnp.log1p(-draw["share"])

    draws = ss.adapters.from_arviz(
        data_tree(tau=TAU, share=SHARE), log_density=density, transforms={"tau": "log", "share": "logit"}
    )
    np.testing.assert_allclose(draws.x, np.stack([np.log(TAU), np.log(SHARE / (1 - SHARE))], axis=2))
    # d/dy [3 y - 2 exp(y)], and a beta variable: d/dy [2 log p + 3 log(1 - p)] = 2 - 5 p
    np.testing.assert_allclose(draws.score, np.stack([3 - 2 * TAU, 2 - 5 * SHARE], axis=2), rtol=1e-9)
    assert not ss.gof_test(draws.x, draws.score, names=draws.names, key=0, alpha=0.01).reject


def test_scores_can_be_an_array_of_the_constrained_density():
    s = (2 / TAU - 2)[..., None]
    draws = ss.adapters.from_arviz(data_tree(tau=TAU), score=s, transforms={"tau": "log"})
    np.testing.assert_allclose(draws.score[..., 0], 3 - 2 * TAU)


def test_a_mean_far_from_zero_is_not_taken_for_a_bound():
    draws = ss.adapters.from_arviz(data_tree(mu=170 + MU), score=-MU[..., None])
    assert stats.norm(170).mean() == pytest.approx(draws.x.mean(), abs=0.2)


def test_a_flat_density_of_a_share_is_a_density():
    """Uniform between 0 and 1: the score of the share is zero, that of its logit is not."""
    share = np.random.default_rng(1).random(SHAPE)
    draws = ss.adapters.from_arviz(
        data_tree(p=share), log_density=lambda draw: 0.0 * draw["p"], transforms={"p": "logit"}
    )
    np.testing.assert_allclose(draws.score[..., 0], 1 - 2 * share)


def test_draws_far_from_the_origin_keep_their_digits_or_are_refused():
    """Draws of ArviZ are in double precision, and the density may be evaluated in single."""
    tree, kinds = data_tree(mu=1e8 + MU), {"mu": "identity"}
    density = lambda draw: -0.5 * (draw["mu"] - 1e8) ** 2
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=r"single precision.*jax_enable_x64"):
            ss.adapters.from_arviz(tree, log_density=density, transforms=kinds)
        given = ss.adapters.from_arviz(tree, score=-MU[..., None], transforms=kinds)
    np.testing.assert_array_equal(given.x[..., 0], 1e8 + MU)
    np.testing.assert_array_equal(given.score[..., 0], -MU)
    found = ss.adapters.from_arviz(tree, log_density=density, transforms=kinds)
    np.testing.assert_allclose(found.score[..., 0], -MU, atol=1e-6)


SIMPLEX = RNG.dirichlet(np.ones(3), SHAPE)
FAULTS = [
    (lambda: ss.adapters.from_arviz(data_tree(mu=MU)), "either log_density or score"),
    (
        lambda: ss.adapters.from_arviz(data_tree(tau=TAU), score=-MU[..., None]),
        "every draw of tau is positive.*'tau': \"log\"",
    ),
    (lambda: ss.adapters.from_arviz(data_tree(p=SHARE), score=-MU[..., None]), 'draw of p is between 0 and 1.*"logit"'),
    (lambda: ss.adapters.from_arviz(data_tree(w=SIMPLEX), score=-SIMPLEX), "every draw of w sums to one"),
    (
        lambda: ss.adapters.from_arviz(data_tree(mu=MU), score=-MU[..., None], transforms={"mu": "log"}),
        "mu has draws on or beyond its bounds",
    ),
    (
        lambda: ss.adapters.from_arviz(data_tree(mu=MU), score=-MU[..., None], transforms={"nu": "log"}),
        "transforms names 'nu'",
    ),
    (
        lambda: ss.adapters.from_arviz(data_tree(mu=MU), score=-MU[..., None], transforms={"mu": "exp"}),
        "must be one of",
    ),
    (lambda: ss.adapters.from_arviz(data_tree(mu=MU), score=-MU), "score must have the shape of the draws"),
    (
        lambda: ss.adapters.from_arviz(data_tree(mu=MU), score=-MU[..., None], var_names=["nu"]),
        "no variable nu: found mu",
    ),
    (
        lambda: ss.adapters.from_arviz(data_tree(mu=MU), score=lambda x: -x, var_names=["mu", "mu"]),
        "var_names names a variable twice: mu, mu",
    ),
    (
        lambda: ss.adapters.from_arviz(data_tree(mu=MU, twice=2 * MU), log_density=lambda draw: -(draw["mu"] ** 2)),
        "the density does not depend on twice: name its variables with var_names",
    ),
    (lambda: ss.adapters.from_arviz({"prior": None}, score=-MU), "no group 'posterior': found prior"),
    (lambda: ss.adapters.from_arviz(3, score=-MU), "must be ArviZ InferenceData"),
]


@pytest.mark.parametrize(("call", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_faults_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def autoregression(rho, chains, draws, seed):
    x = np.random.default_rng(seed).standard_normal((chains, draws))
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


SHIFTED = autoregression(0.5, 4, 300, 0) + np.array([0, 0, 0.5, 0])[:, None]
CHAINS = [
    *(
        autoregression(rho, chains, draws, draws)
        for rho in (0.95, 0.5, 0.0, -0.5)
        for chains, draws in ((4, 500), (2, 11))
    ),
    SHIFTED,
    np.round(SHIFTED, 1),  # ties
    np.exp(3 * autoregression(0.3, 3, 101, 1)),  # a long tail, an odd number of draws
    np.repeat(autoregression(0.0, 4, 100, 2), 5, axis=1),  # a sampler that stays where it is
]


@pytest.mark.parametrize("index", range(len(CHAINS)))
def test_rhat_and_effective_sample_size_are_those_of_arviz(index):
    arviz = pytest.importorskip("arviz")
    from slicestein.gof import chains

    x = CHAINS[index]
    np.testing.assert_allclose(chains.rhat(x[:, :, None]), [arviz.rhat(x)], rtol=1e-10)
    np.testing.assert_allclose(chains.ess(x[:, :, None]), [arviz.ess(x)], rtol=1e-8)


def test_what_has_no_score_and_what_is_not_a_number_is_named():
    counts, holes = RNG.poisson(3, SHAPE), MU.copy()
    holes[1, 6] = np.nan
    for variables, message in (
        ({"mu": MU, "beta": BETA, "n": counts}, "variable n is discrete: it has no score"),
        ({"mu": holes, "beta": BETA}, "variable mu is not finite in chain 2, draw 7"),
    ):
        with pytest.raises(ss.InputError, match=message):
            ss.adapters.from_arviz(data_tree(**variables), log_density=log_density)
