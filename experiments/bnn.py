"""Bayesian neural networks on nine UCI regression sets by SVGD and S-SVGD (table "BNN LL").

One hidden layer of 50 ReLU units, 50 particles, Gamma(1, 0.1) priors on both precisions, batches of 100, standard 90/10
splits. Tables report the last epoch; the best one on the test set only to show what that leak is worth.

The paper does not state its learning rates, and they decide much: on Boston, with 0.003, SVGD shrinks all weights to
zero, the mode of the posterior. `tune` tries two or three of them, and two kernels, the paper's and a narrower one, on
a tenth of the training part of a few splits; the other presets take the best of these, for each data set and method.

    python -m experiments.bnn --preset smoke | tune | quick | paper
"""

import functools
import itertools
import math
import time

import numpy as np

from experiments import runner

# Epochs, epochs over which the repulsion of S-SVGD grows to 1, trials.
SETTINGS = {
    "boston": (2000, 500, 15),
    "yacht": (2000, 1000, 15),
    "energy": (2000, 500, 15),
    "concrete": (2000, 0, 15),
    "wine-red": (500, 0, 15),
    "power": (200, 0, 15),
    "kin8nm": (200, 0, 15),
    "naval": (200, 0, 15),
    "protein": (50, 0, 5),
}
PAPER = {  # test RMSE and log-likelihood of SVGD, then of S-SVGD
    "boston": (2.937, -2.533, 2.870, -2.507),
    "concrete": (5.189, -3.076, 4.880, -3.004),
    "power": (3.979, -2.802, 3.914, -2.786),
    "naval": (0.0030, 4.368, 0.0029, 4.411),
    "wine-red": (0.607, -0.924, 0.603, -0.914),
    "energy": (1.353, -1.736, 1.132, -1.540),
    "kin8nm": (0.082, 1.084, 0.079, 1.104),
    "yacht": (0.714, -1.277, 0.613, -0.999),
    "protein": (4.543, -2.932, 4.587, -2.942),
}
METHODS = ("svgd", "s-svgd")
HIDDEN, PARTICLES, BATCH = 50, 50, 100
LEARNING_RATES = {  # around the best of a coarser search
    "boston": (1e-3, 3e-3),
    "wine-red": (3e-4, 1e-3),
    **dict.fromkeys(("energy", "concrete"), (3e-3, 1e-2)),
    "yacht": (3e-3, 1e-2, 3e-2),
    "power": (1e-2, 3e-2),
    **dict.fromkeys(("kin8nm", "naval", "protein"), (3e-3, 1e-2, 3e-2)),
}
# Factors on the bandwidth of the rule "median/log n", the paper's first: 1, and 0.387, whose square is 0.15.
SCALES = {"svgd": (1.0, 0.5), "s-svgd": (0.387, 0.01)}
TUNING_SPLITS = {"yacht": 4, "boston": 2}  # else one: the fewer data, the more
PRIOR = (1.0, 0.1)  # shape and rate of both precisions


def cells(preset: str) -> list[dict]:
    def cell(name, trial, method, epochs, choice, held_out="test"):
        rate, scale = choice
        run = {"data": name, "trial": trial, "method": method, "epochs": epochs}
        return run | {"learning_rate": rate, "scale": scale, "held_out": held_out}

    if preset == "smoke":
        return [cell("yacht", 0, "s-svgd", 2, (3e-3, 0.387))]
    if preset == "tune":
        return [
            cell(name, trial, method, epochs, choice, "validation")
            for name, (epochs, _, _) in SETTINGS.items()
            for trial in range(TUNING_SPLITS.get(name, 1))
            for method in METHODS
            for choice in itertools.product(LEARNING_RATES[name], SCALES[method])
        ]
    choices = {(name, method): best(name, method) for name in SETTINGS for method in METHODS}
    trials = max(trials for _, _, trials in SETTINGS.values()) if preset == "paper" else 3
    return [
        cell(name, trial, method, epochs if preset == "paper" else epochs // 10, choices[name, method])
        for trial in range(trials)  # outermost: a run that is stopped has some trials of every set
        for name, (epochs, _, most) in SETTINGS.items()
        if trial < most
        for method in METHODS
    ]


def validation(name: str, method: str) -> dict[tuple[float, float], float]:
    """Validation log-likelihood of every learning rate and kernel scale, averaged over splits."""
    wanted = [c for c in cells("tune") if (c["data"], c["method"]) == (name, method)]
    rows = runner.load("bnn-tune", wanted)
    if len(rows) < len(wanted):
        raise SystemExit("run --preset tune first: it chooses learning rates and kernels")
    return {
        (rate, scale): np.mean([r["log_likelihood"] for r in rows if (r["learning_rate"], r["scale"]) == (rate, scale)])
        for rate, scale in itertools.product(LEARNING_RATES[name], SCALES[method])
    }


def best(name: str, method: str) -> tuple[float, float]:
    values = validation(name, method)
    return max(values, key=values.get)


def start(key, num_inputs: int):
    """Particles close to one random network."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(key, 3)
    centre = {
        "w1": jax.random.normal(keys[0], (num_inputs, HIDDEN)) / jnp.sqrt(num_inputs + 1),
        "b1": jnp.zeros(HIDDEN),
        "w2": jax.random.normal(keys[1], (HIDDEN,)) / jnp.sqrt(HIDDEN + 1),
        "b2": jnp.zeros(()),
        "log_noise_precision": jnp.zeros(()),
        "log_weight_precision": jnp.zeros(()),
    }
    leaves, structure = jax.tree.flatten(centre)
    noise_keys = jax.random.split(keys[2], len(leaves))
    spread = [a + 0.1 * jax.random.normal(k, (PARTICLES, *a.shape)) for k, a in zip(noise_keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, spread)


def predict(network, x):
    """Outputs of one network, with the batch as the last axis inside: XLA is faster so."""
    import jax.numpy as jnp

    hidden = jnp.maximum(network["w1"].T @ x.T + network["b1"][:, None], 0)
    return network["w2"] @ hidden + network["b2"]


def log_posterior(network, x, y, num_data: int):
    """Log-density of one network, up to a constant, with the likelihood of a batch scaled to all data."""
    import jax.numpy as jnp

    noise, weight = jnp.exp(network["log_noise_precision"]), jnp.exp(network["log_weight_precision"])
    error = jnp.mean((y - predict(network, x)) ** 2)
    likelihood = 0.5 * num_data * (network["log_noise_precision"] - noise * error)
    weights = [network[name] for name in ("w1", "b1", "w2", "b2")]
    count, square = sum(w.size for w in weights), sum(jnp.sum(w**2) for w in weights)
    prior = 0.5 * (count * network["log_weight_precision"] - weight * square)
    shape, rate = PRIOR
    hyperprior = sum(shape * jnp.log(p) - rate * p for p in (noise, weight))
    return likelihood + prior + hyperprior


@functools.cache  # trials of one data set differ in their numbers only: compile once
def trainer(data: str, method: str, epochs: int, learning_rate: float, scale: float, count: int):
    """Function of first particles, training data and a key to particles at up to 50 epochs, the last one last."""
    import jax
    import jax.numpy as jnp
    import optax

    import slicestein as ss

    batch = min(BATCH, count)
    steps_per_epoch = -(-count // batch)
    num_steps = epochs * steps_per_epoch
    score = jax.vmap(jax.grad(functools.partial(log_posterior, num_data=count)), in_axes=(0, None, None))
    optimizer = optax.rmsprop(optax.cosine_decay_schedule(learning_rate, num_steps), decay=0.9)
    kernel = ss.RBF(scale=scale)
    if method == "svgd":
        algorithm = ss.svgd(score, optimizer, kernel=kernel)
    else:
        full_epochs, ramp, _ = SETTINGS[data]
        ramp_steps = max(1, ramp * steps_per_epoch * epochs // full_epochs)
        repulsion = lambda step: jnp.minimum(1.0, 0.01 + step / ramp_steps)
        algorithm = ss.sliced_svgd(score, optimizer, kernel=kernel, bandwidth_rule="median/log n", repulsion=repulsion)

    @jax.jit
    def train(particles, x, y, key):
        def step(state, i):
            rows = jax.random.randint(jax.random.fold_in(key, i), (batch,), 0, count)
            return algorithm.step(state, x[rows], y[rows])[0], None

        def block(state, steps):
            state = jax.lax.scan(step, state, steps)[0]
            return state, state.particles

        steps = jnp.arange(num_steps).reshape(math.gcd(epochs, 50), -1)
        return jax.lax.scan(block, algorithm.init(particles), steps)[1]

    return train


def evaluate(particles, data: dict) -> dict:
    """RMSE of the mean and log-likelihood of the mixture of all particles, on the held-out part."""
    import jax
    import jax.numpy as jnp

    outputs = jax.vmap(predict, (0, None))(particles, jnp.asarray(data["x_test"], jnp.float32))
    predictions = data["y_mean"] + data["y_std"] * np.asarray(outputs, float)
    variance = data["y_std"] ** 2 * np.exp(-np.asarray(particles["log_noise_precision"], float))[:, None]
    log_density = -0.5 * (np.log(2 * np.pi * variance) + (data["y_test"] - predictions) ** 2 / variance)
    return {
        "rmse": float(np.sqrt(np.mean((predictions.mean(0) - data["y_test"]) ** 2))),
        "log_likelihood": float(np.mean(np.logaddexp.reduce(log_density, axis=0) - np.log(PARTICLES))),
    }


def work(cell: dict) -> dict:
    import jax
    import jax.numpy as jnp

    from experiments.data import uci_split, validation_split

    begin = time.perf_counter()
    data = uci_split(cell["data"], cell["trial"])
    if cell["held_out"] == "validation":
        data = validation_split(data, cell["trial"])
    x, y = (jnp.asarray(data[name], jnp.float32) for name in ("x_train", "y_train"))
    init_key, batch_key = jax.random.split(jax.random.key(cell["trial"]))
    train = trainer(cell["data"], cell["method"], cell["epochs"], cell["learning_rate"], cell["scale"], len(y))
    history = train(start(init_key, x.shape[1]), x, y, batch_key)
    snapshots = [jax.tree.map(lambda a, i=i: a[i], history) for i in range(len(history["b2"]))]
    found = [evaluate(particles, data) for particles in snapshots]
    flat = np.concatenate([np.asarray(a).reshape(PARTICLES, -1) for a in jax.tree.leaves(snapshots[-1])], axis=1)
    return found[-1] | {
        "best_log_likelihood": max(f["log_likelihood"] for f in found),  # a leak: for comparison only
        "spread": float(np.sum(np.var(flat, axis=0)) * PARTICLES**2),  # sum of squared distances over pairs
        "seconds": round(time.perf_counter() - begin, 1),
    }


def paired(rows: list[dict], name: str, what: str):
    """Values of both methods, (2, T), in the trials in which both have one."""
    mine = [r for r in rows if r["data"] == name and what in r]
    svgd, sliced = ({r["trial"]: r[what] for r in mine if r["method"] == method} for method in METHODS)
    trials = sorted(svgd.keys() & sliced.keys())
    return np.array([[values[trial] for trial in trials] for values in (svgd, sliced)])


def table(rows: list[dict]) -> str:
    """Means and standard errors, the paper's figures beside them; the difference is paired by trial."""
    lines = [
        "| data | trials | RMSE SVGD | RMSE S-SVGD | paper | LL SVGD | LL S-SVGD | paper | LL, S-SVGD less SVGD "
        "| spread, ratio | seconds |",
        f"|{' --- |' * 11}",
    ]
    for name in SETTINGS:
        rmse, likelihood, spread, seconds = (
            paired(rows, name, what) for what in ("rmse", "log_likelihood", "spread", "seconds")
        )
        if not rmse.size:
            continue
        digits = 5 if name == "naval" else 3  # of RMSE
        found = [
            *(runner.mean_and_error(v, f".{digits}f") for v in rmse),
            ", ".join(f"{v:.{min(digits, 4)}f}" for v in PAPER[name][::2]),
            *(runner.mean_and_error(v) for v in likelihood),
            ", ".join(f"{v:.3f}" for v in PAPER[name][1::2]),
            runner.mean_and_error(likelihood[1] - likelihood[0], ".4f"),
            f"{spread[1].mean() / spread[0].mean():.1f}",
            " / ".join(f"{v:.0f}" for v in seconds.mean(1)),
        ]
        lines.append(f"| {name} | {rmse.shape[1]} | {' | '.join(found)} |")
    return "\n".join(lines)


def leak(rows: list[dict], name: str) -> np.ndarray:
    """What the best epoch on the test set would add to the log-likelihood: methods, trials that noted it."""
    noted = [r for r in rows if "best_log_likelihood" in r]
    return paired(noted, name, "best_log_likelihood") - paired(noted, name, "log_likelihood")


def leak_table(rows: list[dict]) -> str:
    lines = ["| data | trials | SVGD | S-SVGD |", "| --- | --- | --- | --- |"]
    for name in SETTINGS:
        gains = leak(rows, name)
        if gains.size:
            lines.append(f"| {name} | {gains.shape[1]} | {' | '.join(f'{gain:.3f}' for gain in gains.mean(1))} |")
    return "\n".join(lines)


def tuning_table() -> str:
    """The best learning rate and its validation log-likelihood, for every kernel."""
    columns = [f"{method.upper()}, scale {scale}" for method in METHODS for scale in SCALES[method]]
    lines = [f"| data | {' | '.join(columns)} |", f"|{' --- |' * (1 + len(columns))}"]
    for name in SETTINGS:
        shown = []
        for method in METHODS:
            values = validation(name, method)
            for scale in SCALES[method]:
                value, rate = max((value, rate) for (rate, of), value in values.items() if of == scale)
                bold = "**" if value == max(values.values()) else ""
                shown.append(f"{bold}{value:.3f} ({rate:g}){bold}")
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0], ("smoke", "tune", "quick", "paper"))
    rows = runner.run(f"bnn-{preset}", cells(preset), work)
    if preset in ("quick", "paper"):
        print(table(rows))
    elif preset == "tune":
        print(tuning_table())


if __name__ == "__main__":
    main()
