"""Every claim of the paper beside what was found here: the table at the top of the experiments page.

Numbers of the paper are those of its tables and its text. Ours, and the verdicts, are computed from the result files
(`claims_testing`, `claims_training`); what is proved in the paper is a law that a test of ours checks.
"""

from collections.abc import Iterator

import numpy as np

from experiments import bnn, gaussian_gof, rbm_gof, runner, vae
from experiments import claims_testing as testing
from experiments import claims_training as training
from experiments.claim import NOT_SEEN, SAME, Claim

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
    (
        "KL falls at the rate of the discrepancy",
        "lem:S_SVGD and SKSD",
        "unit/samplers/test_forces.py",
        ("test_kl_falls_at_the_rate_of_the_discrepancy",),
        "",
        SAME,
    ),
    (
        "variance of U where model and samples differ",
        "eq: Asymptotic maxSKSD q neq q",
        "unit/test_null.py",
        ("test_power_is_that_of_repeated_experiments",),
        "four times as large",
        NOT_SEEN,
    ),
)


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


PARTS = (
    laws,
    testing.level,
    testing.gaussian,
    testing.rbm,
    testing.one_coordinate,
    testing.step_size,
    training.particles,
    training.networks,
    training.components,
    training.autoencoders,
    training.costs,
)


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
    half = np.mean([r["training_seconds"] for r in runner.load("vae-fifty")]) / 2 / 3600
    tuning = runner.load("bnn-tune")
    two_rates = sum(len(rates) == 2 for rates in bnn.LEARNING_RATES.values())
    third = np.mean([r["seconds"] for r in tuning]) * two_rates * len(bnn.METHODS) * 2 / 2 / 3600
    return (
        f"What was not run, in hours of two cores, from the seconds in the result files. *VAE at the paper's settings* "
        f"({full['epochs']} epochs, {full['samples']} latent samples, {cells} trainings): {low:.0f} hours if a step "
        f"costs what it does with {long['samples']} latent samples, {high:.0f} if its cost grows with them; HAIS of "
        f"{vae.EVALUATION['paper'][0][0]} images {cells * evaluating / 2 / 3600:.0f} more. *Two more seeds of "
        f"50 epochs with 20 latent samples at D = 32*, six trainings: {6 * half:.0f} hours. *A third learning rate "
        f"for the networks*, on the {two_rates} sets that have two: {third:.1f}. "
        f"*Boltzmann machines* over the other noises: {_hours_left('rbm_gof-paper', rbm_gof.cells('paper')):.1f}. "
        f"*Gaussian problems* up to 100 trials a point: "
        f"{_hours_left('gaussian_gof-curves', gaussian_gof.cells('curves'), 'method'):.1f}."
    )


def _hours_left(name: str, cells: list[dict], *by: str) -> float:
    """Hours of two cores for the cells that have no line, each at the mean of the lines that are like it."""
    rows = runner.load(name)
    kind = lambda row: tuple(row[key] for key in by)
    seconds = {like: np.mean([r["seconds"] for r in rows if kind(r) == like]) for like in {kind(r) for r in rows}}
    return (sum(seconds[kind(cell)] for cell in cells) - sum(seconds[kind(row)] for row in rows)) / 2 / 3600
