"""The one thing pyproject.toml cannot say: how to build the C++ extension, and what to do where it cannot be built."""

import glob
import os
import sys

import jax.ffi
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NOT_BUILT = """\
slicestein: the C++ extension was not built (no compiler?), so that slicestein works without compiled kernels.
slicestein: Results are the same; discrepancies take about ten times as long, tests a third longer.
slicestein: To have it, install a C++ compiler and then slicestein once more."""

windows = sys.platform == "win32"
# Sums may be reordered, which is what makes them vectorise; NaN and infinity keep their meaning.
unix_flags = [
    "-std=c++17",
    "-O3",
    "-ffp-contract=fast",
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-pthread",
    "-g0",  # Python's own flags ask for debug symbols: 3 MB of them
]

trig = Extension(
    "slicestein._stein._trig",
    sources=["src/slicestein/_stein/_trig.cpp"],
    depends=sorted(glob.glob("src/slicestein/_stein/_trig*.h")),
    include_dirs=[jax.ffi.include_dir()],
    language="c++",
    extra_compile_args=["/std:c++17", "/O2"] if windows else unix_flags,
    extra_link_args=[] if windows else ["-pthread"],
    # Without a compiler the install still succeeds, and the pure JAX path does the work.
    optional=True,
    # The stable ABI of Python 3.11: one wheel per platform serves every later version.
    py_limited_api=True,
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
)


class BuildOrTell(build_ext):
    """Say it where the optional extension could not be built."""

    def run(self) -> None:
        super().run()
        if not self.built:
            print(NOT_BUILT, file=sys.stderr, flush=True)

    @property
    def built(self) -> bool:
        """Whether the extension is there."""
        return all(os.path.exists(path) for path in self.get_outputs())


class HonestWheel(bdist_wheel):
    """A wheel without the extension is pure Python, and is tagged as such."""

    def run(self) -> None:
        self.run_command("build_ext")
        if not self.get_finalized_command("build_ext").built:
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


setup(
    ext_modules=[trig],
    cmdclass={"build_ext": BuildOrTell, "bdist_wheel": HonestWheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
