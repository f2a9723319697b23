"""The layers of the package: a module imports its own folder and the layers before it.

``LAYERS`` is the order that docs/architecture.md draws.  Folders of one line do not import each
other.  Imports inside functions count too: a lazy import is still a dependency.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tidemark"
PAGE = PACKAGE.parent / "docs/architecture.md"

LAYERS = (
    ("errors", "partition", "schemas", "native"),
    ("core.columns",),
    ("core.time",),
    ("core.rows",),
    ("core.aggregates",),
    ("core.state",),
    ("core.windows",),
    ("core.operators",),
    ("core.operators.aligned",),
    (
        "core.operators.sessions",
        "core.operators.sliding",
        "core.operators.arrival",
        "core.operators.ordered",
    ),
    ("core.operators.replacing",),
    ("core.operators.joins",),
    ("core.operators.patterns",),
    ("serde",),
    ("plan",),
    ("ingest",),
    ("language",),
    ("runtime", "files"),
    ("statics", "runtime.messages"),
    ("runtime.client",),
    ("runtime.service",),
    ("runtime.backends",),
    ("runtime.ingest", "runtime.keyed", "runtime.archive", "runtime.letters"),
    ("sinks", "embedded", "local", "conformance", "infer", "project"),
    ("testing",),
    ("why",),
    ("monitor",),
    ("spark.read",),
    ("spark",),
    ("spark.targets",),
    ("spark.replay",),
    ("spark.services",),
    ("commands",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FACE = ("tidemark", "tidemark.__main__", "tidemark.core")
"""The public names, ``python -m tidemark``, and the kernel's empty face: imported by none."""

MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def layer(module: str) -> str:
    """Return the longest layer name that a module belongs to."""
    inside = module.removeprefix("tidemark.")
    found = [name for name in RANK if inside == name or inside.startswith(f"{name}.")]
    assert found, f"{module} is in no layer: add its folder to LAYERS"
    return max(found, key=len)


def imports(path: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "tidemark")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tidemark":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else str(node.module)


@pytest.mark.parametrize("module", [name for name in MODULES if name not in FACE])
def test_a_module_imports_its_own_folder_and_layers_before_it(module):
    own = layer(module)
    wrong = [
        imported
        for imported in imports(MODULES[module])
        if imported in FACE or (layer(imported) != own and RANK[layer(imported)] >= RANK[own])
    ]
    assert wrong == []


def test_the_package_needs_nothing_beside_it():
    """The wheel holds ``tidemark`` alone: no module may import services, tests or examples."""
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            outside = {"services", "tests", "examples", "bench"}
            assert not outside & {name.split(".")[0] for name in names}, path


def test_no_folder_holds_more_than_twenty_files():
    bench = [*PACKAGE.with_name("bench").rglob("*.py")]
    folders = {path.parent for path in [*MODULES.values(), *bench]}
    full = {folder: len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder.name: count for folder, count in full.items() if count > 20} == {}


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES.values()}), ids=str)
def test_each_folder_says_what_it_is_for(folder):
    if folder == PACKAGE:
        return
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert text
    assert "May import:" in text
    assert "Start with:" in text


def test_the_architecture_page_lists_the_layers_and_where_to_start():
    layers = defaultdict(list)
    for number, name, start in re.findall(
        r"^\| (\d+) \| `([a-z.]+)` \|.*\| `([a-zA-Z_./]+)` \|$", PAGE.read_text(), re.MULTILINE
    ):
        layers[int(number)].append(name)
        assert (PACKAGE / start).is_file(), start
        assert start.startswith(name.replace(".", "/")), f"{name} starts with {start}"
    assert tuple(map(tuple, layers.values())) == LAYERS
    assert [*layers] == [*range(1, len(LAYERS) + 1)]
