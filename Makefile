PYTHON ?= python3
JOBS ?= 2
CALLS ?= 1000000
BIN := .venv/bin
# Tests that also run with the compiled kernels switched off.
PORTABLE := tests/laws/test_engines_agree.py tests/unit/test_native.py tests/unit/test_discrepancy.py
# Unit tests that do not run a second time in single precision: networks and data of the experiments, and what sets its
# precision by itself, in fixtures or in processes of its own. The laws run in both by themselves.
NOT_SINGLE := tests/unit/experiments $(addprefix tests/unit/test_,$(addsuffix .py,compiled devices half_precision memory))
# Tests that compile most.
COMPILING := tests/unit/samplers tests/unit/learning tests/unit/experiments
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Data sets in a sibling folder are used in place of a download.
ifeq ($(origin SLICESTEIN_DATA), undefined)
ifneq ($(wildcard ../shared/data),)
export SLICESTEIN_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: help demo test portable single integration torch check matrix dist bench fuzz docs clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: .venv/.installed  ## a right and a wrong sampler: verdicts on the screen, reports in demo/
	$(BIN)/slicestein demo

# Every worker has a core, not all of them.
test: export OPENBLAS_NUM_THREADS = 1
test: export MALLOC_ARENA_MAX = 2
test: .venv/.installed  ## every test that needs no package of the adapters; the laws with the shapes of all arrays checked
	$(BIN)/python -m pytest -n $(JOBS) $(COMPILING)  # in parts: a worker that runs everything grows beyond 2 GB
	$(BIN)/python -m pytest -n $(JOBS) tests/unit $(COMPILING:%=--ignore %)
	$(BIN)/python -m pytest -n $(JOBS) -m 'not packages' --ignore tests/unit --ignore tests/laws --ignore tests/integration
	SLICESTEIN_TEST_SHAPES=1 $(BIN)/python -m pytest -n $(JOBS) tests/laws

portable: .venv/.installed  ## a part of the tests with the compiled kernels switched off
	SLICESTEIN_PORTABLE=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) -m 'not slow' -k 'not single and not 100' $(PORTABLE)

single: export SLICESTEIN_TEST_PRECISION = single
single: export SLICESTEIN_TEST_SHAPES = 1
single: export OPENBLAS_NUM_THREADS = 1
single: export MALLOC_ARENA_MAX = 2
single: .venv/.installed  ## the unit tests in single precision, as JAX comes, with the shapes of all arrays checked
	$(BIN)/python -m pytest -q -n $(JOBS) -m 'not slow and not statistical' tests/unit/samplers tests/unit/learning
	$(BIN)/python -m pytest -q -n $(JOBS) -m 'not slow and not statistical' tests/unit \
	    --ignore tests/unit/samplers --ignore tests/unit/learning $(NOT_SINGLE:%=--ignore %)

integration: export OPENBLAS_NUM_THREADS = 1
integration: export MALLOC_ARENA_MAX = 2
integration: .venv/.installed-adapters  ## adapters, docs pages, examples and file formats with the packages they need
	$(BIN)/python -m pytest -n $(JOBS) tests/integration tests/unit/test_files.py tests/unit/test_rows.py
	$(BIN)/python -m pytest -n $(JOBS) -m packages tests/test_docs.py tests/test_examples.py tests/test_experiments.py \
	    tests/test_notebooks.py

torch: .venv/.installed-torch  ## log-densities and tensors of PyTorch; its CPU build if pip finds one
	$(BIN)/python -m pytest tests/integration/test_torch.py tests/unit/test_finite_differences.py

check: .venv/.installed  ## style, types, import layers, examples in docstrings and README
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --import-mode=append --doctest-modules src --doctest-glob=README.md README.md

matrix:  ## unit and law tests on every Python that is here: newest packages, and the oldest that are allowed
	.ci/matrix

dist: .venv/.installed  ## an sdist and wheels, with and without a compiler, tried in empty environments
	.ci/dist

bench: .venv/.installed  ## accuracy and time, side by side
	$(BIN)/python -m benchmarks

# Arithmetic as in setup.py, sanitizers on; SIMD= leaves one version of each kernel.
fuzz:  ## random calls of the C++ kernels
	@mkdir -p build
	$(CXX) -std=c++17 -O1 -g -pthread -Wall -Wextra -DSIMD= -Isrc/slicestein/_stein \
	    -ffp-contract=fast -fassociative-math -fno-signed-zeros -fno-trapping-math -fno-math-errno \
	    -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all \
	    tests/fuzz/fuzz_trig.cpp -o build/fuzz_trig
	build/fuzz_trig $(CALLS)

docs: .venv/.installed-docs  ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@! grep -rl 'class="arithmatex"' site  # every formula has become MathML

clean:  ## remove what was built; .venv stays and is refreshed by the next target
	rm -rf build dist site demo .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf .import_linter_cache src/*.egg-info src/slicestein/_stein/_trig.*.so .venv/.installed*
	find src tests benchmarks examples experiments -name __pycache__ -prune -exec rm -r {} + 2>/dev/null || true

# setuptools and jax first, then no build isolation: jax, needed to build, is downloaded once.
.venv/.installed: pyproject.toml setup.py constraints.txt $(wildcard src/slicestein/_stein/_trig*.*[ph])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) setuptools jax
	rm -f src/slicestein/_stein/_trig.*.so
	$(PIP) --no-build-isolation -e '.[all,dev]'
	@ls src/slicestein/_stein/_trig.*.so >/dev/null 2>&1 || \
	    echo "note: the C++ extension was not built; the pure JAX path is used"
	@touch $@

.venv/.installed-adapters: .venv/.installed
	$(PIP) --no-build-isolation -e '.[adapters,stan]' prophet  # in which is a program of CmdStan, for the tests
	@touch $@

.venv/.installed-torch: .venv/.installed
	$(PIP) torch
	@touch $@

.venv/.installed-docs: .venv/.installed
	$(PIP) --no-build-isolation -e '.[docs]'
	@touch $@
