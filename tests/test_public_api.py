"""What a user sees: the names, and what importing them costs."""

import subprocess
import sys

import slicestein as ss


def test_every_public_name_exists_and_is_documented():
    for name in ss.__all__:
        assert getattr(ss, name).__doc__, name


def test_import_is_light_and_switches_nothing():
    program = """
import sys, jax
before = dict(jax.config.values)
import slicestein
assert dict(jax.config.values) == before
assert not jax._src.xla_bridge._backends, "a backend was initialised"
heavy = {"matplotlib", "typer", "rich", "jinja2", "pooch", "arviz", "numpyro", "blackjax", "pymc"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
