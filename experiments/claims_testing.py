"""Claims of the paper about tests: level, power, single coordinates, step sizes of a sampler."""

from collections.abc import Iterator

import numpy as np
import scipy.stats

from experiments import gaussian_gof, rbm_gof, runner, sensitivity, sghmc_step
from experiments.claim import OPEN, SURE, Claim, plus_minus, sign, verdict

BASELINES = tuple(m for m in gaussian_gof.METHODS if not m.startswith("maxsksd"))
NEARLY_ALWAYS = 0.9
AT = ((0.2, 1.0), (0.0, 0.5), (0.0, 0.75))  # shift and variance of one coordinate
FEWEST = 10  # trials that decide anything
ENOUGH = 500  # trials, to say that a level is kept


def gaussian() -> Iterator[Claim]:
    name, figure = "gaussian_gof-curves", "fig:High dimensional benchmark GOF test"
    rows = runner.load(name)
    rates = {(p, m, d): found for (p, m, d, _), found in gaussian_gof.rates(rows).items()}
    dims = sorted({d for _, m, d in rates if m == "maxsksd-g-published"})
    largest = dims[-1]
    for problem in ("laplace", "t", "diffusion"):
        mine = [rates[problem, "maxsksd-g-published", d] for d in dims]
        least, trials = (min(found[i] for found in mine) for i in (0, 1))
        rate, count = mine[-1]
        low, _ = gaussian_gof.band(rate, count)
        here = (
            f"{least:.2f} or more, {trials} trials a point; D = {largest}: {rate:.2f} of {count} (95%: from {low:.2f})"
        )
        what = f"maxSKSD-g, as published, rejects {problem} at every D"
        yield Claim(what, figure, "nearly 1", here, verdict(least >= NEARLY_ALWAYS), name)
    for problem in ("laplace", "t", "diffusion"):
        first, last = ({m: rates[problem, m, d][0] for m in BASELINES} for d in (dims[0], largest))
        best = max(last, key=last.get)
        here = f"largest: {max(first.values()):.2f} at D = {dims[0]}, {last[best]:.2f} ({best}) at D = {largest}"
        yield Claim(
            f"baselines lose their power on {problem}", figure, "all fall", here, verdict(last[best] < 0.5), name
        )
    level = {}
    for method in ("maxsksd-g-published", "rfsd-l2sech"):
        hits = [r["pvalue"] <= 0.05 for r in rows if (r["method"], r["problem"]) == (method, "null")]
        low, high = scipy.stats.binomtest(sum(hits), len(hits), 0.05).proportion_ci(0.95, "exact")
        level[method] = (
            f"{np.mean(hits):.3f} of {len(hits)} (95%: {low:.3f} to {high:.3f})",
            low <= 0.05 <= high,
            len(hits),
        )
    here, keeps, _ = level["maxsksd-g-published"]
    yield Claim("maxSKSD-g, as published, keeps the level", figure, "near 0.05", here, verdict(keeps), name)
    here, keeps, count = level["rfsd-l2sech"]
    found = OPEN if keeps and count < ENOUGH else verdict(not keeps)
    yield Claim("RFSD L2-SechExp does not", figure, "off", here, found, name)
    yield from _growth(rows, dims, name, figure)


def _statistics(rows: list[dict], problem: str, d: int) -> list[float]:
    wanted = ("maxsksd-g-published", problem, d)
    return [r["statistic"] for r in rows if (r["method"], r["problem"], r["d"]) == wanted]


def _growth(rows: list[dict], dims: list[int], name: str, figure: str) -> Iterator[Claim]:
    """How the discrepancy itself grows with the dimension."""

    def values(problem: str) -> np.ndarray:
        return np.array([np.mean(_statistics(rows, problem, d)) for d in dims])

    for problem in ("laplace", "t"):
        power = np.polyfit(np.log(dims), np.log(values(problem)), 1)[0]
        yield Claim(
            f"its value grows with D on {problem}",
            figure,
            "linearly",
            f"as D to the power {power:.2f}",
            verdict(abs(power - 1) < 0.25),
            name,
        )
    found = values("diffusion")
    middle, last = (plus_minus(_statistics(rows, "diffusion", d)) for d in (50, dims[-1]))
    fallen = middle[0] - last[0] > SURE * np.hypot(middle[1], last[1])
    here = f"{', '.join(f'{v:.2g}' for v in found)} at D = {', '.join(map(str, dims))}"
    paper = "falls at first, then constant"
    yield Claim("its value on diffusion does not fade", figure, paper, here, verdict(not fallen), name)


def level() -> Iterator[Claim]:
    name = "gaussian_gof-claims"
    rows = [r for r in runner.load(name) if (r["problem"], r["method"]) == ("null", "maxsksd-g")]
    for bootstrap, what, label in (
        ("eigenvalues", "weighted chi-square null", "eq: Asymptotic maxSKSD q=p"),
        ("multinomial", "multinomial bootstrap, counts / N", "eq: Bootstrap samples"),
    ):
        p = [r["pvalue"] for r in rows if r["bootstrap"] == bootstrap]
        uniform = scipy.stats.kstest(p, "uniform").pvalue
        here = f"{np.mean(np.array(p) <= 0.05):.3f} of {len(p)} rejected; uniform: KS test {uniform:.2f}"
        yield Claim(what, label, "consistent", here, verdict(uniform > 0.01), name)


def rbm() -> Iterator[Claim]:
    name, label = "rbm_gof-paper", "fig: RBM_All"
    found = {m: rate for (level, m), (rate, _) in rbm_gof.rates(runner.load(name), "fixed").items() if level == 0.01}
    slices = found["maxsksd-rg, slices alone"]
    yield Claim("maxSKSD-rg at noise 0.01", label, "0.96", f"{slices:.2f}, one model", verdict(slices >= 0.91), name)
    others = {m: rate for m, rate in found.items() if not m.startswith("maxsksd-rg")}
    best = max(others, key=others.get)
    here = f"largest {others[best]:.2f} ({best})"
    yield Claim("all others at noise 0.01", label, "below 0.5", here, verdict(others[best] < 0.5), name)


def one_coordinate() -> Iterator[Claim]:
    name, label = "sensitivity-quick", "fig:sensitivity"
    rows = runner.load(name)

    def rate(method: str, shift: float, variance: float) -> float:
        return sensitivity.rate(rows, d=50, method=method, shift=shift, variance=variance)

    shifts = [rate("ksd", s, 1.0) for s in (0.1, 0.2)]
    here = f"{shifts[0]:.2f} at 0.1, {shifts[1]:.2f} at 0.2"
    yield Claim("KSD sees a mean shift, D = 50", label, "beyond 0.18", here, verdict(shifts[0] < 0.5 < shifts[1]), name)
    blind = max(rate("ksd", 0.0, v) for v in (0.5, 0.75, 1.35))
    yield Claim("KSD sees no change of variance", label, "none", f"at most {blind:.2f}", verdict(blind < 0.2), name)
    for kind, what, paper in (
        ("g", "maxSKSD-g sees small changes of variance, shifts less than KSD", "so"),
        ("rg", "maxSKSD-rg sees both best", "more than KSD and -g"),
    ):
        method = f"maxsksd-{kind}-published"
        cells = [(r["shift"], r["variance"]) for r in rows if (r["method"], r["d"]) == (method, 50)]
        trials = min(cells.count(at) for at in AT)
        if trials:
            mean, large, small = (rate(method, *at) for at in AT)
            here = f"as published, shift 0.2: {mean:.2f}; variance 0.5, 0.75: {large:.2f}, {small:.2f}; {trials} trials"
            other = small > 0.5 and mean < shifts[1] if kind == "g" else mean >= shifts[1] and small > 0.5
            yield Claim(what, label, paper, here, verdict(other) if trials >= FEWEST else OPEN, name)
    yield from _spread_with_dimension(rows, name)


def _spread_with_dimension(rows: list[dict], name: str) -> Iterator[Claim]:
    line = [r for r in rows if (r["shift"], r["variance"]) == (0.25, 1.0)]
    for kind, paper in (("g", "grows"), ("rg", "does not grow")):
        mine = [r for r in line if r["method"] == f"maxsksd-{kind}-published"]
        if not mine:
            continue
        first, last = (end(r["d"] for r in mine) for end in (min, max))
        values = [[r["statistic"] for r in mine if r["d"] == d] for d in (first, last)]
        # The sum of D equal slices is D times one: the paper drops that factor.
        ratio = np.std(values[1]) / np.std(values[0]) / (last / first if kind == "rg" else 1)
        trials = min(map(len, values))
        per_slice = ", per slice" if kind == "rg" else ""
        here = f"{ratio:.2f} times from D = {first} to {last}{per_slice}; {trials} trials"
        found = verdict(ratio > 1.5 if kind == "g" else ratio < 1.5) if trials >= FEWEST else OPEN
        yield Claim(f"spread of maxSKSD-{kind}, as published, with D", "fig:variance dim", paper, here, found, name)


def step_size() -> Iterator[Claim]:
    name, label = "sghmc_step-paper", "tab: SGHMC Convergence"
    rows = runner.load(name)
    longest = sghmc_step.STEP_SIZES.index
    apart = {m: [] for m in sghmc_step.MEASURES[1:]}
    for chosen in sghmc_step.choices(rows).values():
        for measure, gaps in apart.items():
            gaps.append(longest(chosen[measure]) - longest(chosen["kl"]))
    shares = {m: float(np.mean(np.array(gaps) > 1)) for m, gaps in apart.items()}
    too_long = [f"{line[4]} of {line[2]}" for line in sghmc_step.findings(rows) if line[1] == "ksd"]
    conditions = ", ".join(str(condition) for condition in sorted({r["condition"] for r in rows}))
    here = f"by two grid steps or more on {', '.join(too_long)} targets of condition {conditions}"
    yield Claim(
        "KSD chooses steps far too long", label, "0.013 to 0.015, KL 0.004", here, verdict(shares["ksd"] > 0.5), name
    )
    stiffest = [r for r in rows if r["condition"] == max(r["condition"] for r in rows)]
    for measure in ("maxsksd-g", "maxsksd-rg"):
        gained = [sghmc_step.excess(r, "ksd") - sghmc_step.excess(r, measure) for r in stiffest]
        mean, error = plus_minus(gained)
        here = f"KL at its step lower by {mean:.3f} ± {error:.3f}, condition {stiffest[0]['condition']}"
        paper = "KL 0.20 against 1.46" if measure == "maxsksd-g" else "KL 0.26 against 1.46"
        yield Claim(f"{measure} chooses better ones", label, paper, here, sign(mean, error), name)
