"""Particles on targets where slices may fail: strong correlations, and two modes.

A 50-dimensional Gaussian with condition number 100 in a random orientation, and a mixture of two Gaussians in 20
dimensions with weights 1/3 and 2/3, five standard deviations apart. 200 particles, 5000 steps of Adam with a decaying
step; exact draws beside them.

    python -m experiments.svgd_targets --preset smoke | quick | paper
"""

import time

import numpy as np

from experiments import runner

METHODS = (
    "exact draws",
    "svgd",
    "s-svgd",
    "s-svgd, axes",
    "s-svgd, fixed axes",
    "grassmann svgd, m=2",
    "grassmann svgd, m=10",
    "noisy svgd",
)
TARGETS = ("correlated", "mixture")
PARTICLES = 200


def cells(preset: str) -> list[dict]:
    seeds, steps = {"smoke": (1, 20), "quick": (2, 5000), "paper": (5, 20000)}[preset]
    methods = METHODS[:3] if preset == "smoke" else METHODS
    return [
        {"target": target, "method": method, "steps": steps, "seed": seed}
        for target in TARGETS
        for method in methods
        for seed in range(seeds)
    ]


def correlated(seed: int):
    """Log-density, exact draws and covariance of a Gaussian."""
    import jax.numpy as jnp

    dim, rng = 50, np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    covariance = rotation @ np.diag(np.logspace(-1, 1, dim)) @ rotation.T
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    draws = rng.multivariate_normal(np.zeros(dim), covariance, PARTICLES)
    return lambda x: -0.5 * x @ precision @ x, draws, covariance


def mixture(seed: int):
    """The same for two unit Gaussians; the modes are 5 apart, weights 1/3 and 2/3."""
    import jax
    import jax.numpy as jnp

    dim, rng = 20, np.random.default_rng(seed)
    centre = np.full(dim, 2.5 / np.sqrt(dim))
    signs = np.where(rng.uniform(size=PARTICLES) < 1 / 3, -1.0, 1.0)
    draws = rng.standard_normal((PARTICLES, dim)) + signs[:, None] * centre
    covariance = np.eye(dim) + 8 / 9 * np.outer(centre, centre)  # of the mixture

    def log_density(x):
        low, high = (-0.5 * jnp.sum((x - sign * centre) ** 2) for sign in (-1.0, 1.0))
        return jax.nn.logsumexp(jnp.array([low, high]) + jnp.log(jnp.array([1 / 3, 2 / 3])))

    return log_density, draws, covariance


def work(cell: dict) -> dict:
    import jax
    import optax

    import slicestein as ss

    log_density, draws, covariance = {"correlated": correlated, "mixture": mixture}[cell["target"]](cell["seed"])
    score, seed = ss.score_from(log_density), cell["seed"]
    optimizer = optax.adam(optax.cosine_decay_schedule(0.05, cell["steps"]))
    dim = len(covariance)
    start = 2 * jax.random.normal(jax.random.key(seed), (PARTICLES, dim))
    methods = {
        "svgd": lambda: ss.svgd(score, optimizer),
        "s-svgd": lambda: ss.sliced_svgd(score, optimizer),
        "s-svgd, axes": lambda: ss.sliced_svgd(score, optimizer, basis="axes"),
        "s-svgd, fixed axes": lambda: ss.sliced_svgd(score, optimizer, basis="axes", slice_steps=0),
        "grassmann svgd, m=2": lambda: ss.grassmann_svgd(score, optimizer, key=seed, slice_dim=2),
        "grassmann svgd, m=10": lambda: ss.grassmann_svgd(score, optimizer, key=seed, slice_dim=10),
        "noisy svgd": lambda: ss.noisy_svgd(score, 0.1, key=seed),
    }
    x = np.asarray(draws, np.float32)
    seconds = 0.0
    if cell["method"] != "exact draws":
        begin = time.perf_counter()
        x = np.asarray(ss.run(methods[cell["method"]](), start, cell["steps"], progress=False, every=1000).particles)
        seconds = time.perf_counter() - begin
    mean = np.zeros(dim) if cell["target"] == "correlated" else np.full(dim, 2.5 / np.sqrt(dim)) / 3
    error = np.cov(x.T) - covariance
    return {
        "mean_error": float(np.linalg.norm(x.mean(0) - mean)),
        "covariance_error": float(np.linalg.norm(error) / np.linalg.norm(covariance)),
        "total_variance": float(np.trace(np.cov(x.T)) / np.trace(covariance)),
        "share_of_larger_mode": float(np.mean(x.sum(1) > 0)) if cell["target"] == "mixture" else None,
        "seconds": round(seconds, 1),
    }


def table(rows: list[dict]) -> str:
    lines = [
        "| target | method | error of mean | error of covariance | total variance (true: 1) | larger mode (2/3) | s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for target in TARGETS:
        for method in METHODS:
            mine = [r for r in rows if (r["target"], r["method"]) == (target, method)]
            if mine:
                average = lambda what, mine=mine: np.mean([r[what] for r in mine])
                share = f"{average('share_of_larger_mode'):.2f}" if target == "mixture" else ""
                numbers = [f"{average(w):.2f}" for w in ("mean_error", "covariance_error", "total_variance")]
                lines.append(f"| {target} | {method} | {' | '.join(numbers)} | {share} | {average('seconds'):.0f} |")
    return "\n".join(lines)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"svgd_targets-{preset}", cells(preset), work)
    print(table(rows))


if __name__ == "__main__":
    main()
