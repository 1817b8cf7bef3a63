r"""Null distributions: what a discrepancy would be if the samples came from the model.

Under the null, with the Stein kernel h and eigenvalues $c_j$ of its integral operator
(label "eq: Asymptotic maxSKSD q=p"),

$$
N U \to \sum_j c_j (Z_j^2 - 1), \qquad N V \to \sum_j c_j Z_j^2, \qquad Z_j \sim N(0, 1).
$$

The bootstrap draws such values without the eigenvalues, as quadratic forms $\sum_{ij} w_i w_j h_{ij}$ in
random weights (label "eq: Bootstrap samples"). Rows may be single samples or blocks of consecutive ones; the
statistic is the same form with weights one. Each kind of weights belongs to one form:

| kind | weights | form | for |
| --- | --- | --- | --- |
| wild | signs | U, without the diagonal | independent samples |
| multinomial | counts less their mean | U | independent samples |
| eigenvalues | normal | U | the limit above, without the eigenvalues |
| dependent | signs that persist in time | V, with the diagonal | Markov chains |
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from slicestein._checks import InputError

Kind = Literal["wild", "multinomial", "eigenvalues", "dependent"]
KINDS: tuple[str, ...] = get_args(Kind)

# Draws whose weights agree with those of the statistic are equal to it but for rounding.
TIE = {"float32": 1e-5, "float64": 1e-10}
# Rows of a symmetric matrix at once: small ones leave out more of its other half, large ones are faster products.
FORM_ROWS = 128
# Relative spread that sums in single precision can have by rounding.
SPREADLESS = 1e-6


class Outcome(NamedTuple):
    """A statistic, draws from its null distribution and the p-value."""

    statistic: float
    null_distribution: Float[np.ndarray, " b"]
    pvalue: float


def outcome(statistic: float, draws: Float[np.ndarray, " b"]) -> Outcome:
    """The outcome of a test that rejects when the statistic is large."""
    return Outcome(float(statistic), np.asarray(draws), pvalue(statistic, draws))


def require_finite(statistic: float, draws: Float[np.ndarray, "..."]) -> None:
    """Raise where a statistic or its null has overflowed: comparisons with NaN would be taken for evidence."""
    if not (np.isfinite(statistic) and np.isfinite(draws).all()):
        raise InputError(
            "the statistic or its null is not finite: samples or scores are too large to be squared: change the units "
            "of the parameters, or drop what lies far away"
        )


def pvalue(statistic: float, draws: Float[np.ndarray, " b"]) -> float:
    r"""$(1 + \#\{draws \ge statistic\}) / (1 + B)$: never 0, and valid at every B. A tie but for rounding counts."""
    require_finite(statistic, draws)
    tie = TIE.get(np.asarray(draws).dtype.name, 1e-10) * abs(statistic)
    return (1 + int(np.sum(draws >= statistic - tie))) / (1 + len(draws))


def critical_value(draws: Float[np.ndarray, " b"], alpha: float) -> float:
    """The value a statistic must exceed for ``pvalue <= alpha``; infinite if B is too small for any to do so."""
    allowed = math.floor(alpha * (len(draws) + 1) + 1e-9)  # the constant mends 0.05 * 1000 < 50
    return float(np.sort(draws)[len(draws) - allowed]) if allowed >= 1 else math.inf


# --- bootstrap ---------------------------------------------------------------------------------


def has_diagonal(kind: Kind) -> bool:
    """Whether the quadratic forms of this kind keep the diagonal: V, not U."""
    return kind == "dependent"


def are_signs(kind: Kind) -> bool:
    """Whether the weights are signs: then the diagonal adds the same constant to every form."""
    return kind in ("wild", "dependent")


def draw_weights(
    kind: Kind,
    rng: np.random.Generator,
    num_bootstrap: int,
    lengths: tuple[int, ...],
    flip_probability: float = 0.5,
) -> Float[np.ndarray, "b n"]:
    """Weights of B bootstrap draws for the rows of several chains, one after the other, in single precision.

    Parameters
    ----------
    lengths
        Number of rows of every chain. Only ``"dependent"`` sees where chains begin.
    flip_probability
        Of ``"dependent"``: how often signs change from one row to the next, in (0, 1/2].

    Notes
    -----
    Multinomial counts sum to N, so that draws see the doubly centred matrix only, which makes the test reject too
    often below N = 50 or so. The paper's formula centres counts, not their shares, by 1/N, and then rejects nothing.

    Cost: O(B N) time and memory.
    """
    shape = (num_bootstrap, sum(lengths))
    if kind == "multinomial":
        counts = rng.multinomial(shape[1], np.full(shape[1], 1 / shape[1]), size=num_bootstrap)
        return (counts - 1).astype(np.float32)
    if kind == "eigenvalues":
        return rng.standard_normal(shape, np.float32)
    if kind == "wild":
        return sign_chains(rng.random(shape, np.float32) < 0.5)
    flips = rng.random(shape, np.float32) < flip_probability
    begins = np.cumsum([0, *lengths[:-1]])
    flips[:, begins] = rng.random((num_bootstrap, len(lengths)), np.float32) < 0.5
    return sign_chains(np.logical_xor.accumulate(flips, axis=1))


def sign_chains(negative: np.ndarray) -> Float[np.ndarray, "b n"]:
    """Signs, -1 where ``negative``."""
    return np.where(negative, np.float32(-1), np.float32(1))


def quadratic_forms(
    matrix: Float[np.ndarray, "n n"], weights: Float[np.ndarray, "b n"], *, diagonal: bool
) -> Float[np.ndarray, " b"]:
    r"""$w_b^\top H w_b$ for every row of weights and a symmetric H, with its diagonal or without.

    Cost: half of a (B, N) x (N, N) product, O(B) memory times the rows of a block.
    """
    forms = np.zeros(len(weights), np.result_type(matrix, weights))
    for start in range(0, len(matrix), FORM_ROWS):
        rows, after = slice(start, start + FORM_ROWS), slice(start + FORM_ROWS, None)
        own = matrix[rows, rows] if diagonal else _hollow(matrix[rows, rows])
        # The diagonal may be all there is: subtracted afterwards it would leave its rounding.
        product = weights[:, rows] @ own + 2 * (weights[:, after] @ matrix[after, rows])
        forms += np.einsum("bn,bn->b", product, weights[:, rows])
    return forms


def matrix_test(
    h_matrix: Float[np.ndarray, "n n"],
    rng: np.random.Generator,
    num_bootstrap: int = 1000,
    *,
    kind: Kind = "wild",
    lengths: tuple[int, ...] | None = None,
    flip_probability: float = 0.5,
) -> Outcome:
    r"""Test of $E[h] = 0$ from the matrix of a Stein kernel, rows in order of time.

    Cost: O(B N^2) time in matrix products, and O(N^2 + B N) memory.

    Examples
    --------
    >>> import numpy as np
    >>> from slicestein.gof.null import matrix_test
    >>> rng = np.random.default_rng(0)
    >>> features = 1 + rng.standard_normal((100, 3))
    >>> matrix_test(features @ features.T, rng).pvalue < 0.05
    True
    """
    count, diagonal = len(h_matrix), has_diagonal(kind)
    weights = draw_weights(kind, rng, num_bootstrap, lengths or (count,), flip_probability)
    weights = np.concatenate([np.ones((1, count), weights.dtype), weights]).astype(h_matrix.dtype)
    forms = quadratic_forms(h_matrix, weights, diagonal=diagonal) / (count * (count if diagonal else count - 1))
    return outcome(forms[0], forms[1:])


# --- several statistics ------------------------------------------------------------------------


def standardized(values: Float[np.ndarray, "b *k"]) -> Float[np.ndarray, "b *k"]:
    """Columns in standard deviations of their null. The first row is the statistic and counts as a draw.

    So the level is right at every B. A null without spread, but for rounding, says nothing: its column becomes zero.
    """
    deviations = values - values.mean(0)
    spread = deviations.std(0)
    return deviations / np.where(spread > SPREADLESS * np.abs(values).max(0), spread, np.inf)


def normal_scores(forms: Float[np.ndarray, "b *k"]) -> Float[np.ndarray, "b *k"]:
    """Columns of non-negative quadratic forms, made nearly normal and standardised.

    The cube root of a chi-square variable is nearly normal (Wilson and Hilferty), whatever its degrees of freedom, so
    that the largest of several forms is not always the one with the longest tail.
    """
    return standardized(np.cbrt(np.maximum(forms, 0)))


# --- limits ------------------------------------------------------------------------------------


def eigenvalue_null(
    h_matrix: Float[np.ndarray, "n n"], rng: np.random.Generator, num_bootstrap: int = 1000
) -> Float[np.ndarray, " b"]:
    r"""Draws of U under the null from its weighted chi-square limit (label "eq: Asymptotic maxSKSD q=p").

    $$
    \frac1N \sum_j c_j (Z_j^2 - 1), \qquad c_j = \lambda_j / (N - 1),
    $$

    with $\lambda_j$ the eigenvalues of the matrix *without its diagonal and not centred*. Not centred,
    because a Stein kernel has mean zero under the null in each argument: centring would only remove a part of
    the sample that belongs there (it is needed for MMD, whose kernel has a mean). Without its diagonal, because
    $\sum_j c_j^2$ then estimates $E h(x, x')^2$ without bias; the diagonal would add
    $E h(x, x)^2 / N$, which is not small when D is large. These are the draws of a bootstrap with
    Gaussian weights in place of signs (``"eigenvalues"`` above).

    Notes
    -----
    Cost: O(N^3) for the eigenvalues, O(B N) for the draws.
    """
    count = len(h_matrix)
    weights = np.linalg.eigvalsh(_hollow(h_matrix)) / (count - 1)
    return (rng.standard_normal((num_bootstrap, count)) ** 2 - 1) @ weights / count


def gaussian_draws(
    features: Float[np.ndarray, "n f"], rng: np.random.Generator, num_bootstrap: int, *, centred: bool
) -> Float[np.ndarray, "b f"]:
    r"""Draws of $\sqrt N$ times the mean feature under the null: normal, with the features' covariance.

    The covariance is that of the samples (divisor N - 1) if ``centred``, and the second moment if not. It is
    never formed, nor factorised by eigenvalues: with $R^\top R = F^\top F$, normal rows times R have the
    covariance $F^\top F$, whatever its rank. R is F itself when it has fewer rows than columns, and comes
    from a QR decomposition otherwise.

    Notes
    -----
    Cost: O((N + B) F min(N, F)).
    """
    count = len(features)
    scaled = (features - features.mean(0) if centred else features) / math.sqrt(count - centred)
    root = scaled if count <= features.shape[1] else np.linalg.qr(scaled, mode="r")
    return rng.standard_normal((num_bootstrap, len(root))).astype(features.dtype) @ root


def sigma_h(h_matrix: Float[np.ndarray, "n n"]) -> float:
    r"""Standard deviation of $\sqrt N U$ when samples and model differ.

    $$
    \sigma_h^2 = 4 \operatorname{Var}_i \Big( \frac1{N - 1} \sum_{j \ne i} h_{ij} \Big)
    $$

    Differs from the paper: the factor 4, from the two arguments of h, is missing there.
    """
    return float(2 * np.std(_hollow(h_matrix).sum(1) / (len(h_matrix) - 1), ddof=1))


def power_h1(h_matrix: Float[np.ndarray, "n n"], threshold: float) -> float:
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
    count = len(h_matrix)
    u = np.sum(_hollow(h_matrix)) / (count * (count - 1))
    z = math.sqrt(count) * (u - threshold) / sigma_h(h_matrix)
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _hollow(matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    hollow = matrix.copy()
    np.fill_diagonal(hollow, 0)
    return hollow
