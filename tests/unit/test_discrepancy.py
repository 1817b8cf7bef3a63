"""Published check values, transformations, and inputs at the edge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slicestein as ss
from tests.rounding import central_difference, rounding

# Input "A": 20 standard normal samples in 3-D against p = N(m, diag(v)).
X = np.random.default_rng(12345).standard_normal((20, 3))
S = -(X - np.array([0.1, -0.2, 0.3])) / np.array([1.0, 1.5, 0.5])
BASIS = ss.Slices.basis(3)
pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.parametrize(
    ("kernel", "u", "v"),
    [
        (ss.RBF(), 0.7106674503, 1.046311360),
        (ss.IMQ(1.0), 0.4953349577, 0.9601562483),
        (ss.IMQ(), 0.6406007103, 0.4496124716 * 2.179094261),
    ],
    ids=repr,
)
def test_ksd_check_values(kernel, u, v):
    np.testing.assert_allclose(ss.ksd(X, S, kernel=kernel), u, rtol=rounding(100, 2e-9))
    np.testing.assert_allclose(ss.ksd(X, S, kernel=kernel, statistic="v"), v, rtol=rounding(100, 2e-9))


@pytest.mark.parametrize("engine", ["exact", "fourier"])
def test_sksd_check_values(engine):
    kwargs, rtol = {"kernel": ss.RBF(1.0), "engine": engine}, rounding(100, 1e-9)
    np.testing.assert_allclose(ss.sksd(X, S, BASIS, **kwargs), 0.9286805202, rtol=rtol)
    np.testing.assert_allclose(ss.sksd(X, S, BASIS, statistic="v", **kwargs), 1.371834533, rtol=rtol)
    slices = ss.Slices(np.eye(3), np.random.default_rng(99).standard_normal((3, 3)))
    np.testing.assert_allclose(ss.sksd(X, S, slices, **kwargs), 0.8706148529, rtol=rtol)
    np.testing.assert_allclose(ss.sksd(X, S, slices, statistic="v", **kwargs), 1.225303511, rtol=rtol)


def test_witness_check_value():
    """The S-SVGD force at the first sample."""
    slices = ss.Slices(np.eye(3), np.random.default_rng(99).standard_normal((3, 3)))
    t = X[:1] @ np.asarray(slices.g).T
    for engine in ("exact", "fourier"):
        force = ss.witness(X, S, slices, t, kernel=ss.RBF(1.0), engine=engine)[0]
        np.testing.assert_allclose(force, [0.2341732557, -0.09980249061, 0.9557821325], rtol=rounding(100, 1e-8))


def test_witness_takes_points_for_all_slices_or_for_each():
    t = np.linspace(-2, 2, 5)
    shared = ss.witness(X, S, BASIS, t)
    assert shared.shape == (5, 3)
    np.testing.assert_array_equal(shared, ss.witness(X, S, BASIS, np.tile(t[:, None], 3)))


@pytest.mark.parametrize("engine", ["auto", "exact", "fourier"])
def test_jit_vmap_and_grad(engine):
    def value(x, slices):
        return ss.sksd(x, lambda x: -x, slices, engine=engine)

    batch = jnp.asarray(np.random.default_rng(0).standard_normal((4, 30, 3)))
    plain = jnp.stack([value(x, BASIS) for x in batch])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(value, (0, None)))(batch, BASIS), plain, rtol=rounding(100, 1e-10), atol=rounding(10)
    )
    gradient = jax.vmap(jax.grad(value), (0, None))(batch, BASIS)
    one = jax.jit(jax.grad(value))(batch[1], BASIS)
    np.testing.assert_allclose(gradient[1], one, rtol=rounding(100, 1e-9), atol=rounding(10, 1e-12))
    # Finite differences with the bandwidth held fixed, as the gradient does.
    kernel = ss.RBF(jnp.asarray([0.9, 1.0, 1.1]))
    fixed = lambda x: ss.sksd(x, lambda x: -x, BASIS, kernel=kernel, engine=engine)
    direction = jnp.asarray(np.random.default_rng(1).standard_normal((30, 3)))
    step, rtol = central_difference(1e-5, 1e-6)
    difference = (fixed(batch[0] + step * direction) - fixed(batch[0] - step * direction)) / (2 * step)
    np.testing.assert_allclose(jnp.sum(jax.grad(fixed)(batch[0]) * direction), difference, rtol=rtol)
    np.testing.assert_allclose(jax.jvp(fixed, (batch[0],), (direction,))[1], difference, rtol=rtol)


@pytest.mark.parametrize("engine", ["auto", "exact", "fourier"])
def test_second_derivatives_exist_or_their_engine_is_told(engine):
    value = lambda x: ss.sksd(x, lambda x: -x, BASIS, kernel=ss.RBF(1.0), engine=engine)
    slope = lambda x: ss.witness(x, -x, BASIS, np.zeros(1), engine=engine).sum()
    for second in (jax.hessian(value), jax.grad(lambda x: jnp.sum(jax.grad(value)(x) ** 2)), jax.grad(slope)):
        if engine == "exact":
            assert jnp.isfinite(second(jnp.asarray(X))).all()
        else:
            with pytest.raises(
                ss.InputError, match='knows first derivatives of discrepancies only: pass engine="exact"'
            ):
                second(jnp.asarray(X))


@pytest.mark.parametrize("engine", ["exact", "fourier"])
def test_the_bandwidth_can_be_learned_and_the_median_is_not_differentiated(engine):
    value = lambda h: ss.sksd(X, S, BASIS, kernel=ss.RBF(h), engine=engine)
    step, rtol = central_difference(1e-5, 1e-6)
    np.testing.assert_allclose(jax.grad(value)(1.2), (value(1.2 + step) - value(1.2 - step)) / (2 * step), rtol=rtol)
    widths = jnp.median(jnp.abs(X[:, None] - X)[np.triu_indices(20, 1)], axis=0)
    by_median, by_number = (
        jax.grad(lambda x, k=kernel: ss.sksd(x, S, BASIS, kernel=k, engine=engine))(X)
        for kernel in (ss.RBF(), ss.RBF(widths))
    )
    np.testing.assert_allclose(by_median, by_number, rtol=rounding(100, 1e-7), atol=rounding(10, 1e-12))


def test_scale_multiplies_the_median():
    widths = jnp.median(jnp.abs(X[:, None] - X)[np.triu_indices(20, 1)], axis=0)
    np.testing.assert_allclose(
        ss.sksd(X, S, BASIS, kernel=ss.RBF(scale=1.5)),
        ss.sksd(X, S, BASIS, kernel=ss.RBF(1.5 * widths)),
        rtol=rounding(30, 1e-9),
    )


def test_a_feature_map_can_be_trained():
    weight = jnp.asarray(np.random.default_rng(2).standard_normal((3, 3)))

    def value(weight, engine):
        return ss.sksd(X, S, BASIS, kernel=ss.RBF(1.0), engine=engine, feature_map=lambda x: x + jnp.tanh(weight @ x))

    exact, fourier = (jax.grad(value)(weight, engine) for engine in ("exact", "fourier"))
    assert jnp.linalg.norm(exact) > 0.01
    np.testing.assert_allclose(exact, fourier, atol=rounding(100, 1e-8))


def test_the_identity_feature_map_is_none_at_all():
    slices = ss.Slices.random(3, 4, 3)
    plain = ss.sksd(X, S, slices, engine="fourier")
    np.testing.assert_allclose(
        ss.sksd(X, S, slices, engine="fourier", feature_map=lambda x: x), plain, rtol=rounding(100, 1e-9)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_follow_the_dtype(dtype):
    x, s = X.astype(dtype), S.astype(dtype)
    dtype = jax.dtypes.canonicalize_dtype(dtype)  # in single precision there is no other
    assert ss.sksd(x, s, BASIS).dtype == dtype
    assert ss.ksd(x, s).dtype == dtype
    assert ss.witness(x, s, BASIS, [0.0]).dtype == dtype
    assert ss.ssd(x, s, BASIS).per_slice.dtype == dtype


def test_ties_do_not_break_the_median_rule():
    """Half of the samples at one point: the median gap is zero, and the mean gap takes its place."""
    x = X.copy()
    x[:16] = x[0]
    value = ss.sksd(x, S, BASIS, per_slice=True)
    i, j = np.triu_indices(20, 1)
    mean = np.abs(x[i] - x[j]).mean(0)
    np.testing.assert_allclose(
        value, ss.sksd(x, S, BASIS, kernel=ss.RBF(mean), per_slice=True), rtol=rounding(100, 1e-9)
    )


def test_two_samples_and_one_far_away():
    x = np.array([[0.0], [1.0]])
    # h_01 with a = (0, -1), c = 1, tau = -1: the middle term alone is left, a_1 k'(tau) = -k(1).
    np.testing.assert_allclose(
        ss.sksd(x, -x, ss.Slices.basis(1), kernel=ss.RBF(1.0)), -np.exp(-0.5), rtol=rounding(4, 1e-12)
    )
    far = np.vstack([X, np.full((1, 3), 1e12)])
    score = np.vstack([S, np.zeros((1, 3))])
    one, other = (ss.sksd(far, score, BASIS, engine=engine) for engine in ("exact", "fourier"))
    np.testing.assert_allclose(one, other, rtol=rounding(100, 1e-8))


def test_random_keys_are_seeds_or_keys():
    one = ss.integrated_sksd(X, S, key=3)
    assert one == ss.integrated_sksd(X, S, key=jax.random.key(3))
    assert one != ss.integrated_sksd(X, S, key=4)


@pytest.mark.parametrize("engine", ["exact", "fourier"])
def test_samples_far_from_the_origin_keep_their_digits(engine):
    """In single precision 2.459e6 has steps of 0.25: samples are centred in the precision they come in."""
    near = 0.1 * np.random.default_rng(0).standard_normal((200, 3))
    far, s, slices = near + 2.459e6, -near / 0.01, ss.Slices.random(0, 4, 3)
    grid = np.linspace(-0.2, 0.2, 5)
    there = grid[:, None] + 2.459e6 * np.asarray(slices.g, float).sum(1)
    with jax.enable_x64(False):
        for one, other in [
            (ss.sksd(far, s, slices, engine=engine), ss.sksd(near, s, slices, engine=engine)),
            (ss.ksd(far, s), ss.ksd(near, s)),
            (ss.witness(far, s, slices, there, engine=engine), ss.witness(near, s, slices, grid, engine=engine)),
        ]:
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * np.abs(other).max())


def test_samples_far_from_zero_keep_their_precision():
    """Single precision, in which all of them are the same number, is that of JAX and not of x."""
    x = np.random.default_rng(0).standard_normal((500, 2))
    far, slices = x + 1e8, ss.Slices.basis(2)
    centred = far - 1e8  # as far is known
    with jax.enable_x64(False):
        expected = ss.sksd(centred, -centred, slices)
        np.testing.assert_allclose(ss.sksd(far, lambda z: -(z - 1e8), slices), expected, rtol=1e-3)
        expected = ss.integrated_sksd(centred, -centred, key=0)
        np.testing.assert_allclose(ss.integrated_sksd(far, -centred, key=0), expected, rtol=1e-3)
        with pytest.raises(ss.InputError, match="held in single precision, in which samples so far from zero"):
            ss.ssd(far, -centred, slices)


def test_the_witness_can_be_traced_in_its_slices():
    x, t = np.random.default_rng(0).standard_normal((200, 3)), np.linspace(-1, 1, 5)
    with jax.enable_x64(False):
        found = jax.jit(lambda g: ss.witness(x, -x, ss.Slices(np.eye(3), g), t))(jnp.eye(3))
        np.testing.assert_allclose(found, ss.witness(x, -x, ss.Slices.basis(3), t), rtol=1e-4, atol=1e-5)


def test_rows_in_chunks_that_do_not_vary_are_refused_as_arrays_are():
    x = np.random.default_rng(0).standard_normal((200, 2))
    x[:, 0] = 1
    for given in (x, ss.rows.open(x, -x)):
        with pytest.raises(ss.InputError, match="x does not vary along slice 0"):
            ss.sksd(given, -x if given is x else None, ss.Slices.basis(2))
