"""What a user sees: the names, and what importing them costs."""

import subprocess
import sys

import pytest

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
heavy = {"matplotlib", "typer", "rich", "jinja2", "pooch", "arviz", "numpyro", "blackjax", "pymc", "nutpie", "xarray"}
heavy |= {"torch", "stan", "httpstan", "bridgestan", "optax", "scipy.stats", "scipy.optimize"}
heavy |= {f"slicestein.{name}" for name in ("adapters", "plot", "report", "quality", "commands", "files", "demo")}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert slicestein.adapters.Draws._fields == ("x", "score", "names")  # imported when asked for
assert not {"arviz", "numpyro", "blackjax", "pymc", "nutpie", "xarray", "torch", "stan", "httpstan"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_unknown_names_are_told():
    with pytest.raises(AttributeError, match="no attribute 'adaptors'"):
        ss.adaptors  # noqa: B018


def test_completion_knows_what_is_imported_late():
    program = "import slicestein; assert {'check', 'adapters', 'plot', 'report', 'quality'} <= set(dir(slicestein))"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert set(ss.__all__) <= set(dir(ss))
