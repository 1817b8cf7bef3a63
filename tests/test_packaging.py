"""What the package says of itself: versions that are allowed are tested, and no line promises too much."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OLDEST = dict(line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().split())


def test_the_oldest_versions_that_are_allowed_are_those_that_are_tested():
    allowed = dict(line.split(">=") for line in PROJECT["project"]["dependencies"])
    assert {**allowed, "jaxlib": allowed["jax"]} == OLDEST


def test_the_extension_is_built_for_the_oldest_jax():
    """XLA refuses handlers that were built against later headers, and with them every program."""
    assert f"jax=={OLDEST['jax']}; python_version < '3.14'" in PROJECT["build-system"]["requires"]


def test_the_citation_is_that_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]


def test_workflows_test_every_python_that_is_promised():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    promised = [line.rsplit(" ", 1)[1] for line in PROJECT["project"]["classifiers"] if "Python :: 3" in line]
    assert jobs["matrix"]["strategy"]["matrix"]["environment"] == [*promised, "oldest"]


def test_no_line_installs_a_package_that_no_registry_has():
    """Lines that work today install from the checkout, or name packages that others have published."""
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    promises = {path.name for path in texts if re.search(r"pip install \W*slicestein\b", path.read_text("utf-8"))}
    assert promises == set()


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [True, False])
def test_a_wheel_without_the_extension_is_pure_and_says_so(tmp_path, compiler):
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "src").symlink_to(ROOT / "src")
    environment = os.environ | ({} if compiler else {"CC": "/bin/false", "CXX": "/bin/false"})
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path, "bdist_wheel"]
    built = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    tag = next((tmp_path / "dist").iterdir()).name.split("-", 2)[2]
    told = "slicestein: the C++ extension was not built" in built.stderr
    assert (tag == "py3-none-any.whl", told) == ((False, False) if compiler else (True, True))
