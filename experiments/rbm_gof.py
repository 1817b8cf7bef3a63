"""Gauss-Bernoulli RBM with perturbed weights (label "fig: RBM_All").

The slices are chosen on states of 200 separate chains during burn-in; 800 samples are tested. With a `fresh` model
every trial draws its own weights and noise; with a `fixed` one all share those of seed 2, as in the authors' code.

    python -m experiments.rbm_gof --preset smoke | quick | paper
"""

import functools
import time

import numpy as np

from experiments import runner
from experiments.gaussian_gof import STYLES, band

LEVELS = (0.0, 0.005, 0.007, 0.009, 0.01, 0.011, 0.012, 0.013, 0.014, 0.016, 0.018)
METHODS = (
    "maxsksd-rg",
    "maxsksd-rg, slices alone",
    "maxsksd-g",
    "ksd",
    "linear-ksd",
    "mmd",
    "fssd-rand",
    "fssd-opt",
    "rff-gaussian",
    "rfsd-l1imq",
)
MODELS = ("fresh", "fixed")
BURN_IN, TRAIN_CHAINS, FIXED_SEED = 2000, 200, 2


def cells(preset: str) -> list[dict]:
    levels, models, trials = {
        "smoke": ((0.05,), MODELS[:1], 1),
        "quick": ((0.0, 0.005, 0.01, 0.014, 0.018), MODELS[:1], 6),
        "paper": (LEVELS, MODELS, 100),
    }[preset]
    burn_in, methods = (50, ("maxsksd-rg", "ksd")) if preset == "smoke" else (BURN_IN, METHODS)
    return [
        {"model": model, "level": level, "seed": seed, "burn_in": burn_in, "methods": list(methods)}
        for seed in range(trials)  # outermost: a run that is stopped has as many of every cell
        for model in models
        for level in levels
    ]


def keys_of(seed: int):
    import jax

    return jax.random.split(jax.random.key(seed), 6)


@functools.lru_cache(maxsize=1)
def samples_of_model(model_seed: int, seed: int, burn_in: int):
    """The model without noise and 1000 of its samples, which all levels share."""
    from slicestein.samplers import GaussBernoulliRBM

    model = GaussBernoulliRBM.random(keys_of(model_seed)[0], 50, 40)
    return model, model.sample(keys_of(seed)[3], 1000, burn_in)


def work(cell: dict) -> dict:
    """All methods on one model."""
    import jax
    import jax.numpy as jnp

    import slicestein as ss

    start = time.perf_counter()
    keys, burn_in = keys_of(cell["seed"]), cell["burn_in"]
    model_seed = cell["seed"] if cell["model"] == "fresh" else FIXED_SEED
    model, y = samples_of_model(model_seed, cell["seed"], burn_in)
    other = model.perturb(keys_of(model_seed)[1], cell["level"])
    x = other.sample(keys[2], 1000, burn_in)
    # Training states: every tenth sweep of separate chains after the first tenth of their burn-in.
    states = [other.sample(keys[4], TRAIN_CHAINS, burn_in // 10)]
    for key in jax.random.split(keys[5], burn_in * 9 // 100):
        states.append(other.sample(key, TRAIN_CHAINS, 10, init=states[-1]))
    train = jnp.concatenate(states)

    results = {}
    common = {"key": cell["seed"], "num_bootstrap": 1000}
    for method in cell["methods"]:
        name, _, alone = method.partition(", ")
        chosen, tested = name, x
        if name == "mmd":
            chosen = ss.gof.MMD(y)
        elif name.startswith("maxsksd"):
            more = {"omnibus": False} if alone else {}
            chosen = ss.gof.MaxSKSD(name.removeprefix("maxsksd-"), train=(train, model.score), steps=60, **more)
            tested = x[:800]
        results[method] = ss.gof_test(tested, model.score, method=chosen, **common).pvalue
    return {"pvalues": results, "seconds": round(time.perf_counter() - start, 2)}


def rates(rows: list[dict], model: str = "fresh") -> dict[tuple[float, str], tuple[float, int]]:
    """Rejection rate at level 0.05 and number of trials, by noise and method."""
    groups: dict[tuple[float, str], list[bool]] = {}
    for row in rows:
        for method, p in row["pvalues"].items() if row["model"] == model else ():
            groups.setdefault((row["level"], method), []).append(p <= 0.05)
    return {key: (float(np.mean(hits)), len(hits)) for key, hits in groups.items()}


def figure(rows: list[dict], path) -> None:
    """A panel for fresh models and one for the fixed model, with bands of 95%."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    for ax, model in zip(axes, MODELS, strict=True):
        found = rates(rows, model)
        for method in METHODS:
            points = sorted((level, *of) for (level, m), of in found.items() if m == method)
            name, _, alone = method.partition(", ")
            colour, dashes, marker = STYLES[name]
            style = {"color": colour, "linestyle": "--" if alone else dashes, "marker": marker, "markersize": 5}
            noise, rate, _ = zip(*points, strict=True)
            low, high = zip(*(band(*of) for _, *of in points), strict=True)
            ax.plot(noise, rate, label=method, **style)
            ax.fill_between(noise, low, high, color=colour, alpha=0.1, linewidth=0)
        ax.axhline(0.05, color="black", linewidth=0.8, linestyle="--")
        ax.set(title=f"{model} model", xlabel="noise added to the weights", ylim=(-0.03, 1.03))
    axes[0].set_ylabel("rejection rate, level 0.05")
    axes[1].legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    fig.savefig(path, dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"rbm_gof-{preset}", cells(preset), work)
    for model in MODELS:
        for (level, method), (rate, count) in sorted(rates(rows, model).items()):
            print(f"{model} model, level {level:<6} {method:<26} {rate:.2f} of {count}")
    if preset == "paper":
        figure(rows, runner.FIGURES / f"rbm_gof-{preset}.png")


if __name__ == "__main__":
    main()
