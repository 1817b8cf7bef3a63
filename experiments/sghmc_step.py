"""Choosing the step size of SGHMC by a discrepancy (appendix "Sampler Convergence").

Target: a 15-dimensional Gaussian with a random covariance. 100 parallel chains, 2000 steps of burn-in, then every fifth
state until there are 1500. Step sizes are learning rates, the square of the time step, as in Chen et al. (2014). A
discrepancy must be the same function for all candidates: slices and coordinates are chosen on the second half of the
burn-in of all step sizes together. The truth is the KL divergence of a fitted Gaussian.

    python -m experiments.sghmc_step --preset smoke | quick | paper
"""

import numpy as np

from experiments import runner

DIM, CHAINS, BURN_IN, THIN, DRAWS, FRICTION = 15, 100, 2000, 5, 15, 1.0
MEASURES = ("kl", "ksd", "maxsksd-g", "maxsksd-rg")
STEP_SIZES = (0.002, 0.004, 0.006, 0.008, 0.01, 0.013, 0.015, 0.017)


def cells(preset: str) -> list[dict]:
    return [{"seed": seed} for seed in range({"smoke": 1, "quick": 3, "paper": 10}[preset])]


def target(seed: int) -> np.ndarray:
    """A covariance with eigenvalues between 0.01 and 1, randomly oriented: so stiff that large steps are biased."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    return rotation @ np.diag(np.exp(rng.uniform(np.log(0.01), 0, DIM))) @ rotation.T


def work(cell: dict) -> dict:
    import jax
    import jax.numpy as jnp

    import slicestein as ss
    from slicestein.samplers import SGHMC

    covariance = target(cell["seed"])
    precision = jnp.asarray(np.linalg.inv(covariance))
    score_fn = lambda x: -x @ precision
    keys = jax.random.split(jax.random.key(cell["seed"]), 3)
    start = jax.random.normal(keys[0], (CHAINS, DIM))
    burn_in, samples = [], []
    for step_size in STEP_SIZES:
        sampler = SGHMC(score_fn, step_size**0.5, FRICTION)
        states = sampler.sample(keys[1], start, BURN_IN // 10, thin=10)
        burn_in.append(states[BURN_IN // 20 :].reshape(-1, DIM))
        samples.append(sampler.sample(keys[2], states[-1], DRAWS, thin=THIN).reshape(-1, DIM))

    train = jnp.concatenate(burn_in)
    coordinates = ss.whiten(train, score_fn)
    slices = {
        optimize: ss.fit_slices(
            *coordinates(train, score_fn(train)), key=cell["seed"], optimize=optimize, num_slices=DIM, steps=0
        ).slices
        for optimize in ("g", "rg")
    }
    return {
        "curves": {
            "kl": [kl_of_fitted_gaussian(x, covariance) for x in samples],
            "ksd": [float(ss.ksd(x, score_fn)) for x in samples],
        }
        | {
            f"maxsksd-{name}": [float(ss.sksd(*coordinates(x, score_fn(x)), chosen)) for x in samples]
            for name, chosen in slices.items()
        }
    }


def kl_of_fitted_gaussian(x, covariance: np.ndarray) -> float:
    """KL divergence from the target N(0, covariance) of a Gaussian with the moments of the samples."""
    mean, ratio = np.mean(x, axis=0), np.linalg.solve(covariance, np.cov(np.asarray(x).T))
    shift = mean @ np.linalg.solve(covariance, mean)
    return 0.5 * float(np.trace(ratio) + shift - DIM - np.linalg.slogdet(ratio)[1])


def choices(rows: list[dict]) -> dict[int, dict[str, float]]:
    """The step size of least discrepancy, by seed and measure."""
    return {r["seed"]: {m: STEP_SIZES[int(np.argmin(r["curves"][m]))] for m in MEASURES} for r in rows}


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(MEASURES), figsize=(14, 3.3), layout="constrained")
    for ax, measure in zip(axes, MEASURES, strict=True):
        for row in rows[:3]:
            ax.plot(STEP_SIZES, row["curves"][measure], marker="o", label=f"seed {row['seed']}")
        ax.set(title=measure, xlabel="step size")
    axes[0].legend(frameon=False)
    fig.savefig(path, dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = sorted(runner.run(f"sghmc_step-{preset}", cells(preset), work), key=lambda r: r["seed"])
    found = choices(rows)
    for seed, chosen in found.items():
        print(f"seed {seed}: " + ", ".join(f"{m} {step:g}" for m, step in chosen.items()))
    for measure in MEASURES[1:]:
        gaps = [abs(STEP_SIZES.index(c[measure]) - STEP_SIZES.index(c["kl"])) for c in found.values()]
        print(f"{measure}: within one grid step of KL on {sum(gap <= 1 for gap in gaps)} of {len(gaps)} seeds")
    if preset != "smoke":
        figure(rows, runner.FIGURES / f"sghmc_step-{preset}.png")


if __name__ == "__main__":
    main()
