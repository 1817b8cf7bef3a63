"""The pictures of docs/gallery.md and of the pages it leads to: `python examples/gallery.py`, a minute on two cores.

Each function draws one, into docs/figures/gallery-<name>.png; names of some draw those alone.
"""

import sys
from pathlib import Path

import jax
import matplotlib
import numpy as np
import optax
from energy_model import draw, train

import slicestein as ss

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"


def parameters() -> plt.Figure:
    """Four chains of a posterior with eight parameters: one is explored too timidly, one is off."""
    rng = np.random.default_rng(0)
    covariance = 0.7 * np.ones((8, 8)) + 0.3 * np.eye(8)
    x = rng.standard_normal((4, 500, 8)) @ np.linalg.cholesky(covariance).T
    x[..., 5] *= 0.85
    x[..., 2] += 0.2
    names = [f"beta[{i}]" for i in range(8)]
    result = ss.gof_test(x, -x @ np.linalg.inv(covariance), key=0, names=names)
    return ss.plot.forest(result)[0].figure


def null() -> plt.Figure:
    """One coordinate of fifty is too narrow: the statistic beside draws of what it would be if nothing were wrong."""
    x = np.random.default_rng(0).standard_normal((2000, 50))
    x[:, 17] *= 0.8
    fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
    ss.plot.null_distribution(ss.gof_test(x, -x, key=0), ax)
    return fig


def steps() -> plt.Figure:
    """Langevin dynamics with the same number of gradients: a short step is slow, a long one biased."""
    variances = np.linspace(0.2, 1, 10)
    score = lambda x: -x / variances

    def langevin(step: float) -> np.ndarray:
        rng = np.random.default_rng(1)
        x, kept = np.sqrt(variances) * rng.standard_normal((4, 10)), []
        for _ in range(5000):
            x = x + step * score(x) + np.sqrt(2 * step) * rng.standard_normal(x.shape)
            kept.append(x)
        return np.stack(kept, axis=1)

    sizes = [0.003, 0.01, 0.03, 0.1, 0.2]
    ranked = {one.name: one for one in ss.quality.compare({str(h): langevin(h) for h in sizes}, score, key=0)}
    values = np.array([(ranked[str(h)].discrepancy, ranked[str(h)].standard_error) for h in sizes])
    fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
    ax.errorbar(sizes, values[:, 0], 2 * values[:, 1], marker="o", capsize=3, color=BLUE)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xscale="log", xlabel="step size", ylabel="discrepancy, ± 2 s.e.")
    return fig


def particles() -> plt.Figure:
    """A hundred particles of a standard normal: what is left of its variance as the dimension grows."""
    dims, methods = [2, 5, 10, 20, 50], {"sliced SVGD": (ss.sliced_svgd, BLUE), "SVGD": (ss.svgd, ORANGE)}
    fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
    for name, (method, color) in methods.items():
        found = []
        for dim in dims:
            start = 2 + jax.random.normal(jax.random.key(0), (100, dim))
            found.append(
                ss.run(method(lambda x: -x, optax.adam(0.05)), start, 1000, progress=False).particles.var(0).mean()
            )
        ax.plot(dims, found, "o-", color=color, label=name)
    ax.axhline(1, color=GREY, linestyle="--", label="the target")
    ax.set(xscale="log", xlabel="dimension", ylabel="variance of the particles", ylim=(0, 1.15))
    ax.set_xticks(dims, dims)
    ax.minorticks_off()
    ax.legend(frameon=False)
    return fig


def training() -> plt.Figure:
    """Points in the plane, and the density of a network that was fitted to them without its constant."""
    return draw(*train())


PICTURES = {picture.__name__: picture for picture in (parameters, null, steps, particles, training)}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]().savefig(FIGURES / f"gallery-{name}.png", dpi=110)
        print(f"docs/figures/gallery-{name}.png")
