"""The main job in a minute, on a posterior that is known exactly.

A linear regression has 50 coefficients. One sampler draws from its posterior; another one explores a single
coefficient too timidly (80% of its spread), which no trace plot shows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from slicestein.gof.door import gof_test
from slicestein.report import write_report

DIM, DRAWS, WRONG, TIMIDITY = 50, 2000, 17, 0.8
KEY = 0


class Posterior(NamedTuple):
    """A Gaussian posterior."""

    mean: Float[np.ndarray, " d"]
    precision: Float[np.ndarray, "d d"]

    def score(self, x: Any) -> Any:
        """Score of a batch, (N, D) -> (N, D)."""
        return -(x - self.mean) @ self.precision

    def draw(self, num: int, *, seed: int) -> Float[np.ndarray, "n d"]:
        """Independent draws."""
        root = np.linalg.cholesky(np.linalg.inv(self.precision))
        return self.mean + np.random.default_rng(seed).standard_normal((num, len(self.mean))) @ root.T


def posterior() -> Posterior:
    """The posterior of the coefficients, given 200 simulated observations."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal((200, DIM)) * np.exp(rng.normal(size=DIM))  # predictors on different scales
    outcome = design @ rng.standard_normal(DIM) + rng.standard_normal(200)
    precision = design.T @ design + np.eye(DIM)
    return Posterior(np.linalg.solve(precision, design.T @ outcome), precision)


def score(x: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Score of the demonstration's posterior, for ``--target slicestein._cli.demo:score --target-kind score``."""
    return posterior().score(x)


def timid_draws(model: Posterior, num: int = DRAWS) -> Float[np.ndarray, "n d"]:
    """Draws with too little spread in one coefficient."""
    x = model.draw(num, seed=2)
    x[:, WRONG] = model.mean[WRONG] + TIMIDITY * (x[:, WRONG] - model.mean[WRONG])
    return x


def reports(out: Path) -> dict[Path, str]:
    """The files that `run` writes to a folder, each with what it is about."""
    return {out / "exact.html": "exact sampler", out / "report.html": f"sampler that is timid in beta[{WRONG}]"}


def run(out: Path, show: Callable[[str], Any] = print) -> None:
    """Test both samplers, show the verdicts, and write a report of each to the folder ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    model = posterior()
    names = [f"beta[{i}]" for i in range(DIM)]
    samplers = ((model.draw(DRAWS, seed=1), ("auto",)), (timid_draws(model), ("ksd", "auto")))
    for (path, title), (x, methods) in zip(reports(out).items(), samplers, strict=True):
        show(f"\n== {title}")
        for method in methods:
            result = gof_test(x, model.score, key=KEY, names=names, method=method)
            show(result.summary())
        write_report(result, path, x=x, score=model.score, title=title.capitalize(), settings={"key": KEY})
        show(f"report: {path}")
