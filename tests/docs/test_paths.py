"""Pages name files and functions that are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tidemark"
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
]
PATH = r"`((?:[a-z_0-9]+/)+[a-z_0-9.]+\.(?:py|md|avsc))(?::([A-Za-z_.]+))?`"


def found(path: str) -> Path:
    """Return a file that a page names, from the repository or from ``tidemark/``."""
    return next(each for each in (PACKAGE / path, ROOT / path) if each.is_file())


@cache
def defined(file: Path) -> set[str]:
    """Return the functions, classes and methods that a module defines, methods as ``B.c``."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            }
    return names


@pytest.mark.parametrize("page", PAGES)
def test_files_and_functions_are_where_a_page_says(page):
    for path, name in re.findall(PATH, (ROOT / page).read_text(encoding="utf-8")):
        file = found(path)
        assert not name or name in defined(file), f"{path}:{name}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", (ROOT / page).read_text()):
        file = (ROOT / page).parent / target if target else ROOT / page
        assert file.exists(), target
        heads = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {head.lower().replace(" ", "-") for head in heads}, anchor
