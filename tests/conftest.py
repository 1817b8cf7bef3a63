from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)
# Most of the time of a test is compilation: keep what was compiled for the next run.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """What one file compiled another has no use for: kept, a worker would grow to several gigabytes."""
    yield
    jax.clear_caches()
