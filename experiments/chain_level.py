"""Level on correlated draws: an AR(1) chain with coefficient 0.8 whose stationary law is the model.

Bootstraps for independent samples reject far too often; the dependent wild bootstrap keeps the level.

    python -m experiments.chain_level --preset smoke | quick | paper
"""

import warnings

import numpy as np

from experiments import runner

COEFFICIENT, DRAWS = 0.8, 1000
TESTS = (("maxsksd-rg", "dependent"), ("maxsksd-rg", "wild"), ("maxsksd-g", "dependent"), ("ksd", "dependent"))


def cells(preset: str) -> list[dict]:
    trials = {"smoke": 1, "quick": 100, "paper": 500}[preset]
    return [
        {"d": 10, "method": method, "bootstrap": bootstrap, "seed": seed}
        for method, bootstrap in TESTS
        for seed in range(trials)
    ]


def work(cell: dict) -> dict:
    import scipy.signal

    import slicestein as ss

    noise = np.random.default_rng([cell["seed"], cell["d"]]).standard_normal((DRAWS, cell["d"]))
    noise[1:] *= np.sqrt(1 - COEFFICIENT**2)
    x = scipy.signal.lfilter([1], [1, -COEFFICIENT], noise, axis=0)[None]  # one chain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the draws are correlated is the point
        result = ss.gof_test(x, -x, key=cell["seed"], method=cell["method"], bootstrap=cell["bootstrap"])
    return {"pvalue": result.pvalue}


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"chain_level-{preset}", cells(preset), work)
    for d, method, bootstrap in sorted({(r["d"], r["method"], r["bootstrap"]) for r in rows}):
        p = [r["pvalue"] for r in rows if (r["d"], r["method"], r["bootstrap"]) == (d, method, bootstrap)]
        print(f"D={d:<3} {method:<12} {bootstrap:<10} {np.mean(np.array(p) <= 0.05):.3f} of {len(p)}")


if __name__ == "__main__":
    main()
