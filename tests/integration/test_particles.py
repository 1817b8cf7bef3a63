"""Particles for models of other packages, against their own methods: BlackJAX's SVGD, NumPyro's NUTS."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import slicestein as ss


def test_svgd_is_that_of_blackjax():
    """The same loop, the same median rule, the same particles."""
    blackjax = pytest.importorskip("blackjax")
    from blackjax.vi.svgd import median_heuristic

    def log_density(z):
        return -0.5 * jnp.sum((z["a"] - 1) ** 2) - jnp.sum(jnp.cosh(z["b"]))

    rng = np.random.default_rng(0)
    start = {"a": jnp.asarray(rng.standard_normal((30, 2))), "b": jnp.asarray(rng.standard_normal((30, 3)))}
    theirs = blackjax.svgd(jax.grad(log_density), optax.adam(0.1))
    ours = ss.svgd(jax.vmap(jax.grad(log_density)), optax.adam(0.1))
    state = theirs.init(start, median_heuristic({"length_scale": 1.0}, start))
    expected = jax.lax.fori_loop(0, 50, lambda _, s: theirs.step(s), state).particles
    found = jax.lax.fori_loop(0, 50, lambda _, s: ours.step(s)[0], ours.init(start)).particles
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), found, expected)


@pytest.mark.slow
def test_particles_of_a_numpyro_model_against_nuts():
    """A regression with 20 parameters, a scale among them: the particles live in the unconstrained space."""
    numpyro = pytest.importorskip("numpyro")
    import numpyro.distributions as dist
    from numpyro.infer.util import initialize_model

    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 19))
    y = x @ np.linspace(-1, 1, 19) + 0.5 * rng.standard_normal(100)

    def model(x, y):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([19]))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)

    mcmc = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=500, num_samples=2000, progress_bar=False)
    mcmc.run(jax.random.key(0), x, y)
    draws = mcmc.get_samples()
    reference = {"beta": draws["beta"], "sigma": jnp.log(draws["sigma"])}

    info = initialize_model(jax.random.key(0), model, model_args=(x, y))
    score = jax.vmap(jax.grad(lambda z: -info.potential_fn(z)))
    start = jax.tree.map(
        lambda a: 0.3 * jax.random.normal(jax.random.key(1), (200, *a.shape), a.dtype), info.param_info.z
    )
    optimizer = optax.adam(optax.cosine_decay_schedule(0.05, 3000))  # with 0.02 the tail of sigma needs 6000 steps
    sliced, plain = (
        ss.run(method(score, optimizer), start, 3000, progress=False).particles for method in (ss.sliced_svgd, ss.svgd)
    )
    for name, draws in reference.items():
        sd = draws.std(0)
        assert np.max(np.abs(sliced[name].mean(0) - draws.mean(0)) / sd) < 0.2, name
        np.testing.assert_allclose(sliced[name].std(0) / sd, 1, atol=0.2, err_msg=name)
        assert np.mean(plain[name].std(0) / sd) < 0.8, name  # in 20 dimensions plain SVGD has lost spread
