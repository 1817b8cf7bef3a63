"""The one thing pyproject.toml cannot say: how to build the C++ extension."""

import glob
import sys

import jax.ffi
from setuptools import Extension, setup

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

setup(ext_modules=[trig], options={"bdist_wheel": {"py_limited_api": "cp311"}})
