"""The same as `slicestein demo`, from Python: verdicts on the screen, reports in demo/."""

from pathlib import Path

import jax

from slicestein._cli import demo

if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    demo.run(Path("demo"))
