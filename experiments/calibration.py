"""The default test: its level, chains that are elsewhere, and parameters that are wrong in very high dimension.

A line holds the trials of one batch: p-values, and how often what is wrong was named.

    python -m experiments.calibration --preset smoke | quick | paper
"""

import time
from collections.abc import Iterator

import numpy as np
import scipy.signal
import scipy.stats

from experiments import runner

LEVEL, BATCH = 0.05, 50
COEFFICIENT = 0.8
CHAINS, DRAWS = 4, 300
LEVELS = (*(("independent", d, b) for d in (5, 50, 100) for b in (99, 999)), ("AR(1) chains", 10, 999))
EDGE, MORE = (100, 999), 3  # where the level is nearest to its bound: so many times the trials
STRAYS = ("off by 1", "off by 2", "off by 3", "stuck in four places", "half mixed")
WIDE = ((1000, 2000, 0.7), (2000, 3000, 0.7))  # D, N, spread of one parameter


def cells(preset: str) -> list[dict]:
    level_batches, stray_batches, keys = {"smoke": (1, 1, 0), "quick": (4, 1, 2), "paper": (20, 2, 10)}[preset]
    batch = 2 if preset == "smoke" else BATCH
    found = [
        {"case": case, "d": d, "b": b, "batch": i, "trials": batch}
        for i in range(MORE * level_batches)
        for case, d, b in LEVELS
        if i < level_batches or (d, b) == EDGE
    ]
    found += [
        {"case": case, "d": d, "b": 999, "batch": i, "trials": batch}
        for i in range(stray_batches)
        for case in STRAYS
        for d in (2, 10)
    ]
    return found + [
        {"case": f"spread {spread}", "d": d, "n": n, "b": 999, "batch": key, "trials": 1}
        for key in range(keys)
        for d, n, spread in WIDE
    ]


def autoregression(rng: np.random.Generator, chains: int, draws: int, d: int) -> np.ndarray:
    """Chains whose every draw is N(0, I)."""
    noise = rng.standard_normal((chains, draws, d))
    noise[:, 1:] *= np.sqrt(1 - COEFFICIENT**2)
    return scipy.signal.lfilter([1], [1, -COEFFICIENT], noise, axis=1)


def stray_chains(case: str, rng: np.random.Generator, d: int) -> np.ndarray:
    """Four chains of which one, or all, are not where the model is."""
    x = rng.standard_normal((CHAINS, DRAWS, d))
    if case.startswith("off by"):
        x[2] += float(case[-1]) * np.eye(d)[0]
    elif case == "stuck in four places":
        x = 0.05 * x + 2 * rng.standard_normal((CHAINS, 1, d))
    else:  # one chain has come to the model half way, the others have been there all the time
        x[2, : DRAWS // 2] += 2 * np.eye(d)[0]
    return x


def draws_of(cell: dict) -> Iterator[tuple[int, np.ndarray]]:
    for trial in range(cell["batch"] * cell["trials"], (cell["batch"] + 1) * cell["trials"]):
        rng = np.random.default_rng([trial, cell["d"], len(cell["case"])])
        if cell["case"] == "independent":
            x = rng.standard_normal((1000, cell["d"]))
        elif cell["case"] == "AR(1) chains":
            x = autoregression(rng, CHAINS, 1000, cell["d"])
        elif cell["case"] in STRAYS:
            x = stray_chains(cell["case"], rng, cell["d"])
        else:
            x = rng.standard_normal((cell["n"], cell["d"]))
            x[:, 7] *= float(cell["case"].split()[1])
        yield trial, x.astype(np.float32)


def work(cell: dict) -> dict:
    import slicestein as ss

    start, pvalues, named, verdicts = time.process_time(), [], 0, []
    for trial, x in draws_of(cell):
        result = ss.gof_test(x, -x, key=trial, num_bootstrap=cell["b"])
        pvalues.append(round(result.pvalue, 6))
        verdicts.append(result.verdict)
        if cell["case"] in STRAYS:
            named += result.stray_chain == 2
        else:
            named += result.parameters[0].finding == "too narrow" and result.parameters[0].name == "x[7]"
    verdicts = {name: verdicts.count(name) for name in sorted(set(verdicts))}
    return {"pvalues": pvalues, "named": named, "verdicts": verdicts, "seconds": round(time.process_time() - start, 1)}


def groups(rows: list[dict]) -> dict[tuple[str, int, int], dict]:
    """By case, dimension and number of draws: p-values, and the share of trials in which what is wrong was named."""
    found: dict[tuple[str, int, int], dict] = {}
    for row in rows:
        group = found.setdefault((row["case"], row["d"], row["b"]), {"pvalues": [], "named": 0, "fits": 0})
        group["pvalues"] += row["pvalues"]
        group["named"] += row["named"]
        group["fits"] += row["verdicts"].get("fits", 0)
    return found


def lines(rows: list[dict]) -> list[list[str]]:
    """Case, D, B, trials, rejected, called right, named, and whether p-values are uniform where they should be."""
    out, order = [], ["independent", "AR(1) chains", *STRAYS]
    place = lambda key: (order.index(key[0]) if key[0] in order else len(order), *key[1:])
    found = groups(rows)
    for case, d, b in sorted(found, key=place):
        group = found[case, d, b]
        p = np.array(group["pvalues"])
        null = case in {name for name, _, _ in LEVELS}
        uniform = f"{scipy.stats.kstest(p, 'uniform').pvalue:.2f}" if null else ""
        nameless = null or case == "stuck in four places"
        named = "" if nameless else f"{group['named'] / len(p):.2f}"
        shares = (f"{share:.3f}" for share in (np.mean(p <= LEVEL), group["fits"] / len(p)))
        out.append([case, str(d), str(b), str(len(p)), *shares, named, uniform])
    return out


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0])
    rows = runner.run(f"calibration-{preset}", cells(preset), work)
    for line in lines(rows):
        print(" | ".join(line))


if __name__ == "__main__":
    main()
