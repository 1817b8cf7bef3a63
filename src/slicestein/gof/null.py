r"""Null distributions: what a discrepancy would be if the samples came from the model.

Under the null, with the Stein kernel h and eigenvalues $c_j$ of its integral operator
(label "eq: Asymptotic maxSKSD q=p"),

$$
N U \to \sum_j c_j (Z_j^2 - 1), \qquad N V \to \sum_j c_j Z_j^2, \qquad Z_j \sim N(0, 1).
$$

The bootstrap draws such values without the eigenvalues, as quadratic forms $\sum_{ij} w_i w_j h_{ij}$ in
random weights (label "eq: Bootstrap samples"). Each kind of weights belongs to one form of the statistic:

| kind | weights | compare with | for |
| --- | --- | --- | --- |
| multinomial | counts / N - 1 / N | U, zero diagonal | independent samples |
| rademacher | signs / sqrt(N (N - 1)) | U, zero diagonal | independent samples |
| normal | N(0, 1) / sqrt(N (N - 1)) | U, zero diagonal | the law of `eigenvalue_null` without eigenvalues |
| dependent | signs that persist in time, / N | V, diagonal kept | Markov chains |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from slicestein._checks import InputError
from slicestein.gof.dependence import chain_length

Kind = Literal["multinomial", "rademacher", "normal", "dependent"]

# Form of the statistic that belongs to each kind of bootstrap weights.
FORMS: dict[str, Literal["u", "v"]] = {"multinomial": "u", "rademacher": "u", "normal": "u", "dependent": "v"}


class Outcome(NamedTuple):
    """A statistic, draws from its null distribution and the p-value."""

    statistic: Float[Array, ""]
    null_distribution: Float[Array, " b"]
    pvalue: Float[Array, ""]


def pvalue(statistic: Float[Array, ""], null_distribution: Float[Array, " b"]) -> Float[Array, ""]:
    r"""$(1 + \#\{null \ge statistic\}) / (1 + B)$: never 0, and valid at every B."""
    exceed = jnp.sum(null_distribution >= statistic)
    return ((1 + exceed) / (1 + null_distribution.shape[0])).astype(null_distribution.dtype)


def critical_value(null_distribution: Float[Array, " b"], alpha: float) -> Float[Array, ""]:
    """The value a statistic must exceed for ``pvalue <= alpha``; infinite if B is too small for any to do so."""
    num_draws = null_distribution.shape[0]
    allowed = math.floor(alpha * (num_draws + 1) + 1e-9)  # the constant mends 0.05 * 1000 < 50
    if allowed < 1:
        return jnp.array(jnp.inf, null_distribution.dtype)
    return jnp.sort(null_distribution)[num_draws - min(allowed, num_draws)]


# --- bootstrap ---------------------------------------------------------------------------------


def multinomial_weights(key: PRNGKeyArray, num_draws: int, num_samples: int, dtype: Any = float) -> Float[Array, "b n"]:
    r"""Weights $C_i / N - 1 / N$ with C the counts of N draws from N samples (label "eq: Bootstrap samples").

    Given H, draws of the zero-diagonal form have mean $-(N - 1) U / N^2$. Because the weights sum to zero
    they see the doubly centred matrix only, which makes the test reject too often below N = 50 or so.

    Differs from the paper: the formula there centres counts, not their shares, by 1/N, and then rejects nothing.
    """
    index = jax.random.randint(key, (num_draws, num_samples), 0, num_samples)
    flat = (index + num_samples * jnp.arange(num_draws)[:, None]).ravel()
    counts = jnp.bincount(flat, length=num_draws * num_samples).reshape(num_draws, num_samples)
    return (counts.astype(dtype) - 1) / num_samples


def rademacher_weights(key: PRNGKeyArray, num_draws: int, num_samples: int, dtype: Any = float) -> Float[Array, "b n"]:
    r"""Independent signs over $\sqrt{N (N - 1)}$.

    Given H, draws of the zero-diagonal form have mean 0 and variance
    $2 \sum_{i \ne j} h_{ij}^2 / (N (N - 1))^2$.
    """
    signs = jax.random.rademacher(key, (num_draws, num_samples), dtype=dtype)
    return signs / math.sqrt(num_samples * (num_samples - 1))


def dependent_weights(
    key: PRNGKeyArray,
    num_draws: int,
    num_samples: int,
    flip_probability: float | Float[Array, ""],
    *,
    num_chains: int = 1,
    dtype: Any = float,
) -> Float[Array, "b n"]:
    r"""Signs over N that keep their value from one row to the next but for a probability a of flipping.

    The correlation of signs k rows apart is $(1 - 2 a)^k$, so that draws keep the dependence of samples
    that are close in time. Rows are in order of time, one chain after the other; every chain starts from a sign
    of its own. Compare with V; a = 1/2 is Rademacher.

    Parameters
    ----------
    flip_probability
        a, in (0, 1/2]: `dependence.flip_probability` finds it.
    num_chains
        Number of chains of equal length, laid out one after the other.
    """
    start_key, flip_key = jax.random.split(key)
    starts = jax.random.bernoulli(start_key, 0.5, (num_draws, num_chains))
    shape = (num_draws, num_chains, chain_length(num_samples, num_chains))
    flips = jax.random.bernoulli(flip_key, flip_probability, shape)
    return sign_chains(starts, flips).astype(dtype) / num_samples


def sign_chains(starts: Bool[Array, "b c"], flips: Bool[Array, "b c l"]) -> Float[Array, "b n"]:
    """Signs, -1 where ``starts``, that flip before every row t >= 1 where ``flips``; chains one after the other."""
    flips = flips.at[:, :, 0].set(starts)
    return (1.0 - 2.0 * (jnp.cumsum(flips, axis=-1) % 2)).reshape(flips.shape[0], -1)


def bootstrap_weights(
    kind: Kind,
    key: PRNGKeyArray,
    num_draws: int,
    num_samples: int,
    *,
    num_chains: int = 1,
    flip_probability: float | Float[Array, ""] | None = None,
    dtype: Any = float,
) -> Float[Array, "b n"]:
    """Weights of B bootstrap draws: the quadratic form in each row is one value of the null.

    ``FORMS[kind]`` tells the form: for ``"u"`` leave the diagonal out of the quadratic form and compare with
    U; for ``"v"`` keep it and compare with V.

    Parameters
    ----------
    kind
        ``"multinomial"``, ``"rademacher"``, ``"normal"`` or ``"dependent"``.
    num_draws, num_samples
        B and N.
    num_chains, flip_probability
        For ``"dependent"`` only, which needs them: see :func:`dependent_weights`.

    Notes
    -----
    Cost: O(B N) time and memory.
    """
    if kind == "multinomial":
        return multinomial_weights(key, num_draws, num_samples, dtype)
    if kind == "rademacher":
        return rademacher_weights(key, num_draws, num_samples, dtype)
    if kind == "normal":
        return jax.random.normal(key, (num_draws, num_samples), dtype) / math.sqrt(num_samples * (num_samples - 1))
    if kind != "dependent":
        raise InputError(f"kind must be one of {sorted(FORMS)}, got {kind!r}")
    if flip_probability is None:
        raise InputError('kind="dependent" needs flip_probability: dependence.flip_probability(x) finds one')
    return dependent_weights(key, num_draws, num_samples, flip_probability, num_chains=num_chains, dtype=dtype)


def quadratic_forms(matrix: Float[Array, "n n"], weights: Float[Array, "b n"]) -> Float[Array, " b"]:
    r"""$w_b^\top H w_b$ for every row of weights. Cost: one (B, N) x (N, N) product, O(B N) memory."""
    return jnp.sum((weights @ matrix) * weights, axis=1)


def statistic_and_draws(
    h_matrix: Float[Array, "n n"], weights: Float[Array, "b n"], form: Literal["u", "v"]
) -> tuple[Float[Array, ""], Float[Array, " b"]]:
    """The statistic and its bootstrap draws, both without the diagonal (``"u"``) or both with it (``"v"``)."""
    count = h_matrix.shape[0]
    if form == "v":
        return jnp.mean(h_matrix), quadratic_forms(h_matrix, weights)
    h_matrix = _hollow(h_matrix)
    return jnp.sum(h_matrix) / (count * (count - 1)), quadratic_forms(h_matrix, weights)


def bootstrap_test(h_matrix: Float[Array, "n n"], *, key: PRNGKeyArray, **options: Any) -> Outcome:
    r"""Test of $E[h] = 0$ from the matrix of a Stein kernel: `bootstrap_tests` of one matrix.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from slicestein.gof.null import bootstrap_test
    >>> features = 1 + jax.random.normal(jax.random.key(0), (100, 3))
    >>> bool(bootstrap_test(features @ features.T, key=jax.random.key(1)).pvalue < 0.05)
    True
    """
    return bootstrap_tests([h_matrix], key=key, **options)[0]


@functools.partial(jax.jit, static_argnames=("kind", "num_draws", "num_chains"))
def bootstrap_tests(
    h_matrices: Sequence[Float[Array, "n n"]],
    *,
    key: PRNGKeyArray,
    kind: Kind = "rademacher",
    num_draws: int = 1000,
    num_chains: int = 1,
    flip_probability: float | Float[Array, ""] | None = None,
) -> list[Outcome]:
    r"""Tests of $E[h] = 0$, one per matrix, all with the same bootstrap weights.

    Parameters
    ----------
    h_matrices
        Values h(x_i, x_j), (N, N), rows in order of time for ``"dependent"``.
    kind, num_chains, flip_probability
        As in :func:`bootstrap_weights`. ``"dependent"`` gives the V-statistic and keeps the diagonal in every
        draw; the others give the U-statistic and leave it out.
    num_draws
        Number of bootstrap draws B.

    Notes
    -----
    Cost: O(B N^2) time per matrix, as one product, and O(N^2 + B N) memory.
    """
    first = h_matrices[0]
    weights = bootstrap_weights(
        kind,
        key,
        num_draws,
        first.shape[0],
        num_chains=num_chains,
        flip_probability=flip_probability,
        dtype=first.dtype,
    )
    pairs = [statistic_and_draws(h, weights, FORMS[kind]) for h in h_matrices]
    return [Outcome(statistic, draws, pvalue(statistic, draws)) for statistic, draws in pairs]


@jax.jit
def largest(outcomes: Sequence[Outcome]) -> tuple[Outcome, Float[Array, " k"]]:
    """The largest of several statistics, each in standard deviations of its null, and all of them.

    The nulls must have been drawn with the same weights: the largest value of each draw is then a draw of the largest.
    """
    draws = jnp.stack([outcome.null_distribution for outcome in outcomes])
    mean, spread = draws.mean(1), draws.std(1)
    values = (jnp.stack([outcome.statistic for outcome in outcomes]) - mean) / spread
    highest = ((draws - mean[:, None]) / spread[:, None]).max(0)
    return Outcome(values.max(), highest, pvalue(values.max(), highest)), values


# --- limits ------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="num_draws")
def eigenvalue_null(h_matrix: Float[Array, "n n"], key: PRNGKeyArray, num_draws: int = 1000) -> Float[Array, " b"]:
    r"""Draws of U under the null from its weighted chi-square limit (label "eq: Asymptotic maxSKSD q=p").

    $$
    \frac1N \sum_j c_j (Z_j^2 - 1), \qquad c_j = \lambda_j / (N - 1),
    $$

    with $\lambda_j$ the eigenvalues of the matrix *without its diagonal and not centred*. Not centred,
    because a Stein kernel has mean zero under the null in each argument: centring would only remove a part of
    the sample that belongs there (it is needed for MMD, whose kernel has a mean). Without its diagonal, because
    $\sum_j c_j^2$ then estimates $E h(x, x')^2$ without bias; the diagonal would add
    $E h(x, x)^2 / N$, which is not small when D is large. These are the draws of a wild bootstrap with
    Gaussian weights in place of signs.

    Notes
    -----
    Cost: O(N^3) for the eigenvalues, O(B N) for the draws.
    """
    count = h_matrix.shape[0]
    weights = jnp.linalg.eigvalsh(_hollow(h_matrix)) / (count - 1)
    z = jax.random.normal(key, (num_draws, count), h_matrix.dtype)
    return (z**2 - 1) @ weights / count


def eigenvalue_test(h_matrix: Float[Array, "n n"], key: PRNGKeyArray, num_draws: int = 1000) -> Outcome:
    """Test of $E[h] = 0$ with the asymptotic null."""
    count = h_matrix.shape[0]
    statistic = _hollow(h_matrix).sum() / (count * (count - 1))
    draws = eigenvalue_null(h_matrix, key, num_draws)
    return Outcome(statistic, draws, pvalue(statistic, draws))


def gaussian_draws(
    features: Float[Array, "n f"], key: PRNGKeyArray, num_draws: int, *, centred: bool
) -> Float[Array, "b f"]:
    r"""Draws of $\sqrt N$ times the mean feature under the null: normal, with the features' covariance.

    The covariance is that of the samples (divisor N - 1) if ``centred``, and the second moment if not. It is
    never formed, nor factorised by eigenvalues: with $R^\top R = F^\top F$, normal rows times R have the
    covariance $F^\top F$, whatever its rank. R is F itself when it has fewer rows than columns, and comes
    from a QR decomposition otherwise.

    Notes
    -----
    Cost: O((N + B) F min(N, F)).
    """
    count = features.shape[0]
    scaled = (features - features.mean(0) if centred else features) / math.sqrt(count - centred)
    root = scaled if count <= features.shape[1] else jnp.linalg.qr(scaled, mode="r")
    return jax.random.normal(key, (num_draws, root.shape[0]), features.dtype) @ root


def sigma_h(h_matrix: Float[Array, "n n"]) -> Float[Array, ""]:
    r"""Standard deviation of $\sqrt N U$ when samples and model differ.

    $$
    \sigma_h^2 = 4 \operatorname{Var}_i \Big( \frac1{N - 1} \sum_{j \ne i} h_{ij} \Big)
    $$

    Differs from the paper: the factor 4, from the two arguments of h, is missing there.
    """
    return 2 * jnp.std(_hollow(h_matrix).sum(1) / (h_matrix.shape[0] - 1), ddof=1)


def power_h1(h_matrix: Float[Array, "n n"], threshold: float | Float[Array, ""]) -> Float[Array, ""]:
    r"""Estimated probability that U of a new sample of this size exceeds a threshold.

    $$
    \Phi\big( \sqrt N (U - threshold) / \sigma_h \big)
    $$

    Parameters
    ----------
    h_matrix
        Stein kernel between samples that differ from the model, (N, N).
    threshold
        Critical value of U: :func:`critical_value` of its null.
    """
    count = h_matrix.shape[0]
    u = jnp.sum(_hollow(h_matrix)) / (count * (count - 1))
    return jax.scipy.stats.norm.cdf(math.sqrt(count) * (u - threshold) / sigma_h(h_matrix))


def _hollow(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    return jnp.fill_diagonal(matrix, 0, inplace=False)
