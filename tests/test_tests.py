"""The layout of the tests: they mirror the package, and share nothing through test modules."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "tidemark"

OF_NO_PACKAGE = {
    *("oracles", "support", "docs", "bench", "trials"),
    *("kafka", "spark", "docker", "browser", "chaos", "fuzz", "soak"),
}
"""Folders of tests that no folder of the package has, or that are laid out another way."""

TREES = {
    path.relative_to(TESTS).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(TESTS.rglob("*.py"))
}


def imports(module: str) -> Iterator[str]:
    """Yield the full names of what a module imports, wherever in it."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def under(name: str, *packages: str) -> bool:
    """Whether a name is one of these packages or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def beyond(folder: str, root: str, *allowed: str) -> list[str]:
    """Return what modules of a folder import from a root package that is not allowed."""
    return [
        f"{module}: {name}"
        for module in TREES
        if module.startswith(folder)
        for name in imports(module)
        if under(name, root) and not under(name, *allowed)
    ]


def test_no_module_imports_a_test_module():
    """What tests share is in oracles, in support, or in a module beside them without tests."""
    assert [
        f"{module}: {name}"
        for module in TREES
        for name in imports(module)
        if under(name, "tests") and any(part.startswith("test_") for part in name.split("."))
    ] == []


def test_no_module_touches_the_path_of_imports():
    assert [
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path"
    ] == []
    assert [module for module in TREES if "sys.path" in imports(module)] == []


def test_tests_of_core_import_nothing_above_core():
    assert beyond("core/", "tidemark", "tidemark.core", "tidemark.errors") == []


def test_an_oracle_uses_nothing_of_what_it_judges():
    assert beyond("oracles/", "tidemark", "tidemark.core.time.segment") == []
    assert beyond("oracles/", "tests", "tests.oracles") == []


def test_oracles_and_support_hold_no_tests():
    assert [
        f"{module}: {node.name}"
        for module, tree in TREES.items()
        if module.startswith(("oracles/", "support/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ] == []


def test_each_folder_is_a_package_of_few_files_that_mirrors_one_of_tidemark():
    for folder in {(TESTS / module).parent for module in TREES}:
        inside = folder.relative_to(TESTS)
        assert (folder / "__init__.py").exists(), inside
        assert len(list(folder.glob("*.py"))) <= 20, inside
        assert {*inside.parts[:1]} & OF_NO_PACKAGE or (PACKAGE / inside).is_dir(), inside


def pipelines(test: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of pipelines that a test gives to a call, after the broker of the session.

    A name is a text, or a variable of the test that is one.
    """
    variables = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.walk(test)
        if isinstance(node, ast.Assign)
    }
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            for argument, given in pairwise(node.args):
                if isinstance(argument, ast.Name) and argument.id == "broker":
                    name = variables.get(ast.unparse(given), given)
                    if isinstance(name, ast.Constant) and isinstance(name.value, str):
                        yield name.value


def test_each_pipeline_on_the_shared_broker_has_a_name_of_its_own():
    """A pipeline's name is that of its topics: a second test would meet the logs of the first."""
    owners: dict[str, set[tuple[str, str]]] = {}
    for module, tree in TREES.items():
        if module.startswith("kafka/"):
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    for name in pipelines(node):
                        owners.setdefault(name, set()).add((module, node.name))
    assert {name: tests for name, tests in owners.items() if len(tests) > 1} == {}
