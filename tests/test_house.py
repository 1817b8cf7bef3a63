"""The house stays as it was built: laws of the tree that no linter knows."""

import ast
import graphlib
import importlib
import inspect
from pathlib import Path

import pytest

import slicestein as ss

SOURCE = Path(ss.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))


def tree(path):
    return ast.parse(path.read_text("utf-8"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_are_short_and_modules_too(path):
    assert len(path.read_text("utf-8").splitlines()) <= 400
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef):
            text = node.body[0] if ast.get_docstring(node) else None
            documented = 0 if text is None else text.end_lineno - text.lineno + 1
            assert node.end_lineno - node.lineno + 1 - documented <= 60, node.name


def test_a_test_takes_few_arguments():
    assert len(inspect.signature(ss.gof_test).parameters) <= 9


def test_one_module_chooses_the_engine():
    """It alone knows both kinds of sums, and the compiled ones."""
    kinds = {"exact", "fourier"}
    choosing = []
    for path in MODULES:
        names = {
            alias.name.rpartition(".")[2]
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ImportFrom) and node.module == "slicestein._stein"
            for alias in node.names
        }
        if kinds <= names:
            choosing.append(path.name)
    assert choosing == ["engine.py"]


def imports(path):
    """Modules of the package that a module asks for when it is imported."""
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("slicestein"):
            inside = SOURCE.parent.joinpath(*node.module.split("."))
            for alias in node.names:
                is_module = (inside / f"{alias.name}.py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def test_the_way_through_the_house_goes_in_no_circle():
    """Nobody who follows a call from module to module comes back to one that was left behind."""
    graph = {}
    for path in MODULES:
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        graph[name.removesuffix(".__init__")] = set(imports(path)) - {"slicestein"}
    assert graph["slicestein.gof.verdict"] >= {"slicestein.gof.measure", "slicestein.gof.plan"}
    graphlib.TopologicalSorter(graph).prepare()


def test_no_name_is_both_a_module_and_a_function():
    for path in MODULES:
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if path.stem.startswith("__") or "_cli" in parts:
            continue
        parent = importlib.import_module(".".join(parts[:-1]))
        assert not inspect.isfunction(getattr(parent, path.stem, None)), path
