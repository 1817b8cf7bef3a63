"""Level on correlated draws: AR(1) chains whose stationary law is the model.

With coefficient 0.8 draws stay where they are; with -0.8 they alternate, as those of Hamiltonian Monte Carlo do.

Bootstraps for independent samples reject far too often; the dependent wild bootstrap keeps the level.

    python -m experiments.chain_level --preset smoke | quick | paper
"""

import warnings

import numpy as np

from experiments import runner

COEFFICIENTS, DRAWS = (0.8, -0.8), 1000
TESTS = (("maxsksd-rg", "dependent"), ("maxsksd-rg", "wild"), ("maxsksd-g", "dependent"), ("ksd", "dependent"))


def cells(preset: str) -> list[dict]:
    trials = {"smoke": 1, "quick": 100, "paper": 500}[preset]
    return [
        {"coefficient": coefficient, "d": 10, "method": method, "bootstrap": bootstrap, "seed": seed}
        for coefficient in COEFFICIENTS
        for method, bootstrap in TESTS
        for seed in range(trials)
    ]


def work(cell: dict) -> dict:
    import scipy.signal

    import slicestein as ss

    noise = np.random.default_rng([cell["seed"], cell["d"]]).standard_normal((DRAWS, cell["d"]))
    noise[1:] *= np.sqrt(1 - cell["coefficient"] ** 2)
    x = scipy.signal.lfilter([1], [1, -cell["coefficient"]], noise, axis=0)[None]  # one chain
    options = {"bootstrap": cell["bootstrap"]}
    method = ss.gof.KSD(**options) if cell["method"] == "ksd" else ss.gof.MaxSKSD(cell["method"][8:], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the draws are correlated is the point
        result = ss.gof_test(x, -x, key=cell["seed"], method=method)
    return {"pvalue": result.pvalue}


def rates(rows: list[dict]) -> dict[tuple, tuple[float, int]]:
    groups: dict[tuple, list[bool]] = {}
    for row in rows:
        groups.setdefault((row["coefficient"], row["method"], row["bootstrap"]), []).append(row["pvalue"] <= 0.05)
    return {key: (float(np.mean(hits)), len(hits)) for key, hits in sorted(groups.items(), reverse=True)}


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"chain_level-{preset}", cells(preset), work)
    for (coefficient, method, bootstrap), (rate, count) in rates(rows).items():
        print(f"{coefficient:>5} {method:<12} {bootstrap:<10} {rate:.3f} of {count}")


if __name__ == "__main__":
    main()
