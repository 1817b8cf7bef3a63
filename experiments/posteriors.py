"""Real posteriors, right samplers and wrong ones: false alarms, detections, and whether the right parameter is named.

A cell is one posterior of `posterior_models` and a batch of runs: NUTS, four chains a run, all runs vectorised, so that
sampling compiles once. Wrong draws are made of these (one parameter narrowed or moved; or the model that is tested has
another prior, or lacks a Jacobian, so that the draws are those of a sampler with the opposite mistake), or come from
other algorithms. The NUTS runs of a batch together say how wrong the draws of an algorithm really are.

    python -m experiments.posteriors --preset smoke | quick | paper | longer

`longer` has twice as many draws of every chain, and no other algorithms.
"""

import time

import numpy as np

from experiments import runner

WORKING = (
    "schools",
    "logistic",
    "robust",
    "counts",
    "simplex",
    "ordinal",
    "autoregression",
    "mixed",
    "volatility",
    "gaussian process",
)
HARD = ("schools, centred", "funnel", "horseshoe")  # NUTS is known to fail on these
MADE = ("narrowed", "moved", "prior", "jacobian")  # of the draws of NUTS
ALGORITHMS = ("mean-field", "full-rank", "laplace", "langevin", "hasty")
CHAINS, DRAWS, LONGER = 4, 250, 500
NARROWED, MOVED = 0.85, 0.3
HASTE = 20  # warm-up steps of "hasty"
LOST = 50  # standard deviations: no draw is so far out but of an algorithm that has broken down
LARGEST_RHAT, LEAST_ESS = 1.05, 100  # of a run of NUTS that has worked, whatever our test says; and no divergences


def cells(preset: str) -> list[dict]:
    """Batches of ``runs`` of NUTS; other algorithms run ``few`` times in some of them."""
    if preset == "smoke":
        return [{"posterior": "schools", "batch": 0, "runs": 2, "few": 1, "warmup": 100, "draws": 100}]
    batches = {"quick": ((5, 2),), "paper": ((15, 0), (5, 5)), "longer": ((20, 0),)}[preset]
    draws = LONGER if preset == "longer" else DRAWS
    return [
        {"posterior": name, "batch": batch, "runs": runs, "few": few, "warmup": 500, "draws": draws}
        for batch, (runs, few) in enumerate(batches)
        for name in (*WORKING, *HARD)
    ]


def work(cell: dict) -> dict:
    """Every kind of draws on one posterior, and what the test says of each run."""
    import jax

    from experiments import posterior_samplers as samplers
    from experiments.posterior_models import POSTERIORS
    from slicestein.adapters import from_numpyro

    start = time.process_time()
    posterior = POSTERIORS[cell["posterior"]]
    key = jax.random.fold_in(jax.random.key(cell["batch"]), (*WORKING, *HARD).index(cell["posterior"]))
    first, *keys = jax.random.split(key, 1 + len(ALGORITHMS))
    mcmc = samplers.nuts(posterior, first, cell["runs"] * CHAINS, cell["warmup"], cell["draws"])
    right = from_numpyro(posterior.model, mcmc, *posterior.data)
    space = samplers.Space(posterior, jax.tree.map(lambda value: value[0], mcmc.get_samples()))
    sampling = time.process_time() - start
    vectors, wrong = one_parameter_wrong(right.x, cell["batch"])
    for kind, its_key in zip(ALGORITHMS if cell["few"] else (), keys, strict=False):
        vectors[kind] = finite_runs(algorithm(kind, its_key, space, right.x, cell), right.x)
    tested = {"nuts": right} | with_scores(space, vectors)
    tested["prior"] = from_numpyro(posterior.model, mcmc, *posterior.data, **posterior.mistyped)
    forgetful = from_numpyro(samplers.without_jacobian(posterior.model), mcmc, *posterior.data)
    if not np.allclose(forgetful.score, right.score):  # without bounds there is no Jacobian
        tested["jacobian"] = forgetful
    rows = [row for kind, draws in tested.items() for row in records(kind, draws, right.x, wrong)]
    diverged = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["diverging"]).reshape(cell["runs"], -1).sum(1)
    return {
        "dim": right.x.shape[2],
        "site": posterior.site,
        "near_gaussian": posterior.near_gaussian,
        "diverged": diverged.tolist(),
        "lost": {kind: cell["few"] - len(vectors[kind]) // CHAINS for kind in ALGORITHMS if kind in vectors},
        "sampling_seconds": round(sampling, 1),
        "seconds": round(time.process_time() - start, 1),
        "tests": rows,
    }


def by_run(x: np.ndarray) -> np.ndarray:
    """(runs, chains, draws, D)."""
    return x.reshape(-1, CHAINS, *x.shape[1:])


def one_parameter_wrong(x: np.ndarray, batch: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """In every run a parameter, at random, narrowed or moved; and which it is."""
    rng = np.random.default_rng(batch)
    wrong = rng.integers(x.shape[2], size=len(x) // CHAINS)
    changed = {"narrowed": by_run(x.copy()), "moved": by_run(x.copy())}
    for run, d in enumerate(wrong):
        column = by_run(x)[run, :, :, d]
        changed["narrowed"][run, :, :, d] = column.mean() + NARROWED * (column - column.mean())
        changed["moved"][run, :, :, d] = column + MOVED * column.std()
    return {kind: draws.reshape(x.shape) for kind, draws in changed.items()}, wrong


def algorithm(kind: str, key, space, right: np.ndarray, cell: dict) -> np.ndarray:
    """Draws of a wrong algorithm, as many chains as ``few`` runs have."""
    from experiments import posterior_samplers as samplers

    chains, draws = cell["few"] * CHAINS, cell["draws"]
    if kind == "langevin":
        flat = right.reshape(-1, right.shape[2])
        return samplers.langevin(space, key, right[:chains, -1], np.cov(flat.T), draws)
    if kind == "hasty":
        return space.vectors(samplers.nuts(space.posterior, key, chains, HASTE, draws).get_samples(group_by_chain=True))
    return space.vectors(samplers.variational(space.posterior, kind, key, cell["few"], (CHAINS, draws)))


def finite_runs(x: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The runs of which every draw can be represented: a Langevin step may throw a chain out of the space."""
    distance = np.abs(x - right.mean((0, 1))) / right.std((0, 1))
    stayed = np.all(by_run(distance) < LOST, axis=(1, 2, 3))  # False for NaN
    return by_run(x)[stayed].reshape(-1, *x.shape[1:])


def with_scores(space, vectors: dict[str, np.ndarray]) -> dict:
    """Draws and scores of all kinds, by one call of the adapter."""
    from slicestein.adapters import Draws, from_numpyro

    sites = space.constrain(np.concatenate(list(vectors.values())))
    x, score, names = from_numpyro(space.posterior.model, sites, *space.posterior.data)
    ends = np.cumsum([len(part) for part in vectors.values()])[:-1]
    parts = zip(np.split(x, ends), np.split(score, ends), strict=True)
    return {kind: Draws(*part, names) for kind, part in zip(vectors, parts, strict=True)}


def records(kind: str, draws, right: np.ndarray, wrong: np.ndarray) -> list[dict]:
    """What the test says of every run of a kind, beside what is true."""
    import slicestein as ss

    rows = []
    for run, (x, score) in enumerate(zip(by_run(draws.x), by_run(draws.score), strict=True)):
        row = {"kind": kind, "run": run}
        if kind in ALGORITHMS:
            row |= true_errors(x, right)
        try:
            result = ss.gof_test(x, score, names=draws.names, key=run)
        except (ss.InputError, FloatingPointError) as refusal:  # of a chain that never moved, or where numbers end
            rows.append(row | {"verdict": "refused", "reason": str(refusal)})
            continue
        rows.append(row | described(result))
        if kind == "nuts":
            rows[-1]["components"] = {name: round(value, 2) for name, value in result.components.items()}
        if kind in ("narrowed", "moved"):
            name = draws.names[wrong[run]]
            rows[-1]["wrong"] = estimates(next(one for one in result.parameters if one.name == name))
    return rows


def true_errors(x: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """The largest errors that draws have in any parameter, against all runs of NUTS."""
    unit = right.std((0, 1))
    ratios = x.std((0, 1)) / unit
    return {
        "mean_off": round(float(np.max(np.abs(x.mean((0, 1)) - right.mean((0, 1))) / unit)), 2),
        "spread_off": round(float(ratios[np.argmax(np.abs(np.log(ratios)))]), 2),
    }


def described(result) -> dict:
    """A result in few digits."""
    return {
        "verdict": result.verdict,
        "reason": result.reason,
        "pvalue": round(result.pvalue, 4),
        "first": estimates(result.parameters[0]),
        "rhat": round(float(result.rhat.max()), 3),
        "ess": round(float(result.ess.min())),
    }


def estimates(parameter) -> dict:
    """A line of the table of parameters, in few digits."""
    numbers = ("pvalue", "shift", "shift_error", "spread", "spread_error")
    return {"name": parameter.name, "finding": parameter.finding} | {
        name: round(getattr(parameter, name), 3) for name in numbers
    }


def main() -> None:
    from experiments import posterior_tables as tables

    preset = runner.preset(__doc__.splitlines()[0], ("smoke", "quick", "paper", "longer"))
    rows = tables.tests(runner.run(f"posteriors-{preset}", cells(preset), work))
    for line in (*tables.sentences(rows), *tables.made_lines(rows), *tables.algorithm_lines(rows)):
        print(line if isinstance(line, str) else "  ".join(str(part) for part in line))
    if preset != "smoke":
        tables.figure(rows, runner.FIGURES / f"posteriors-{preset}.png")


if __name__ == "__main__":
    main()
