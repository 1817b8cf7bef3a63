"""What ``slicestein`` does: test, quality, demo, reproduce. Needs typer and rich (extra ``cli``).

Options and files are checked before the work, the verdict is printed when it is known, and files are written last.
"""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import jax
import typer

from slicestein import quality
from slicestein._checks import InputError
from slicestein._cli import demo, inputs, interrupt, output, stan
from slicestein._cli.inputs import Data, ScoreFn, TargetKind
from slicestein._stein import compiled
from slicestein.gof.door import gof_test, least_draws
from slicestein.gof.result import GofResult
from slicestein.rows.opening import files_of, open_rows

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Do samples fit a model that is known through its score?",
)

Target = Annotated[
    str | None,
    typer.Option(metavar="MODULE:FUNCTION", help="The model: a function of JAX or PyTorch, importable."),
]
Kind = Annotated[
    TargetKind | None,
    typer.Option(
        help="The target is a log-density of one sample (D,), or a score of a batch (N, D).",
        show_default=TargetKind.log_density.value,
    ),
]
Key = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed; the same seed gives the same answer.")]
Chains = Annotated[
    int | None, typer.Option(min=1, help="The rows are so many chains of equal length, one after another.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _print_version(asked: bool) -> None:
    if asked:
        kernels = "with compiled kernels" if compiled.AVAILABLE else "without compiled kernels"
        python, own, of_jax = platform.python_version(), version("slicestein"), version("jax")
        print(f"slicestein {own} {kernels}, Python {python}, jax {of_jax}")
        if not compiled.AVAILABLE:
            print(compiled.WITHOUT)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    jax.config.update("jax_enable_x64", True)  # the process is ours


@app.command(name="test")
def run_test(
    samples: Annotated[
        list[Path],
        typer.Argument(
            help="Samples: .npy, .npz, .csv, .parquet, ArviZ .nc or .zarr; a folder or a pattern; several with --stan."
        ),
    ],
    score: Annotated[
        Path | None, typer.Option(help="Scores, in a file of the same shape; an .npz, or a nutpie .nc, may hold both.")
    ] = None,
    target: Target = None,
    target_kind: Kind = None,
    method: Annotated[str, typer.Option(help="Test to use, as in gof_test.")] = "auto",
    alpha: Annotated[float, typer.Option(help="Level of the test.")] = 0.05,
    num_bootstrap: Annotated[int, typer.Option(min=1, help="Draws from the null.")] = 1000,
    key: Key = 0,
    chains: Chains = None,
    from_stan: Annotated[
        bool, typer.Option("--stan", help="SAMPLES are diagnostic files of CmdStan, or a pattern for them.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write a report to this .html file.")] = None,
    arrays: Annotated[Path | None, typer.Option(help="Write null draws and slices to this .npz file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    as_json: Json = False,
    dask: Annotated[
        str | None,
        typer.Option(metavar="local|ADDRESS", help="Work on a Dask cluster: of this machine, or tcp://HOST:PORT."),
    ] = None,
) -> None:
    """Test whether SAMPLES fit the model. Status 0: they may; 1: they do not; 2: bad input; 3: cannot be told."""
    if from_stan:
        stan.check_alone(score=score, target=target, target_kind=target_kind, chains=chains, dask=dask)
    else:
        score = inputs.scores_of_one(samples, score, target, target_kind, stan.OTHERWISE)
    _check_options(method, alpha, num_bootstrap)
    files = output.Files(report, arrays)
    files.check(force=force, inputs=(*(file for path in samples for file in files_of(path)), score))
    options: dict[str, Any] = {"key": key, "method": method, "alpha": alpha, "num_bootstrap": num_bootstrap}
    if from_stan:
        data, notes = stan.read(samples)
        result = gof_test(data, **options)
        result = dataclasses.replace(result, notes=(*result.notes, *notes))
    else:
        score_fn = None if target is None else inputs.load_target(target, target_kind)
        if inputs.of_nutpie(score) and dask is not None:
            raise InputError(f"{score}: scores in an .nc are read into memory: leave --dask out")
        if dask is None and not inputs.are_streamed(samples[0], score):
            result, data = _test_in_memory(samples[0], score, score_fn, chains, options)
        else:
            with inputs.connected(dask, target):
                result, data = _test_streamed(samples[0], score_fn or score, chains, dask is not None, options)
    if as_json:
        output.print_json({"samples": " ".join(map(str, samples)), **output.verdict(result)})
    else:
        output.show(result, data.x)
    settings = {"samples": " ".join(map(str, samples)), "model": score or target or "CmdStan", "key": key}
    files.write(result, data, title=f"Does {samples[0].name} fit?", settings=settings)
    output.tell(report, as_json)
    raise typer.Exit({"fits": 0, "wrong": 1, "undecided": 3}[result.verdict])


def _test_streamed(
    samples: Path, score: Path | ScoreFn | None, chains: int | None, on_dask: bool, options: Any
) -> tuple[GofResult, Data]:
    rows = open_rows(samples, score, chains=chains, dtype=float, dask=on_dask)
    return gof_test(rows, **options), inputs.some_rows(rows)


def _test_in_memory(
    samples: Path, score: Path | None, score_fn: ScoreFn | None, chains: int | None, options: Any
) -> tuple[GofResult, Data]:
    data = inputs.read(samples, score, chains)
    data = data if score_fn is None else inputs.with_scores(data, score_fn)
    if inputs.of_nutpie(score):  # draws of an adapter
        return gof_test(data, **options), data
    return gof_test(data.x, data.score, names=data.names, **options), data


def _check_options(method: str, alpha: float, num_bootstrap: int) -> None:
    if method == "mmd":
        raise InputError("mmd compares with draws of the model: use gof_test from Python")
    if not 0 < alpha < 1:
        raise InputError(f"--alpha must lie between 0 and 1, got {alpha:g}")
    if num_bootstrap < (least := least_draws(alpha)):
        raise InputError(f"--num-bootstrap {num_bootstrap} cannot reach --alpha {alpha:g}: use at least {least} draws")


@app.command(name="quality")
def rank(
    samples: Annotated[list[Path], typer.Argument(help="Sample sets: a file each, or a folder or a pattern of files.")],
    score: Annotated[
        list[Path] | None, typer.Option(help="Scores of a sample set; once for each, in the same order.")
    ] = None,
    target: Target = None,
    target_kind: Kind = None,
    key: Key = 0,
    chains: Chains = None,
    as_json: Json = False,
) -> None:
    """Rank sample sets of one model by their discrepancy, best first."""
    score = inputs.own_scores(samples) if not score and target is None else score
    inputs.check_model(samples, score, target, target_kind)
    sets = inputs.open_sets(samples, score, chains)
    if target is None:
        inputs.check_scores(sets.values())
    score_fn = None if target is None else inputs.load_target(target, target_kind)
    ranked = quality.compare(sets, score_fn, key=key)
    if as_json:
        output.print_json([one._asdict() for one in ranked])
    else:
        output.show_ranking(ranked)


@app.command(name="demo")
def show_demo(out: Annotated[str, typer.Option(help="Folder for the reports.")] = "demo") -> None:
    """A right and a wrong sampler of a posterior with 50 parameters; under a minute."""
    demo.run(output.demo_folder(out), show=lambda text: print(text, flush=True))


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="Experiment, for example gaussian_gof.")],
    preset: Annotated[
        str, typer.Option(help="smoke (seconds), quick (minutes) or paper (the paper's settings).")
    ] = "quick",
) -> None:
    """Run an experiment of the paper from a checkout; what was done before is kept."""
    folder = Path("experiments")
    if not (folder / "runner.py").is_file():
        raise InputError("there are no experiments here: run it in the folder of a checkout of slicestein")
    found = sorted(path.stem for path in folder.glob("*.py") if "\ndef cells(" in path.read_text("utf-8", "replace"))
    if name not in found:
        raise InputError(f"there is no experiment {name!r}: choose from {', '.join(found)}")
    # A process of its own: the experiment sets the threads of its workers before JAX is imported.
    command = [sys.executable, "-m", f"experiments.{name}", "--preset", preset]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    interrupt.CHILDREN.append(process)
    _, said = process.communicate()
    if process.returncode == 2:  # of argparse, whose last line says what is wrong
        raise InputError(said.strip().splitlines()[-1])
    sys.stderr.write(said)
    raise typer.Exit(process.returncode)
