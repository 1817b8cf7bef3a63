"""Independent component analysis by four Stein losses (table "ICA NLL", figures "ICA Training Curve", "ICA g rg").

x = W z with z ~ Laplace(0, 1). The parameter is A = W^-1, whose entries are standard normal, drawn anew until the
condition number is below D; so is the start. 20000 training and 5000 test samples, batches of 100, Adam (0.5, 0.9) with
step 0.001. The critic of LSD is a network with two hidden layers of 300 swish units, its divergence in closed form. The
basis of maxSKSD is the principal axes of the training data.

    python -m experiments.ica --preset smoke | quick | paper | variants

Two variants. *axes*: the basis of maxSKSD is the coordinate axes, as in the paper. *jump*: the score of the model jumps
where a source is zero; automatic differentiation, also in the released code, does not see how the jump moves with A,
and here it does.
"""

import functools
import time

import numpy as np

from experiments import runner

METHODS = ("ksd", "lsd", "maxsksd-g", "maxsksd-rg")
PAPER = {  # test log-likelihoods; the weights behind them are not at hand
    "ksd": {10: -10.23, 20: -15.98, 40: -34.50, 60: -56.87, 80: -86.09, 100: -116.51, 200: -329.49},
    "lsd": {10: -10.42, 20: -14.54, 40: -17.16, 60: -15.05, 80: -12.39, 100: -5.49, 200: 46.63},
    "maxsksd-g": {10: -10.45, 20: -14.50, 40: -17.28, 60: -15.70, 80: -11.91, 100: -4.21, 200: 47.72},
}
HIDDEN = 300
POINTS = 30  # of a training curve
JUMP_WIDTH = 0.4  # in units of a source


def cells(preset: str) -> list[dict]:
    if preset == "variants":
        axes = [("axes", "maxsksd-g", d) for d in (20, 60, 100, 200)]
        jump = [("jump", method, 20) for method in ("ksd", "lsd", "maxsksd-g")]
        return [{"variant": v, "method": m, "d": d, "steps": 15000, "seed": 0} for v, m, d in axes + jump]
    dims, steps, runs = {
        "smoke": ((5,), 60, 1),
        "quick": ((10, 40, 100), 5000, 2),
        "paper": ((10, 20, 40, 60, 80, 100, 200), 15000, 5),
    }[preset]
    found = [
        {"method": method, "d": d, "steps": steps, "seed": seed}
        for seed in range(runs)  # outermost: a run that is stopped has every dimension
        for d in dims
        for method in METHODS
    ]
    return sorted(found, key=lambda cell: cell["method"] == "maxsksd-rg" and cell["seed"] > 0)  # least of interest


def matrix(rng: np.random.Generator, dim: int) -> np.ndarray:
    """Standard normal entries, and a condition number below the dimension."""
    while True:
        a = rng.standard_normal((dim, dim))
        if np.linalg.cond(a) < dim:
            return a


def log_likelihood(a: np.ndarray, x: np.ndarray) -> float:
    """Mean log-density of the model, with its constant."""
    a = np.asarray(a, float)
    return float(np.linalg.slogdet(a)[1] - len(a) * np.log(2) - np.abs(x @ a.T).sum(1).mean())


def covariance_alone(x: np.ndarray) -> np.ndarray:
    """What second moments give, the rotation unknown: whitened data, each coordinate scaled as a Laplace one."""
    variances, axes = np.linalg.eigh(np.cov(x.T))
    a = (axes / np.sqrt(variances)) @ axes.T
    return a / np.abs(x @ a.T).mean(0)[:, None]


def score(a, x, jump: bool = False):
    """Gradient of the log-density; with ``jump``, its derivative in A includes how the jumps of sign move."""
    import jax
    import jax.numpy as jnp

    sources = x @ a.T
    signs = jnp.sign(sources)
    if jump:  # the derivative of sign, twice a point mass at 0, as a narrow bump; the value stays
        smooth = jax.lax.erf(sources / JUMP_WIDTH)
        signs = smooth + jax.lax.stop_gradient(signs - smooth)
    return -signs @ a


def swish(v):
    import jax

    return v * jax.nn.sigmoid(v)


def start_critic(key, dim: int) -> dict:
    import jax
    import jax.numpy as jnp

    sizes = ((dim, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, dim))
    keys = jax.random.split(key, 3)
    weights = [jax.random.normal(k, size) / size[0] ** 0.5 for k, size in zip(keys, sizes, strict=True)]
    return {"w": weights, "b": [jnp.zeros(size[1]) for size in sizes]}


def critic(params: dict, x):
    (w1, w2, w3), (b1, b2, b3) = params["w"], params["b"]
    return swish(swish(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def divergence(params: dict, x):
    """Trace of the Jacobian w1 D1 w2 D2 w3, where D1 and D2 are diagonal: one product more than the critic."""
    import jax
    import jax.numpy as jnp

    (w1, w2, w3), (b1, b2, _) = params["w"], params["b"]
    slope = lambda v: jax.jvp(swish, (v,), (jnp.ones_like(v),))
    first, slope1 = slope(x @ w1 + b1)
    _, slope2 = slope(first @ w2 + b2)
    return jnp.sum((slope1 @ (w2 * (w3 @ w1).T)) * slope2, axis=1)


def trainer(method: str, x: np.ndarray, seed: int, variant: str | None):
    import jax
    import optax

    from slicestein import learning

    score_fn = functools.partial(score, jump=variant == "jump")
    optimizer = optax.adam(1e-3, b1=0.5, b2=0.9)
    if method == "ksd":
        return learning.ksd(score_fn, optimizer)
    if method == "lsd":
        first = start_critic(jax.random.key(seed), x.shape[1])
        return learning.lsd(score_fn, optimizer, critic, first, divergence=divergence)
    options = {"optimize": method.removeprefix("maxsksd-")}
    if variant != "axes":
        # Along principal axes directions need to turn less; slower ones follow less noise.
        slower = optax.adam(lambda step: 3e-3 / (1 + step / 100) ** 0.5, b1=0.5, b2=0.9)
        options |= {"basis": np.linalg.eigh(np.cov(x.T))[1].T, "slice_optimizer": slower}
    return learning.maxsksd(score_fn, optimizer, **options)


def work(cell: dict) -> dict:
    import slicestein as ss

    dim, seed, steps = cell["d"], cell["seed"], cell["steps"]
    rng = np.random.default_rng([seed, dim])
    true, start = matrix(rng, dim), matrix(rng, dim)
    x = rng.laplace(size=(25000, dim)) @ np.linalg.inv(true).T
    train, test = x[:20000].astype(np.float32), x[20000:]
    best = log_likelihood(true, test)
    whitened = log_likelihood(covariance_alone(x[:20000]), test)
    curve = []

    def note(state, _):
        curve.append(round(log_likelihood(state.params, test) - best, 3))

    begin = time.process_time()  # of one core
    method = trainer(cell["method"], train, seed, cell.get("variant"))
    every = max(1, steps // POINTS)
    result = ss.learning.fit(
        method, start.astype(np.float32), train, steps, key=seed, progress=False, every=every, callback=note
    )
    mixing = np.abs(np.asarray(result.params, float) @ np.linalg.inv(true))  # of the sources, in what was found
    return {
        "log_likelihood": round(best + curve[-1], 3),
        "true_log_likelihood": round(best, 3),
        "gap": curve[-1],
        "covariance_gap": round(whitened - best, 3),
        "largest_share": round(float(np.mean(mixing.max(1) ** 2 / np.sum(mixing**2, axis=1))), 3),  # 1: unmixed
        "curve": curve,
        "every": every,
        "seconds": round(time.process_time() - begin, 1),
    }


def gaps(rows: list[dict]) -> list[str]:
    """Lines of a table: gaps to the true model, mean and standard error over runs."""
    dims = sorted({r["d"] for r in rows})
    found = {}
    for r in rows:
        name = f"{r['method']}, {r['variant']}" if "variant" in r else r["method"]
        found.setdefault(name, {d: [] for d in dims})[r["d"]].append(r["gap"])

    def show(values):
        return runner.mean_and_error(values, ".2f") if values else ""

    lines = ["| method | " + " | ".join(f"D = {d}" for d in dims) + " |", "| --- |" + " --- |" * len(dims)]
    lines += [f"| {name} | " + " | ".join(map(show, found[name].values())) + " |" for name in sorted(found)]
    covariance = [np.mean([r["covariance_gap"] for r in rows if r["d"] == d]) for d in dims]
    return [*lines, "| covariance alone | " + " | ".join(f"{gap:.2f}" for gap in covariance) + " |"]


def table(rows: list[dict]) -> str:
    """Gaps, and below them log-likelihoods: of the true models and in the paper."""
    lines = gaps(rows)
    dims = sorted({r["d"] for r in rows})
    truth = [np.mean([r["true_log_likelihood"] for r in rows if r["d"] == d]) for d in dims]
    lines.append("| log-likelihood of the true model | " + " | ".join(f"{t:.2f}" for t in truth) + " |")
    for method, values in PAPER.items():
        known = [f"{values[d]:.2f}" if d in values else "" for d in dims]
        lines.append(f"| paper, log-likelihood: {method} | " + " | ".join(known) + " |")
    return "\n".join(lines)


def figure(rows: list[dict], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    dims = sorted({r["d"] for r in rows})
    columns = min(4, len(dims))
    shape = (-(-len(dims) // columns), columns)
    fig, axes = plt.subplots(*shape, figsize=(3.2 * columns, 3 * shape[0]), layout="constrained", squeeze=False)
    colours = dict(zip(METHODS, ("#000000", "#D55E00", "#0072B2", "#009E73"), strict=True))
    for ax in axes.flat[len(dims) :]:
        ax.set_visible(False)
    for ax, d in zip(axes.flat, dims, strict=False):
        for method in METHODS:
            mine = [r for r in rows if (r["d"], r["method"]) == (d, method)]
            if mine:
                curves = -np.array([r["curve"] for r in mine])
                steps = mine[0]["every"] * np.arange(1, curves.shape[1] + 1)
                ax.plot(steps, curves.mean(0), color=colours[method], label=method)
                ax.fill_between(steps, curves.min(0), curves.max(0), color=colours[method], alpha=0.2, linewidth=0)
        ax.set(title=f"D = {d}", xlabel="step", yscale="log")
    fig.supylabel("log-likelihood below the true model's: mean, least and most of the runs", fontsize=10)
    axes[0, 0].legend(frameon=False, fontsize=8)
    fig.savefig(path, dpi=100)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0], ("smoke", "quick", "paper", "variants"))
    rows = runner.run(f"ica-{preset}", cells(preset), work)
    print(table(rows))
    if preset in ("quick", "paper"):
        figure(rows, runner.FIGURES / f"ica-{preset}.png")


if __name__ == "__main__":
    main()
