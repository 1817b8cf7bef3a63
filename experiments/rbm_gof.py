"""Gauss-Bernoulli RBM with perturbed weights (label "fig: RBM_All").

The slices are chosen on states of 200 separate chains during burn-in; 800 samples are tested. With a `fresh` model
every trial draws its own weights and noise; with a `fixed` one all share those of seed 2, as in the authors' code.

    python -m experiments.rbm_gof --preset smoke | quick | claims | paper
"""

import time

import numpy as np

from experiments import runner

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
BURN_IN, TRAIN_CHAINS = 2000, 200


def cells(preset: str) -> list[dict]:
    levels, trials = {
        "smoke": ((0.05,), 1),
        "quick": ((0.0, 0.005, 0.01, 0.014, 0.018), 6),
        "claims": ((0.01,), 100),
        "paper": (LEVELS, 100),
    }[preset]
    burn_in, methods = (50, ("maxsksd-rg", "ksd")) if preset == "smoke" else (BURN_IN, METHODS)
    return [
        {"model": model, "level": level, "seed": seed, "burn_in": burn_in, "methods": list(methods)}
        for model in (("fresh",) if preset in ("smoke", "quick") else ("fresh", "fixed"))
        for level in levels
        for seed in range(trials)
    ]


def work(cell: dict) -> dict:
    """All methods on one model."""
    import jax
    import jax.numpy as jnp

    import slicestein as ss
    from slicestein.samplers import GaussBernoulliRBM

    start = time.perf_counter()
    keys = jax.random.split(jax.random.key(cell["seed"]), 6)
    model_keys = keys if cell["model"] == "fresh" else jax.random.split(jax.random.key(2), 6)
    model = GaussBernoulliRBM.random(model_keys[0], 50, 40)
    other = model.perturb(model_keys[1], cell["level"])
    burn_in = cell["burn_in"]
    x = other.sample(keys[2], 1000, burn_in)
    y = model.sample(keys[3], 1000, burn_in)
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
    groups: dict[tuple[float, str], list[bool]] = {}
    for row in rows:
        for method, p in row["pvalues"].items() if row["model"] == model else ():
            groups.setdefault((row["level"], method), []).append(p <= 0.05)
    return {key: (float(np.mean(hits)), len(hits)) for key, hits in groups.items()}


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = rates(rows)
    fig, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for i, method in enumerate(METHODS):
        points = sorted((level, rate) for (level, m), (rate, _) in found.items() if m == method)
        width = 2.4 if method.startswith("maxsksd") else 1.0
        ax.plot(*zip(*points, strict=True), marker="oXs^Dv<>pP"[i], label=method, linewidth=width)
    ax.set(xlabel="noise added to the weights", ylabel="rejection rate, level 0.05", ylim=(-0.03, 1.03))
    ax.legend(frameon=False, fontsize=8)
    fig.savefig(path, dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0], ("smoke", "quick", "claims", "paper"))
    rows = runner.run(f"rbm_gof-{preset}", cells(preset), work)
    for model in ("fresh", "fixed"):
        for (level, method), (rate, count) in sorted(rates(rows, model).items()):
            print(f"{model} model, level {level:<6} {method:<26} {rate:.2f} of {count}")
    if preset in ("quick", "paper"):
        figure(rows, runner.FIGURES / f"rbm_gof-{preset}.png")


if __name__ == "__main__":
    main()
