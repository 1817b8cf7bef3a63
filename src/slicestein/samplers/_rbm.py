r"""Gauss-Bernoulli restricted Boltzmann machine: an intractable density with an easy score and Gibbs sampler.

With visible $x \in \mathbb R^D$ and hidden $h \in \{-1, 1\}^H$,

$$
\begin{aligned}
p(x, h) &\propto \exp( \tfrac12 x^\top B h + b^\top x + c^\top h - \tfrac12 |x|^2 ), \\
\log p(x) &= b^\top x - \tfrac12 |x|^2 + \sum_j \log 2 \cosh y_j + \text{const}, \quad y = \tfrac12 B^\top x + c, \\
\nabla \log p(x) &= b - x + \tfrac12 B \tanh y .
\end{aligned}
$$

The model of the goodness-of-fit experiment of Fig. "RBM_All". It is also a mixture of $2^H$ Gaussians of unit
covariance, which makes it exact for small H.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from slicestein import _checks
from slicestein._checks import ArrayLike, InputError

# 2^16 hidden states of 50 visible units are 26 MB in double precision.
MAX_ENUMERATED = 16


class GaussBernoulliRBM(eqx.Module):
    r"""Gauss-Bernoulli RBM with D visible and H hidden units.

    Parameters
    ----------
    B
        Interactions, (D, H).
    b
        Visible biases, (D,).
    c
        Hidden biases, (H,).

    Examples
    --------
    >>> from slicestein.samplers import GaussBernoulliRBM
    >>> model = GaussBernoulliRBM.random(0, visible=5, hidden=3)
    >>> x = model.sample(1, num_chains=100, num_steps=50)
    >>> model.score(x).shape
    (100, 5)
    """

    B: Float[Array, "d h"]
    b: Float[Array, " d"]
    c: Float[Array, " h"]

    def __init__(self, B: Any, b: Any, c: Any):
        self.B = _checks.as_matrix("B", B, columns="H")
        self.b = jnp.asarray(b, self.B.dtype)
        self.c = jnp.asarray(c, self.B.dtype)
        for name, bias, size in (("b", self.b, self.B.shape[0]), ("c", self.c, self.B.shape[1])):
            if bias.shape != (size,):
                raise InputError(f"{name} must have shape ({size},) to match B {self.B.shape}, got {bias.shape}")
        _checks.finite(B=self.B, b=self.b, c=self.c)

    @classmethod
    def random(cls, key: Any, visible: int, hidden: int) -> GaussBernoulliRBM:
        """Draw a model: B uniform on {-1, 1}, b and c standard normal."""
        for_interactions, for_visible, for_hidden = jax.random.split(_checks.as_key(key), 3)
        return cls(
            jax.random.rademacher(for_interactions, (visible, hidden), float),
            jax.random.normal(for_visible, (visible,)),
            jax.random.normal(for_hidden, (hidden,)),
        )

    def perturb(self, key: Any, level: float | Float[Array, ""]) -> GaussBernoulliRBM:
        """The model with independent normal noise of standard deviation ``level`` added to every entry of B."""
        noise = jax.random.normal(_checks.as_key(key), self.B.shape, self.B.dtype)
        return GaussBernoulliRBM(self.B + level * noise, self.b, self.c)

    def log_density(self, x: Float[ArrayLike, " d"]) -> Float[Array, ""]:
        """Log-density of one sample, unnormalised: less ``log_normalizer()`` it integrates to one."""
        y = self._field(x)
        return self.b @ x - 0.5 * x @ x + jnp.sum(jnp.logaddexp(y, -y))

    def score(self, x: Float[ArrayLike, "n d"]) -> Float[Array, "n d"]:
        """Gradient of the log-density at a batch of samples. Cost: O(N D H)."""
        return self.b - x + 0.5 * jnp.tanh(self._field(x)) @ self.B.T

    def hidden_probability(self, x: Float[ArrayLike, "*n d"]) -> Float[Array, "*n h"]:
        """Probability of ``h = 1`` given x, for every hidden unit."""
        return jax.nn.sigmoid(2 * self._field(x))

    def visible_mean(self, h: Float[ArrayLike, "*n h"] | Int[ArrayLike, "*n h"]) -> Float[Array, "*n d"]:
        """Mean of x given h; the covariance is the identity."""
        return self.b + 0.5 * jnp.asarray(h, self.B.dtype) @ self.B.T

    def gibbs_step(self, key: Any, x: Float[ArrayLike, "n d"]) -> Float[Array, "n d"]:
        """One sweep of block Gibbs, h given x and then x given h, of every chain (row). Cost: O(N D H)."""
        return _sweep(self, _checks.as_key(key), x)

    def sample(
        self,
        key: Any,
        num_chains: int,
        num_steps: int,
        *,
        init: Float[ArrayLike, "n d"] | None = None,
    ) -> Float[Array, "n d"]:
        """Draw independent samples: the last state of parallel Gibbs chains, one chain per sample.

        Parameters
        ----------
        key
            Int seed or ``jax.random.key``.
        num_chains
            Number of samples, N.
        num_steps
            Sweeps of every chain; the paper takes 2000. A change of it does not recompile.
        init
            First states, (N, D); standard normal by default.

        Returns
        -------
        Array
            Samples, (N, D). Cost: O(num_steps N D H).
        """
        start_key, chain_key = jax.random.split(_checks.as_key(key))
        if num_steps < 0:
            raise InputError(f"num_steps must not be negative, got {num_steps}")
        shape = (num_chains, self.b.shape[0])
        if init is None:
            x = jax.random.normal(start_key, shape, self.B.dtype)
        else:
            x = _checks.as_matrix("init", init).astype(self.B.dtype)
            if x.shape != shape:
                raise InputError(f"init must have shape {shape}, one row per chain, got {x.shape}")
        return _run(self, chain_key, x, num_steps)

    def log_normalizer(self) -> Float[Array, ""]:
        r"""Log of the integral of the unnormalised density, by enumeration of the hidden states.

        $$
        \tfrac D2 \log 2 \pi + \log \sum_h \exp( c^\top h + \tfrac12 |b + \tfrac12 B h|^2 )
        $$

        Cost: O(2^H D); for H up to 16.
        """
        num_hidden = self.c.shape[0]
        if num_hidden > MAX_ENUMERATED:
            raise InputError(
                f"log_normalizer enumerates 2^H states and takes at most {MAX_ENUMERATED} hidden units, "
                f"got {num_hidden}"
            )
        h = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=num_hidden)), self.B.dtype)
        log_weights = h @ self.c + 0.5 * jnp.sum(self.visible_mean(h) ** 2, axis=1)
        return 0.5 * self.b.shape[0] * math.log(2 * math.pi) + jax.nn.logsumexp(log_weights)

    def _field(self, x: Float[ArrayLike, "*n d"]) -> Float[Array, "*n h"]:
        return 0.5 * jnp.asarray(x) @ self.B + self.c


@jax.jit
def _sweep(model: GaussBernoulliRBM, key: Array, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
    hidden_key, visible_key = jax.random.split(key)
    up = jax.random.bernoulli(hidden_key, model.hidden_probability(x))
    return model.visible_mean(2 * up - 1) + jax.random.normal(visible_key, x.shape, model.B.dtype)


@jax.jit
def _run(model: GaussBernoulliRBM, key: Array, x: Float[Array, "n d"], num_steps: Any) -> Float[Array, "n d"]:
    return lax.fori_loop(0, num_steps, lambda i, x: _sweep(model, jax.random.fold_in(key, i), x), x)
