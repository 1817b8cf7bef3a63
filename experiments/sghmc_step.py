"""Choosing the step size of SGHMC by a discrepancy (appendix "Sampler Convergence").

Target: a 15-dimensional Gaussian with a random covariance. 100 parallel chains, 2000 steps of burn-in during which the
slices are chosen, then every fifth state until there are 1500. The truth is the KL divergence of a fitted Gaussian.

    python -m experiments.sghmc_step --preset smoke | quick | paper
"""

import numpy as np

from experiments import runner

DIM, CHAINS, BURN_IN, THIN, DRAWS, FRICTION = 15, 100, 2000, 5, 15, 1.0
MEASURES = ("kl", "ksd", "maxsksd-g", "maxsksd-rg")


def cells(preset: str) -> list[dict]:
    steps = (0.01,) if preset == "smoke" else (0.002, 0.004, 0.006, 0.008, 0.01, 0.013, 0.015, 0.017)
    return [{"seed": seed, "step_size": step} for seed in range(1 if preset == "smoke" else 3) for step in steps]


def target(seed: int) -> np.ndarray:
    """A covariance with eigenvalues between 0.2 and 2 in a random orientation."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    return rotation @ np.diag(rng.uniform(0.2, 2.0, DIM)) @ rotation.T


def work(cell: dict) -> dict:
    import jax
    import jax.numpy as jnp

    import slicestein as ss
    from slicestein.samplers import SGHMC
    from slicestein.whitening import whiten

    covariance = target(cell["seed"])
    precision = jnp.asarray(np.linalg.inv(covariance))
    score_fn = lambda x: -x @ precision
    keys = jax.random.split(jax.random.key(cell["seed"]), 3)
    sampler = SGHMC(score_fn, cell["step_size"], FRICTION)
    start = jax.random.normal(keys[0], (CHAINS, DIM))
    states = sampler.sample(keys[1], start, BURN_IN // 10 + DRAWS * THIN, thin=10)
    train = states[BURN_IN // 20 : BURN_IN // 10].reshape(-1, DIM)  # second half of the burn-in
    x = sampler.sample(keys[2], states[BURN_IN // 10 - 1], DRAWS, thin=THIN).reshape(-1, DIM)

    mean, fitted = np.mean(x, axis=0), np.cov(np.asarray(x).T)
    ratio = np.linalg.solve(covariance, fitted)
    shift = mean @ np.linalg.solve(covariance, mean)
    found = {"kl": 0.5 * float(np.trace(ratio) + shift - DIM - np.linalg.slogdet(ratio)[1])}
    found["ksd"] = float(ss.ksd(x, score_fn))
    coordinates = whiten(train, score_fn(train))
    for optimize in ("g", "rg"):
        fit = ss.fit_slices(*coordinates(train, score_fn(train)), key=cell["seed"], optimize=optimize, steps=0)
        found[f"maxsksd-{optimize}"] = float(ss.sksd(*coordinates(x, score_fn(x)), fit.slices))
    return found


def choices(rows: list[dict]) -> dict[int, dict[str, float]]:
    """The step size of least discrepancy, by seed and measure."""
    seeds = sorted({r["seed"] for r in rows})
    return {
        seed: {m: min((r for r in rows if r["seed"] == seed), key=lambda r, m=m: r[m])["step_size"] for m in MEASURES}
        for seed in seeds
    }


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(MEASURES), figsize=(14, 3.3), layout="constrained")
    for ax, measure in zip(axes, MEASURES, strict=True):
        for seed in sorted({r["seed"] for r in rows}):
            points = sorted((r["step_size"], r[measure]) for r in rows if r["seed"] == seed)
            ax.plot(*zip(*points, strict=True), marker="o", label=f"seed {seed}")
        ax.set(title=measure, xlabel="step size")
    axes[0].legend(frameon=False)
    fig.savefig(path, dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"sghmc_step-{preset}", cells(preset), work)
    for seed, chosen in choices(rows).items():
        print(f"seed {seed}: " + ", ".join(f"{m} {step:g}" for m, step in chosen.items()))
    if preset != "smoke":
        figure(rows, runner.FIGURES / f"sghmc_step-{preset}.png")


if __name__ == "__main__":
    main()
