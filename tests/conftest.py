from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)
# Most of the time of a test is compilation: keep what was compiled for the next run.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
