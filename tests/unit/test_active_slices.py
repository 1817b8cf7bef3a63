import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slicestein import IMQ, RBF
from slicestein._checks import InputError
from slicestein._directions import active
from slicestein._directions.active import (
    KRYLOV_SIZE,
    RIDGE,
    Slopes,
    active_slices,
    find_active,
    leading_vectors,
    smoothed_difference,
    stein_gradient,
)
from slicestein._stein.numpy_bandwidths import evenly_spread
from tests.rounding import rounding

# Input A of the reference: 20 samples of N(0, I) against N(m, diag(v)).
X = np.random.default_rng(12345).standard_normal((20, 3))
M, V = np.array([0.1, -0.2, 0.3]), np.array([1.0, 1.5, 0.5])
S = -(X - M) / V
MED2 = 4.748454400
H = np.sqrt(MED2)


def smoothed(y, x, s, h):
    """The definition of the smoothed difference at one point, by automatic differentiation of the kernel."""

    def kernel(a):
        return jnp.exp(-jnp.sum((a - y) ** 2) / (2 * h**2))

    return jnp.mean(jax.vmap(lambda xi, si: si * kernel(xi) + jax.grad(kernel)(xi))(x, s), axis=0)


def extended_stein(y, x, shat, h):
    """The score estimate at one point, from (K + eta I) shat = -<grad, K> solved for the row of y."""

    def kernel(a):
        return jnp.exp(-jnp.sum((a - y) ** 2) / (2 * h**2))

    return -jnp.sum(jax.vmap(lambda xi, si: si * kernel(xi) + jax.grad(kernel)(xi))(x, shat), axis=0) / RIDGE


def at_samples(function, x, *arguments):
    """A function of one point at every sample; in double precision, as NumPy works whatever JAX does."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.vmap(function, (0, None) + (None,) * len(arguments)))(x, x, *arguments))


def jacobians(function, *arguments):
    """Jacobian of a function of one point at every sample, (n, output, input)."""
    return at_samples(jax.jacfwd(function), *arguments)


def matrices(slopes):
    """H_r of every slice, as arrays."""
    num, dim = slopes.r.shape
    return np.stack([slopes.product(np.tile(e, (num, 1))) for e in np.eye(dim)], axis=2)


def assert_same_lines(actual, expected, **tolerance):
    """Unit rows, equal up to sign."""
    cosines = np.abs(np.sum(np.asarray(actual) * np.asarray(expected), axis=1))
    np.testing.assert_allclose(cosines, 1, **tolerance)


def test_score_directions_of_the_reference():
    f = smoothed_difference(X, S, 2 * H)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(f.T @ f / 20)[::-1], [0.7684913638, 0.001903049482, 0.0002932161513], rtol=1e-8
    )
    r, _ = find_active(X, S, 3, kernel=RBF(H))
    np.testing.assert_allclose(np.abs(r[0]), [0.3705000095, 0.4393732699, 0.8183403159], rtol=1e-8)
    np.testing.assert_allclose(r @ r.T, np.eye(3), atol=1e-12)


def test_input_directions_of_the_reference():
    first, g = find_active(X, S, 3, kernel=RBF(H))
    np.testing.assert_allclose(np.abs(g[0]), [0.06654592975, 0.2483904830, 0.9663714644], rtol=1e-8)
    basis, g = find_active(X, S, 3, kernel=RBF(H), basis_r=True)
    np.testing.assert_array_equal(basis, np.eye(3))
    np.testing.assert_allclose(np.abs(g[0]), [0.5246448493, 0.6224385404, 0.5807908794], rtol=1e-8)

    r = np.stack([[1.0, 0, 0], first[0], [0, 1.0, 0]])
    eigenvalues = np.linalg.eigvalsh(matrices(Slopes.of(X, S, H, r)))[:, ::-1]
    np.testing.assert_allclose(eigenvalues[0], [0.001664074251, 0.0008667823461, 0.0007317735140], rtol=1e-8)
    np.testing.assert_allclose(eigenvalues[1], [0.02296289865, 0.01121380602, 0.007931473178], rtol=1e-8)


def test_exact_difference_of_the_reference():
    f = S + X  # q = N(0, I)
    r = leading_vectors(f, 3)
    np.testing.assert_allclose(
        np.sum((f @ r.T) ** 2, axis=0) / 20, [1.651962715, 0.08030773905, 0.006908185690], rtol=1e-9
    )


def test_stein_gradient_of_the_reference():
    shat = stein_gradient(X, H)
    np.testing.assert_allclose(shat[0], [0.8226333485, -2.376083930, 0.1309657479], rtol=1e-8)
    # The extension to other points passes through the estimates at the samples.
    np.testing.assert_allclose(at_samples(extended_stein, X, shat, H), shat, rtol=1e-9, atol=1e-10)


def test_default_bandwidth_is_the_median_distance():
    # The square of the median differs from the median of the squares in the seventh digit.
    default, explicit = active_slices(X, S, 3), active_slices(X, S, 3, kernel=RBF(H))
    np.testing.assert_allclose(default.g, explicit.g, atol=1e-5)
    np.testing.assert_allclose(active_slices(X, S, 3, kernel=RBF(0.5 * H, scale=2.0)).g, explicit.g, atol=1e-12)
    assert not np.allclose(active_slices(X, S, 3, kernel=RBF(0.5 * H)).g, explicit.g, atol=1e-3)


def test_slopes_are_the_jacobian_of_the_smoothed_difference():
    rng = np.random.default_rng(1)
    x, s = X + 3.0, S
    r, v = rng.standard_normal((2, 3, 3))
    w = rng.standard_normal((3, 20))
    dense = np.einsum("nij,mi->mnj", jacobians(smoothed, x, s, 1.7), r)
    slopes = Slopes.of(x, s, 1.7, r)
    np.testing.assert_allclose(slopes.along(v), np.einsum("mnj,mj->mn", dense, v), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes.back(w), np.einsum("mnj,mn->mj", dense, w), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(smoothed_difference(x, s, 1.7), at_samples(smoothed, x, s, 1.7), rtol=1e-11)


def test_stein_estimator_follows_the_fitted_function():
    s = -np.tanh(X @ np.array([[1.0, 0.5, 0], [0.2, 2.0, 0], [0, -0.3, 1.0]])) - X / V
    slices = active_slices(X, s, 3, kernel=RBF(H), estimator="stein")
    shat = stein_gradient(X, H)
    f = s - shat
    assert_same_lines(slices.r, np.linalg.eigh(f.T @ f)[1][:, ::-1].T, rtol=rounding(4, 1e-9))

    gram = np.exp(-np.sum((X[:, None] - X) ** 2, axis=2) / (2 * H**2))
    coefficients = np.linalg.solve(gram + RIDGE * np.eye(20), s)

    def fitted(y, x, shat, coefficients):
        ridge_fit = jnp.exp(-jnp.sum((x - y) ** 2, axis=1) / (2 * H**2)) @ coefficients
        return ridge_fit - extended_stein(y, x, shat, H)

    jacobian = jacobians(fitted, X, shat, coefficients)
    for r, g in zip(slices.r, slices.g, strict=True):
        gradients = np.einsum("nij,i->nj", jacobian, r)
        assert_same_lines(g[None], np.linalg.eigh(gradients.T @ gradients)[1][:, -1:].T, rtol=rounding(4, 1e-9))


@pytest.fixture(scope="module")
def wide():
    """Fewer samples than dimensions, and three slices at a time: the paths that large problems take."""
    x = np.random.default_rng(5).laplace(size=(30, 40))
    block_sizes = []

    def spy(x, s, h, r, of=Slopes.of):
        block_sizes.append(len(r))
        return of(x, s, h, r)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(active, "BLOCK_VALUES", 3 * (8 * 30 + 3 * KRYLOV_SIZE * 40))
        patch.setattr(Slopes, "of", spy)
        slices = active_slices(x, -x, 20, kernel=RBF(8.0))
    assert max(block_sizes) == 3
    return x, -x, slices


def test_lanczos_in_blocks_of_slices_finds_the_top_eigenvectors(wide):
    x, s, slices = wide
    h = matrices(Slopes.of(x, s, 8.0, np.asarray(slices.r)))
    g = np.asarray(slices.g)
    top = np.linalg.eigvalsh(h)[:, -1]
    image = np.einsum("mij,mj->mi", h, g)
    quotient = np.sum(g * image, axis=1)
    # A residual of 1e-4 of the eigenvalue leaves an error of its square, over the relative gap, in the quotient.
    assert np.all(np.linalg.norm(image - quotient[:, None] * g, axis=1) < 1.01e-4 * top)
    np.testing.assert_allclose(quotient, top, rtol=1e-6)


def test_small_gram_matrix_gives_the_directions_of_the_large_one(wide):
    x, _, _ = wide
    assert_same_lines(leading_vectors(x, 10), np.linalg.svd(x)[2][:10], rtol=1e-10)
    low_rank = x[:, :2] @ x[:2]  # rank two: the rest is arbitrary, but still orthonormal
    for num in (10, 40):
        rows = leading_vectors(low_rank, num)
        np.testing.assert_allclose(rows @ rows.T, np.eye(num), atol=1e-10)


def test_rotating_the_problem_rotates_the_directions():
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    before, after = active_slices(X, S, 3), active_slices(X @ rotation, S @ rotation, 3)
    assert_same_lines(after.r, before.r @ rotation, rtol=rounding(4, 1e-10))
    assert_same_lines(after.g, before.g @ rotation, rtol=rounding(4, 1e-7))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("estimator", "basis_r"), [("kernel", False), ("stein", True)])
def test_the_coordinate_that_differs_is_found(estimator, basis_r, dtype):
    x = np.random.default_rng(3).standard_normal((200, 10))
    x[:, 6] = 0.5 * x[:, 6] + 0.5
    slices = active_slices(x.astype(dtype), np.negative, 1, basis_r=basis_r, estimator=estimator)
    assert abs(slices.r[0, 6]) > 0.9
    assert abs(slices.g[0, 6]) > 0.9


def test_the_strongest_coordinates_are_taken_in_their_order():
    x = np.random.default_rng(3).standard_normal((400, 8))
    x[:, 6] += 1.0
    x[:, 2] += 0.7
    r, _ = find_active(x, -x, 2, basis_r=True)
    np.testing.assert_array_equal(r, np.eye(8)[[2, 6]])


def test_many_samples_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(active, "ACTIVE_ROWS", 20)
    many = np.random.default_rng(4).standard_normal((58, 3))
    many[::3] = X
    scores = np.zeros_like(many)
    scores[::3] = S
    np.testing.assert_array_equal(active_slices(many, scores, 3).g, active_slices(X, S, 3).g)


@pytest.mark.parametrize("most", [2, 20, 250])
@pytest.mark.parametrize("count", [2, 19, 20, 21, 39, 250, 251, 499, 501, 10_000])
def test_thinning_keeps_as_many_rows_as_allowed_and_both_ends(count, most):
    """Of 251 rows 250 are taken, not to the 126 that every other row would be."""
    kept = evenly_spread(np.arange(count), most)
    assert len(kept) == min(count, most)
    gaps = np.diff(kept)
    assert kept[0] == 0
    if most > 1:
        assert kept[-1] == count - 1
        assert gaps.min() >= 1
        assert gaps.max() <= gaps.min() + 1


@pytest.mark.parametrize("offset", [0, 3000])
def test_single_precision_is_enough(offset):
    """Rounding X + 3000 to float32 moves samples by 1e-4; not to centre them would move K by 0.3."""
    double = find_active(X, S, 3, kernel=RBF(H))
    with jax.enable_x64(False):
        single = find_active(np.float32(X + offset), np.float32(S), 3, kernel=RBF(H))
        slices = active_slices(np.float32(X + offset), np.float32(S), 3, kernel=RBF(H))
    for rows, expected, public in zip(single, double, (slices.r, slices.g), strict=True):
        assert rows.dtype == public.dtype == np.float32
        assert_same_lines(rows, expected, rtol=1e-6)
        np.testing.assert_allclose(public, rows, rtol=1e-6)


def test_double_precision_needs_no_switch():
    with jax.enable_x64(False):
        default = find_active(X, S, 3, kernel=RBF(H), estimator="stein")
    np.testing.assert_array_equal(default[1], find_active(X, S, 3, kernel=RBF(H), estimator="stein")[1])
    assert default[1].dtype == np.float64


def test_traced_samples_are_refused():
    with pytest.raises(InputError, match="x is traced: call this outside of jit, vmap and grad"):
        jax.jit(lambda x: active_slices(x, S, 3).g)(X)
    with pytest.raises(InputError, match="score is traced"):
        jax.grad(lambda s: active_slices(X, s, 3).g.sum())(S)


def test_the_same_samples_all_along_have_slices_at_a_fixed_bandwidth():
    same = np.ones((5, 3))
    slices = active_slices(same, same * [3.0, 0.0, 0.0], 1, kernel=RBF(1.0))
    np.testing.assert_allclose(abs(slices.r[0]), [1, 0, 0], atol=1e-6)  # all that is known is the score


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, S, 0), {}, "num_slices must lie between 1 and D = 3, got 0"),
        ((X, S, 4), {}, "num_slices must lie between 1 and D = 3, got 4"),
        ((X, S[:, :2], 1), {}, "score must have the shape of x"),
        ((X, S, 1), {"estimator": "exact"}, "estimator must be one of"),
        ((X, S, 1), {"kernel": IMQ()}, "kernel must be RBF"),
        ((X, S, 1), {"kernel": RBF(np.ones(3))}, "bandwidth must be a number"),
        ((X, S, 1), {"kernel": RBF(-1.0)}, "bandwidth must be positive"),
        (
            (np.ones((5, 3)), np.ones((5, 3)), 1),
            {},
            "no column of x varies, all rows are the same: .* a fixed bandwidth",
        ),
        ((X[None], S[None], 1), {}, "lay chains one after the other"),
    ],
)
def test_messages(arguments, options, message):
    with pytest.raises(InputError, match=message):
        active_slices(*arguments, **options)
