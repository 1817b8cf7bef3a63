"""Half precision comes in, single precision computes: the results are those of the same numbers in float32."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import slicestein as ss
from slicestein import learning

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((40, 3)), RNG.standard_normal((4, 10, 3))


def particles(method):
    return lambda x: ss.run(method, x, 3, progress=False).particles


def tree_of_particles(x):
    method = ss.svgd(lambda tree: jax.tree.map(jnp.negative, tree), optax.sgd(0.1))
    return ss.run(method, {"a": x[:, 0], "b": x[:, 1:]}, 3, progress=False).particles["b"]


def trained(loss):
    return lambda x: learning.fit(loss, x[0], x, 3, key=0, batch_size=20, progress=False).params


def first_step(loss):
    def run(x):
        x = jnp.asarray(x)
        return loss.step(loss.init(x[0], x), x, jax.random.key(0))[1].loss

    return run


def amortised(make):
    def run(x):
        method = make(lambda params, data, key: params * jnp.asarray(Z, x.dtype), lambda z, data: -z, optax.sgd(0.1))
        return method.step(method.init(jnp.asarray(x[0]), None), None, 0)[2]

    return run


def scale_score(params, x):
    return -params * x


LOSSES = {
    "maxsksd-g": learning.maxsksd(scale_score, optax.adam(0.01)),
    "maxsksd-rg": learning.maxsksd(scale_score, optax.adam(0.01), optimize="rg"),
    "ksd": learning.ksd(scale_score, optax.adam(0.01)),
    "lsd": learning.lsd(scale_score, optax.adam(0.01), lambda w, x: w * x, np.ones(3, np.float16)),
}
CALLS = {
    "sksd": lambda x: ss.sksd(x, -x, ss.Slices(x[:4], x[4:8])),
    "sksd, exact": lambda x: ss.sksd(x, -x, ss.Slices.basis(3), engine="exact"),
    "sksd, score function": lambda x: ss.sksd(x, lambda z: (-z).astype(x.dtype), ss.Slices.basis(3)),
    "sksd, bandwidths": lambda x: ss.sksd(x, -x, ss.Slices.basis(3), kernel=ss.RBF(abs(x[0]))),
    "sksd, feature map": lambda x: ss.sksd(
        x, -x, ss.Slices.basis(3), feature_map=lambda row: jnp.tanh(row).astype(x.dtype)
    ),
    "integrated_sksd": lambda x: ss.integrated_sksd(x, -x, key=0),
    "ksd": lambda x: ss.ksd(x, -x),
    "ssd": lambda x: ss.ssd(x, -x, ss.Slices.basis(3)).score_difference(x[:, 0]),
    "witness": lambda x: ss.witness(x, -x, ss.Slices.basis(3), x[:5]),
    "svgd": particles(ss.svgd(jnp.negative, optax.sgd(0.1))),
    "svgd, tree": tree_of_particles,
    "sliced_svgd": particles(ss.sliced_svgd(jnp.negative, optax.sgd(0.1), refresh_every=2)),
    "grassmann_svgd": particles(ss.grassmann_svgd(jnp.negative, optax.sgd(0.1), key=0, slice_dim=3)),
    "noisy_svgd": particles(ss.noisy_svgd(jnp.negative, 0.1, key=0)),
    "amortised_svgd": amortised(learning.amortised_svgd),
    "amortised_sliced_svgd": amortised(learning.amortised_sliced_svgd),
    **{f"fit, {name}": trained(loss) for name, loss in LOSSES.items()},
    **{f"step, {name}": first_step(loss) for name, loss in LOSSES.items()},
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CALLS)
def test_half_precision_is_promoted(name, dtype):
    with jax.enable_x64(False):
        half = np.asarray(jnp.asarray(X, dtype))
        found = CALLS[name](half)
        assert found.dtype == jnp.float32
        # What the functions above make in half precision themselves is rounded to it: a feature map, samples.
        # The others differ by the rounding of single precision, which U, a difference, magnifies; half has 1e-3.
        tolerance = 0.02 if name in ("sksd, feature map", "amortised_svgd", "amortised_sliced_svgd") else 5e-5
        np.testing.assert_allclose(found, CALLS[name](half.astype(np.float32)), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["svgd", "fit", "amortised_sliced_svgd"])
def test_a_score_may_be_of_half_precision(name):
    """As that of a network in mixed precision is."""
    half = lambda *args: (-args[0]).astype(jnp.bfloat16)
    with jax.enable_x64(False):
        x = X.astype(np.float32)
        if name == "svgd":
            found = ss.run(ss.svgd(half, optax.sgd(0.1)), x, 2, progress=False).particles
        elif name == "fit":
            method = learning.maxsksd(lambda p, x: half(p * x), optax.sgd(0.1))
            found = learning.fit(method, x[0], x, 2, key=0, batch_size=20, progress=False).params
        else:
            method = learning.amortised_sliced_svgd(lambda p, x, key: p * Z, half, optax.sgd(0.1))
            found = method.step(method.init(x[0], None), None, 0)[2]
        assert found.dtype == jnp.float32
        assert jnp.isfinite(found).all()
