"""Every claim of the paper beside what was found here: the table at the top of the experiments page.

Numbers of the paper are those of its tables and its text. Ours, and the verdicts, are computed from the result files
here; what is proved in the paper is a law that a test of ours checks.

| verdict | when |
| --- | --- |
| same | the claim holds, beyond two standard errors where it has some |
| better | it holds, by more than in the paper |
| not seen | ours say otherwise, or less |
| not decidable here | the difference is within two standard errors, or needs settings that were not run |
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.stats

from experiments import bnn, gaussian_gof, ica, rbm_gof, runner, sensitivity, sghmc_step, vae

SAME, BETTER, NOT_SEEN, OPEN = "same", "better", "not seen", "not decidable here"
VERDICTS = (SAME, BETTER, NOT_SEEN, OPEN)
BASELINES = tuple(m for m in gaussian_gof.METHODS if not m.startswith("maxsksd"))
NEARLY_ALWAYS = 0.9
SURE = 2.0  # standard errors


class Claim(NamedTuple):
    """A line of the table; ``source`` is a result file, or the tests of a law."""

    what: str
    label: str
    paper: str
    here: str
    verdict: str
    source: str


def verdict(holds: bool, better: bool = False) -> str:
    return (BETTER if better else SAME) if holds else NOT_SEEN


def sign(mean: float, error: float) -> str:
    """Whether a mean is positive as claimed, beyond its error."""
    return OPEN if abs(mean) < SURE * error else verdict(mean > 0)


def plus_minus(values) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


# --- laws --------------------------------------------------------------------------------------

LAWS = (
    (
        "zero for the model itself, a squared norm else",
        "thm: Validity of SKSD",
        "test_stein_laws.py",
        ("test_the_model_itself_has_discrepancy_zero", "test_v_is_a_squared_norm"),
        SAME,
    ),
    (
        "closed form of the best test function",
        "thm: SKSD Analytic form",
        "test_stein_laws.py",
        ("test_witness_reproduces_the_discrepancy",),
        SAME,
    ),
    (
        "a mean over random g estimates the integral",
        "eq: SKSD",
        "test_stein_laws.py",
        ("test_random_directions_estimate_the_integral",),
        SAME,
    ),
    (
        "the form with a deep kernel",
        "thm: Deep Kernel",
        "test_engines_agree.py",
        ("test_deep_kernel_is_the_double_loop",),
        SAME,
    ),
    (
        "G = I is best if both factorise",
        "eq: Closed form maxSSD g",
        "test_closed_form.py",
        ("test_the_identity_is_the_optimum", "test_ascent_reaches_it"),
        SAME,
    ),
)
OTHER_LAWS = (
    ("KL falls at the rate of the discrepancy", "lem:S_SVGD and SKSD", "unit/samplers/test_particles.py",
     ("test_kl_falls_at_the_rate_of_the_discrepancy",), "", SAME),
    ("variance of U where model and samples differ", "eq: Asymptotic maxSKSD q neq q", "unit/test_null.py",
     ("test_power_is_that_of_repeated_experiments",), "four times as large", NOT_SEEN),
)  # fmt: skip


def laws() -> Iterator[Claim]:
    for what, label, file, tests, found in LAWS:
        yield Claim(
            what, label, "proved", f"{len(tests)} laws" if len(tests) > 1 else "a law", found, f"tests/laws/{file}"
        )
    for what, label, file, _, here, found in OTHER_LAWS:
        yield Claim(what, label, "proved" if found == SAME else "stated", here or "a test", found, f"tests/{file}")


def tests_of_laws() -> list[tuple[str, str]]:
    """File and function of every test that stands for a claim."""
    inside = [(f"tests/laws/{file}", test) for _, _, file, tests, _ in LAWS for test in tests]
    return inside + [(f"tests/{file}", test) for _, _, file, tests, _, _ in OTHER_LAWS for test in tests]


# --- goodness of fit ---------------------------------------------------------------------------


def gaussian() -> Iterator[Claim]:
    name, figure = "gaussian_gof-curves", "fig:High dimensional benchmark GOF test"
    rows = runner.load(name)
    rates = {(p, m, d): found for (p, m, d, _), found in gaussian_gof.rates(rows).items()}
    dims = sorted({d for _, m, d in rates if m == "maxsksd-g-published"})
    largest = dims[-1]
    for problem in ("laplace", "t", "diffusion"):
        mine = [rates[problem, "maxsksd-g-published", d][0] for d in dims]
        trials = min(rates[problem, "maxsksd-g-published", d][1] for d in dims)
        here = f"{min(mine):.2f} to {max(mine):.2f} at D = {dims[0]} to {largest}, {trials} trials each"
        yield Claim(
            f"maxSKSD-g, as published, rejects {problem} at every D up to 100", figure, "nearly 1", here,
            verdict(min(mine) >= NEARLY_ALWAYS), name,
        )  # fmt: skip
    for problem in ("laplace", "t", "diffusion"):
        first, last = ({m: rates[problem, m, d][0] for m in BASELINES} for d in (dims[0], largest))
        best = max(last, key=last.get)
        here = f"largest: {max(first.values()):.2f} at D = {dims[0]}, {last[best]:.2f} ({best}) at D = {largest}"
        yield Claim(
            f"baselines lose their power on {problem}", figure, "all fall", here, verdict(last[best] < 0.5), name
        )
    for method in ("maxsksd-g-published", "rfsd-l2sech"):
        hits = [r["pvalue"] <= 0.05 for r in rows if (r["method"], r["problem"]) == (method, "null")]
        low, high = scipy.stats.binomtest(sum(hits), len(hits), 0.05).proportion_ci(0.95, "exact")
        keeps = low <= 0.05 <= high
        what = (
            "maxSKSD-g, as published, keeps the level"
            if method.startswith("max")
            else "RFSD L2-SechExp does not keep it"
        )
        claimed = keeps if method.startswith("max") else not keeps
        here = f"{np.mean(hits):.3f} of {len(hits)} (95%: {low:.3f} to {high:.3f})"
        yield Claim(what, figure, "near 0.05" if method.startswith("max") else "off", here, verdict(claimed), name)
    yield from _growth(rows, dims, name, figure)


def _growth(rows: list[dict], dims: list[int], name: str, figure: str) -> Iterator[Claim]:
    """How the discrepancy itself grows with the dimension."""

    def values(problem: str) -> np.ndarray:
        mine = [r for r in rows if (r["method"], r["problem"]) == ("maxsksd-g-published", problem)]
        return np.array([np.mean([r["statistic"] for r in mine if r["d"] == d]) for d in dims])

    for problem in ("laplace", "t"):
        power = np.polyfit(np.log(dims), np.log(values(problem)), 1)[0]
        yield Claim(
            f"its value grows with D on {problem}", figure, "linearly", f"as D to the power {power:.2f}",
            verdict(abs(power - 1) < 0.25), name,
        )  # fmt: skip
    found = values("diffusion")
    yield Claim(
        "its value on diffusion does not fade", figure, "falls at first, then constant",
        f"{', '.join(f'{v:.2g}' for v in found)} at D = {', '.join(map(str, dims))}",
        verdict(found[-1] > 0.5 * found[2]), name,
    )  # fmt: skip


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
    name, label = "rbm_gof-claims", "fig: RBM_All"
    found = {m: rate for (_, m), (rate, _) in rbm_gof.rates(runner.load(name), "fixed").items()}
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
    for kind in ("g-published", "rg-published"):
        method = f"maxsksd-{kind}"
        if not any(r["method"] == method for r in rows):
            continue
        mean, small, large = rate(method, 0.2, 1.0), rate(method, 0.0, 0.75), rate(method, 0.0, 0.5)
        ours = f"shift 0.2: {mean:.2f} (KSD {shifts[1]:.2f}); variance 0.75, 0.5: {small:.2f}, {large:.2f}"
        if kind.startswith("g"):
            text = "maxSKSD-g, as published: small changes of variance, not the shift"
            yield Claim(text, label, "sees; less than KSD", ours, verdict(small > 0.5 and mean < shifts[1]), name)
        else:
            text = "maxSKSD-rg, as published: both, better than KSD and -g"
            other = rate("maxsksd-g-published", 0.0, 0.75)
            yield Claim(text, label, "most sensitive", ours, verdict(mean >= shifts[1] and small >= other), name)
    yield from _spread_with_dimension(rows, name)


def _spread_with_dimension(rows: list[dict], name: str) -> Iterator[Claim]:
    line = [r for r in rows if (r["shift"], r["variance"]) == (0.25, 1.0)]
    for kind, paper in (("g", "grows"), ("rg", "does not grow")):
        method = f"maxsksd-{kind}-published"
        dims = sorted({r["d"] for r in line if r["method"] == method})
        if not dims:
            continue
        values = [[r["statistic"] for r in line if (r["method"], r["d"]) == (method, d)] for d in (dims[0], dims[-1])]
        # The sum of D equal slices is D times one: the paper drops that factor.
        ratio = np.std(values[1]) / np.std(values[0]) / (dims[-1] / dims[0] if kind == "rg" else 1)
        here = f"{ratio:.1f} times from D = {dims[0]} to {dims[-1]}" + (", per slice" if kind == "rg" else "")
        holds = ratio > 1.5 if kind == "g" else ratio < 1.5
        yield Claim(
            f"spread of maxSKSD-{kind}, as published, with D", "fig:variance dim", paper, here, verdict(holds), name
        )


def step_size() -> Iterator[Claim]:
    name, label = "sghmc_step-paper", "tab: SGHMC Convergence"
    rows = runner.load(name)
    longest = sghmc_step.STEP_SIZES.index
    apart = {m: [] for m in sghmc_step.MEASURES[1:]}
    for chosen in sghmc_step.choices(rows).values():
        for measure, gaps in apart.items():
            gaps.append(longest(chosen[measure]) - longest(chosen["kl"]))
    shares = {m: float(np.mean(np.array(gaps) > 1)) for m, gaps in apart.items()}
    cost = {m: float(np.mean([sghmc_step.excess(r, m) for r in rows])) for m in apart}
    here = f"two or more grid steps longer on {shares['ksd']:.2f} of {len(rows)} targets"
    yield Claim(
        "KSD chooses steps far too long", label, "0.013 to 0.015, KL 0.004", here, verdict(shares["ksd"] > 0.5), name
    )
    here = f"KL above the least: {', '.join(f'{m} {value:.3f}' for m, value in cost.items())}"
    yield Claim(
        "maxSKSD chooses better ones", label, "KL 0.20 and 0.26 against 1.46", here,
        verdict(max(cost["maxsksd-g"], cost["maxsksd-rg"]) < cost["ksd"]), name,
    )  # fmt: skip


# --- particles, training -----------------------------------------------------------------------


def particles() -> Iterator[Claim]:
    name, label = "svgd_variance-quick", "fig: S_SVGD_Gaussian"
    rows = {(r["method"], r["d"], r["particles"]): r for r in runner.load(name)}
    dims, counts = (sorted({key[i] for key in rows}) for i in (1, 2))
    collapsed = [rows["svgd", dims[-1], n]["variance"] for n in counts]
    here = f"{', '.join(f'{v:.2f}' for v in collapsed)} at D = {dims[-1]}, N = {', '.join(map(str, counts))}"
    yield Claim(
        "variance of SVGD falls with D", label, "to 0 with few particles", here, verdict(collapsed[0] < 0.5), name
    )
    kept = [rows["s-svgd", d, n]["variance"] for d in dims for n in counts]
    here = f"{min(kept):.2f} to {max(kept):.2f}, D = {dims[0]} to {dims[-1]}"
    yield Claim("variance of S-SVGD stays", label, "1", here, verdict(min(kept) > 0.85 and max(kept) < 1.15), name)
    fades = {m: rows[m, dims[-1], 50]["parf"] / rows[m, dims[0], 50]["parf"] for m in ("svgd", "s-svgd")}
    here = f"at D = {dims[-1]} over D = {dims[0]}: SVGD {fades['svgd']:.2f}, S-SVGD {fades['s-svgd']:.2f}"
    holds = fades["svgd"] < 0.2 and fades["s-svgd"] > 0.5
    yield Claim("repulsive force fades for SVGD only", "fig: S_SVGD_Gaussian_Stat", "so", here, verdict(holds), name)


def networks() -> Iterator[Claim]:
    name, label = "bnn-paper", "Tab: BNN LL"
    rows = runner.load(name, bnn.cells("paper"))
    gaps = {data: np.subtract(*bnn.paired(rows, data, "log_likelihood")[::-1]) for data in bnn.SETTINGS}
    found = {data: plus_minus(gap) for data, gap in gaps.items()}
    ahead, sure, behind = (
        sum(test(*pair) for pair in found.values())
        for test in (lambda m, _: m > 0, lambda m, e: m > SURE * e, lambda m, e: m < -SURE * e)
    )
    paper = sum(values[3] > values[1] for values in bnn.PAPER.values())
    here = f"{ahead} of {len(found)}; beyond two standard errors ahead on {sure}, behind on {behind}"
    yield Claim(
        "S-SVGD has the higher log-likelihood", label, f"{paper} of {len(bnn.PAPER)}", here,
        verdict(ahead >= paper) if behind == 0 else NOT_SEEN, name,
    )  # fmt: skip
    wider = sum(np.diff(bnn.paired(rows, data, "spread").mean(1))[0] > 0 for data in found)
    here = f"{wider} of {len(found)}"
    yield Claim("its particles are further apart", label, "9 of 9", here, verdict(wider == len(found)), name)
    closer = sum(bnn.paired(rows, d, "log_likelihood")[1].mean() >= bnn.PAPER[d][3] for d in found)
    yield Claim(
        "its log-likelihoods", label, "as in the table", f"as high or higher on {closer} of {len(found)}",
        verdict(closer > len(found) / 2, better=closer > len(found) / 2), name,
    )  # fmt: skip


def components() -> Iterator[Claim]:
    name, label = "ica-paper", "tab: ICA NLL"
    rows = runner.load(name)
    gap = {
        (m, d): [r["gap"] for r in sorted(rows, key=lambda r: r["seed"]) if (r["method"], r["d"]) == (m, d)]
        for m in ica.METHODS
        for d in sorted({r["d"] for r in rows})
    }
    paper = ica.PAPER
    behind, far_behind = (np.mean(gap["ksd", d]) - np.mean(gap["lsd", d]) for d in (40, 200))
    yield Claim(
        "KSD fails from D = 40 on", label, f"{paper['ksd'][40] - paper['lsd'][40]:.1f} behind LSD at 40",
        f"{behind:.1f} at 40, {far_behind:.0f} at 200", verdict(behind < -5), name,
    )  # fmt: skip
    for d in (80, 100, 200):
        runs = min(len(gap["maxsksd-g", d]), len(gap["lsd", d]))
        mean, error = plus_minus(np.subtract(gap["maxsksd-g", d][:runs], gap["lsd", d][:runs]))
        yield Claim(
            f"maxSKSD-g ahead of LSD at D = {d}", label, f"{paper['maxsksd-g'][d] - paper['lsd'][d]:+.2f}",
            f"{mean:+.2f} ± {error:.2f}, {runs} runs", sign(mean, error), name,
        )  # fmt: skip
    when = {m: _steps_to(rows, m) for m in ("maxsksd-g", "lsd")}
    here = f"twice the gap of the covariance alone after {when['maxsksd-g']} steps, LSD {when['lsd']}"
    yield Claim(
        "maxSKSD-g converges faster at D = 200", "fig: ICA Training Curve", "so", here,
        verdict(when["maxsksd-g"] < when["lsd"]), name,
    )  # fmt: skip
    runs = min(len(gap["maxsksd-rg", 200]), len(gap["maxsksd-g", 200]))
    mean, error = plus_minus(np.subtract(gap["maxsksd-g", 200][:runs], gap["maxsksd-rg", 200][:runs]))
    here = f"{-mean:+.1f} ± {error:.1f} at D = 200, {runs} runs"
    yield Claim("maxSKSD-rg is the worse loss", "fig:ICA g rg comparison", "so", here, sign(mean, error), name)


def _steps_to(rows: list[dict], method: str) -> int:
    """Steps until the mean gap at D = 200 is twice that of the covariance alone; beyond the last if never."""
    mine = [r for r in rows if (r["method"], r["d"]) == (method, 200)]
    curve, bound = np.mean([r["curve"] for r in mine], axis=0), 2 * np.mean([r["covariance_gap"] for r in mine])
    reached = np.flatnonzero(curve > bound)
    return int(mine[0]["every"] * (1 + (reached[0] if len(reached) else len(curve))))


def autoencoders() -> Iterator[Claim]:
    name, label = "vae-long", "tab: Amortized SVGD LL"
    found = {(r["method"], r["dim"]): r for r in runner.load(name)}
    paper = {m: dict(zip(vae.DIMS, values, strict=True)) for m, values in vae.PAPER.items()}
    for other, dim in (("svgd", 16), ("svgd", 32), ("svgd", 48), ("svgd", 64), ("vae", 32), ("vae", 64)):
        mean, error = plus_minus(np.subtract(found["s-svgd", dim]["log_p"], found[other, dim]["log_p"]))
        printed = paper["s-svgd"][dim] - paper[other][dim]
        yield Claim(
            f"S-SVGD less {other.upper()}, D = {dim}", label, f"{printed:+.2f}", f"{mean:+.2f} ± {error:.2f}",
            OPEN if abs(mean) < SURE * error else verdict(np.sign(mean) == np.sign(printed)), name,
        )  # fmt: skip
    entropy, accuracy = ({m: found[m, vae.IMPUTED_DIM][what] for m in paper} for what in ("entropy", "accuracy"))
    printed = vae.PAPER_IMPUTED
    label = "tab: Label entropy"
    here = f"{entropy['s-svgd'] - entropy['vae']:+.3f}"
    yield Claim(
        "imputation: S-SVGD more varied than the VAE", label, f"{printed['s-svgd'][0] - printed['vae'][0]:+.3f}", here,
        verdict(entropy["s-svgd"] > entropy["vae"]), name,
    )  # fmt: skip
    here = f"{accuracy['s-svgd'] - accuracy['svgd']:+.3f}"
    yield Claim(
        "imputation: more accurate than SVGD", label, f"{printed['s-svgd'][1] - printed['svgd'][1]:+.3f}", here,
        verdict(accuracy["s-svgd"] > accuracy["svgd"]), name,
    )  # fmt: skip


def costs() -> Iterator[Claim]:
    name = "bnn-paper"
    rows = runner.load(name, bnn.cells("paper"))
    seconds = bnn.paired(rows, "boston", "seconds").mean(1)
    ratio = seconds[1] / seconds[0]
    here = f"{ratio:.1f}"
    yield Claim(
        "cost of S-SVGD over SVGD, networks",
        'section "Time Complexity"',
        "2.3",
        here,
        verdict(ratio < 4.6, ratio < 2.3),
        name,
    )
    found = {(r["method"], r["dim"]): r["seconds_per_step"] for r in runner.load("vae-long")}
    ratio = found["s-svgd", 32] / found["svgd", 32]
    yield Claim(
        "the same, encoders", 'section "Time Complexity"', "1.1", f"{ratio:.2f}", verdict(ratio < 1.5), "vae-long"
    )


PARTS = (laws, level, gaussian, rbm, one_coordinate, step_size, particles, networks, components, autoencoders, costs)


def claims() -> list[Claim]:
    """All of them, in the order of the paper: theory, tests, particles, training, cost."""
    return [claim for part in PARTS for claim in part()]


# --- what was not run --------------------------------------------------------------------------


def what_it_would_take() -> str:
    """Hours of two cores for the paper's settings of what was run with smaller ones, from the recorded seconds."""
    rows = runner.load("vae-long")
    long, full = vae.TRAINING["long"], vae.TRAINING["paper"]
    steps = full["epochs"] * full["batches"] / (long["epochs"] * long["batches"])
    training = np.mean([r["training_seconds"] for r in rows])
    factor = full["samples"] / long["samples"]
    works = [np.prod(vae.EVALUATION[preset][0], dtype=float) for preset in ("long", "paper")]
    evaluating = np.mean([r["evaluation_seconds"] for r in rows]) * works[1] / works[0]
    cells = len(vae.cells("paper"))
    low, high = (cells * (training * steps * f) / 2 / 3600 for f in (1, factor))
    schedule = 50 / long["epochs"] * training * 2 / 2 / 3600  # 50 epochs, twice the latent samples, on one of two cores
    tuning = runner.load("bnn-tune")
    third = np.mean([r["seconds"] for r in tuning]) * len(bnn.SETTINGS) * len(bnn.METHODS) * 2 / 2 / 3600
    return (
        f"What was not run, in hours of two cores, from the seconds in the result files. *VAE at the paper's settings* "
        f"({full['epochs']} epochs, {full['samples']} latent samples, {cells} trainings): {low:.0f} hours if a step "
        f"costs what it does with {long['samples']} latent samples, {high:.0f} if its cost grows with them; HAIS of "
        f"{vae.EVALUATION['paper'][0][0]} images {cells * evaluating / 2 / 3600:.0f} more. *50 epochs with 20 latent "
        f"samples*: at most {schedule:.1f} hours a training, so six of them (three methods, D = 32 and 64) "
        f"{6 * schedule:.0f}. *A third learning rate for the networks*, all sets and both kernels: {third:.1f}."
    )
