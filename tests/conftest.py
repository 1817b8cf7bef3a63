"""What all tests share: two precisions, JAX that promotes nothing by itself, and a package whose shapes are checked."""

import os
import resource
import sys
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest

from tests import shapes

# Before the first import of the package: what its functions take and return has the shape that they say.
if os.environ.get("SLICESTEIN_TEST_SHAPES") == "1":
    assert "slicestein" not in sys.modules, "imported before its shapes could be checked"
    jaxtyping.install_import_hook("slicestein", f"{shapes.__name__}.checked")

# Users run in JAX's default, single precision: `make single` runs the unit tests so.
DOUBLE = os.environ.get("SLICESTEIN_TEST_PRECISION") != "single"
jax.config.update("jax_enable_x64", DOUBLE)
# Most of the time of a test is compilation: keep what was compiled for the next run.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


MOST_MEMORY = 2048  # megabytes that a worker of `make test` may take
_peaks = []


def pytest_sessionfinish(session):
    """A worker tells how much memory it took; if it was too much for a small machine the run has failed."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    elif any(peak > MOST_MEMORY for peak in _peaks):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _peaks.append(getattr(node, "workeroutput", {}).get("peak", 0))


def pytest_terminal_summary(terminalreporter):
    if _peaks:
        peaks = ", ".join(map(str, _peaks))
        terminalreporter.write_line(f"peak memory of the workers: {peaks} MB, at most {MOST_MEMORY} allowed")


@pytest.fixture(scope="module", params=["double", "single"])
def precision(request):
    """Run a test twice: in double precision, and as JAX comes. The limits of the arithmetic: ``eps``, ``dtype``."""
    double = request.param == "double"
    with jax.enable_x64(double):
        yield np.finfo(np.float64 if double else np.float32)


@pytest.fixture(scope="module")
def strict():
    """Nothing is promoted in silence: neither a precision, which would double the work, nor a rank."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(autouse=True)
def _precision_of_the_run():
    """The command line, which has a process of its own, works in double precision; tests after it do not."""
    yield
    jax.config.update("jax_enable_x64", DOUBLE)


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """What one file compiled another has no use for: kept, a worker would grow to several gigabytes."""
    yield
    jax.clear_caches()
