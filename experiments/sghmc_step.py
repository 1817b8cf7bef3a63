"""Choosing the step size of SGHMC by a discrepancy (appendix "Sampler Convergence").

Targets: 15-dimensional Gaussians with random covariances, of condition numbers 1 to 10000; the smallest eigenvalue is
the same, so that long steps are as biased in all. 100 parallel chains, 2000 steps of burn-in, then every fifth state
until there are 1500. Step sizes are learning rates, the square of the time step, as in Chen et al. (2014). A
discrepancy must be the same function for all candidates: slices and coordinates are chosen on the second half of the
burn-in of all step sizes together. The truth is the KL divergence of a fitted Gaussian.

    python -m experiments.sghmc_step --preset smoke | quick | paper
"""

import numpy as np

from experiments import runner

DIM, CHAINS, BURN_IN, THIN, DRAWS, FRICTION = 15, 100, 2000, 5, 15, 1.0
MEASURES = ("kl", "ksd", "maxsksd-g", "maxsksd-rg")
STEP_SIZES = (0.002, 0.004, 0.006, 0.008, 0.01, 0.013, 0.015, 0.017)
SMALLEST = 0.01  # eigenvalue: so stiff that the longest steps are biased


def cells(preset: str) -> list[dict]:
    conditions, seeds = {
        "smoke": ((100,), 1),
        "quick": ((1, 10, 100), 3),
        "paper": ((1, 10, 100, 1000, 10000), 10),
    }[preset]
    return [{"condition": condition, "seed": seed} for seed in range(seeds) for condition in conditions]


def target(condition: float, seed: int) -> np.ndarray:
    """A covariance of this condition number, randomly oriented; logarithms of its eigenvalues are evenly spread."""
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((DIM, DIM)))[0]
    return rotation @ np.diag(SMALLEST * np.logspace(0, np.log10(condition), DIM)) @ rotation.T


def work(cell: dict) -> dict:
    import jax
    import jax.numpy as jnp

    import slicestein as ss
    from slicestein.samplers import SGHMC

    covariance = target(cell["condition"], cell["seed"])
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


def choices(rows: list[dict]) -> dict[tuple[int, int], dict[str, float]]:
    """The step size of least discrepancy, by condition number, seed and measure."""
    return {
        (r["condition"], r["seed"]): {m: STEP_SIZES[int(np.argmin(r["curves"][m]))] for m in MEASURES} for r in rows
    }


def excess(row: dict, measure: str) -> float:
    """KL divergence at the step that a measure chooses, less the least."""
    curves = row["curves"]
    return curves["kl"][int(np.argmin(curves[measure]))] - min(curves["kl"])


def findings(rows: list[dict]) -> list[list]:
    """Lines of a table: steps chosen (mean), how often longer than the KL divergence's, and what that costs."""
    lines = []
    for condition in sorted({r["condition"] for r in rows}):
        mine = [r for r in rows if r["condition"] == condition]
        chosen = choices(mine)
        for measure in MEASURES:
            steps = [c[measure] for c in chosen.values()]
            apart = [STEP_SIZES.index(c[measure]) - STEP_SIZES.index(c["kl"]) for c in chosen.values()]
            line = [condition, measure, len(mine), f"{np.mean(steps):.4f}"]
            line += [sum(gap > 1 for gap in apart), sum(gap < -1 for gap in apart)]
            lines.append([*line, runner.mean_and_error([excess(r, measure) for r in mine])])
    return lines


HEADER = ["condition", "measure", "seeds", "mean step", "longer by two or more", "shorter", "KL more than the least"]


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    conditions = sorted({r["condition"] for r in rows})
    fig, axes = plt.subplots(
        len(conditions), len(MEASURES), figsize=(13, 2.6 * len(conditions)), layout="constrained", sharex=True
    )
    for line, condition in zip(np.atleast_2d(axes), conditions, strict=True):
        mine = [r for r in rows if r["condition"] == condition]
        for ax, measure in zip(line, MEASURES, strict=True):
            curves = np.array([r["curves"][measure] for r in mine])
            ax.plot(STEP_SIZES, curves.T, color="#999999", linewidth=0.8)
            ax.plot(STEP_SIZES, np.median(curves, axis=0), color="#0072B2", linewidth=2.2)
            for chosen in choices(mine).values():
                ax.axvline(chosen[measure], ymax=0.06, color="#D55E00", linewidth=2)
            ax.set_title(f"{measure}, condition {condition}", fontsize=10)
    for ax in np.atleast_2d(axes)[-1]:
        ax.set_xlabel("step size")
    fig.savefig(path, dpi=100)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = sorted(runner.run(f"sghmc_step-{preset}", cells(preset), work), key=lambda r: r["seed"])
    for line in [HEADER, *findings(rows)]:
        print("".join(f"{cell!s:<22}" for cell in line))
    if preset != "smoke":
        figure(rows, runner.FIGURES / f"sghmc_step-{preset}.png")


if __name__ == "__main__":
    main()
