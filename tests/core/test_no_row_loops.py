"""Hot operators work in columns: no loop of Python's goes over rows.

Reads their code as trees.  What turns columns into Python objects is a finding wherever a loop goes
over it, be it by name, and so is what calls Python per row.  Loops over blocks, runs, columns and
aggregates, which are few, are free.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "tidemark" / "core"
HOT = ("operators/**/*.py", "state/*.py", "aggregates/*.py")
MODULES = sorted(module for pattern in HOT for module in CORE.glob(pattern))

AS_OBJECTS = {
    *("iter_rows", "rows", "rows_by_key", "row", "iterrows", "itertuples", "to_dicts", "to_dict"),
    *("to_list", "tolist", "to_pylist", "flat", "nditer", "ndenumerate", "iter_slices", "exact"),
}
"""Names of calls that return a Python object per row; ``exact`` is that of exact_sum.py."""

PER_ROW = {
    *("map_elements", "map_rows", "map_groups", "rolling_map", "apply_along_axis", "vectorize"),
    *("frompyfunc", "fromiter", "iterrows", "itertuples"),
}
"""Names of calls that call Python for every row, loop or not."""

HANDS_ON = {
    *("zip", "enumerate", "list", "tuple", "set", "dict", "iter", "reversed", "sorted", "map"),
    *("filter", "chain"),
}
"""Names of calls whose result has the items of their arguments."""

ALLOWED = {
    (
        "operators/sessions/fold.py",
        "_load",
    ): "stored sessions of components that rows behind make ordered",
    (
        "operators/sessions/fold.py",
        "_fold",
    ): "rows of those components: each depends on the one before",
    ("aggregates/custom.py", "_states"): "calls a user's Aggregate, by panes and rows",
    ("aggregates/custom.py", "_failures_alone"): "calls a user's Aggregate for each row",
    ("aggregates/custom.py", "fold_of"): "calls a user's Aggregate for each of a pane's rows",
    ("aggregates/custom_probe.py", "_taken"): "probes a user's Aggregate when it is planned",
    ("aggregates/custom_probe.py", "_all_orders"): "probes a user's Aggregate when it is planned",
    ("aggregates/custom_probe.py", "_frames"): "probes a user's function when it is planned",
    ("aggregates/filtered.py", "_tried"): "parts of rows, if where fails on one of them",
    ("aggregates/sums.py", "_decimal_totals"): "totals of panes beyond 38 digits of a decimal",
    ("aggregates/sums.py", "_quotients"): "totals of panes that no double holds",
    ("aggregates/variance.py", "_rounded"): "panes whose squares exceed what doubles hold",
    ("aggregates/variance.py", "exact"): "panes whose squares exceed what doubles hold",
    ("aggregates/exact_sum.py", "exact"): "totals of panes that fit nothing smaller",
    ("aggregates/exact_sum.py", "_of_block"): "places of limbs, at most 66",
    ("aggregates/exact_squares.py", "_of_block"): "places of limbs, at most 132",
    ("operators/waiting_rows.py", "_run"): "blocks of rows",
    ("operators/patterns/rules/periods.py", "periods_of"): "rules that count in a stretch of time",
    ("operators/patterns/rules/state.py", "apply"): "rules that begin to count",
    ("operators/patterns/partial.py", "unpacked"): "keys with partial matches that have such rows",
    ("operators/patterns/key_run.py", "run"): "rows that a partial match may take, or that end one",
    ("operators/patterns/key_runs.py", "run_keys"): "keys with such rows, and those rows",
    ("operators/aligned/state.py", "_keep"): "slices of a segment",
    ("operators/aligned/state.py", "add_behind"): "slices of a segment",
    ("operators/aligned/state.py", "_of_windows"): "windows that are due",
    ("operators/tallies.py", "of"): "places of windows, of which keys share each",
    ("state/line_blocks.py", "_read"): "blocks",
    ("state/line_blocks.py", "drop"): "blocks",
}
"""Functions that may loop over Python objects of a column; and of what."""


def row_loops(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (function, what) of each loop over rows."""
    for function, body in functions(tree):
        held = as_objects(body)
        for node in body:
            if called(node) in PER_ROW:
                yield function, called(node)
            for looped in iterated(node):
                yield from ((function, what) for what in objects(looped, held))


def objects(node: ast.AST, held: set[str]) -> Iterator[str]:
    """Yield what of a value's items are objects of rows; arguments of other calls are not."""
    flat = isinstance(node, ast.Attribute) and node.attr == "flat"
    if flat or called(node) in AS_OBJECTS or is_count_of_rows(node):
        yield ast.unparse(node)
    elif isinstance(node, ast.Name) and node.id in {"rows", *held}:
        yield node.id
    elif isinstance(node, ast.Call) and called(node) not in HANDS_ON:
        if isinstance(node.func, ast.Attribute):
            yield from objects(node.func.value, held)
    elif not isinstance(node, ast.Attribute):
        for inner in ast.iter_child_nodes(node):
            yield from objects(inner, held)


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, list[ast.AST]]]:
    """Yield each function, and what is outside of all, with its own nodes."""
    own: list[ast.AST] = []
    inside: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    stack = list(ast.iter_child_nodes(tree))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside.append(node)
        else:
            own.append(node)
            stack += ast.iter_child_nodes(node)
    yield name, own
    for function in inside:
        yield from functions(function, function.name)


def as_objects(body: list[ast.AST]) -> set[str]:
    """Return the names of variables that hold Python objects of a column."""
    held: set[str] = set()
    for node in body:
        targets: list[ast.expr]
        value: ast.expr | None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            targets, value = [node.target], node.value
        else:
            continue
        if value is not None and any(objects(value, held)):
            every = (inner for target in targets for inner in ast.walk(target))
            held |= {inner.id for inner in every if isinstance(inner, ast.Name)}
    return held


def iterated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a loop goes over."""
    if isinstance(node, ast.For | ast.comprehension):
        yield node.iter
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "map":
        yield from node.args[1:]


def called(node: ast.AST) -> str:
    """Return the name of what a call calls, else nothing."""
    if not isinstance(node, ast.Call):
        return ""
    name: str = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
    return name


def is_count_of_rows(node: ast.AST) -> bool:
    """Whether it is range(x.height), range(x.size) or range(len(x)), without a step."""
    if not isinstance(node, ast.Call) or called(node) != "range" or len(node.args) > 2:
        return False
    last = node.args[-1]
    return (isinstance(last, ast.Attribute) and last.attr in {"height", "size"}) or (
        called(last) == "len"
    )


def where(module: Path) -> str:
    return module.relative_to(CORE).as_posix()


def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES, ids=where)
def test_a_hot_operator_has_no_loop_over_rows(module):
    """Compute in columns; list a function that loops over few in ALLOWED, with the reason."""
    found = {(where(module), function): what for function, what in row_loops(parsed(module))}

    assert {at: what for at, what in found.items() if at not in ALLOWED} == {}


def test_every_pattern_of_hot_operators_finds_some():
    assert [pattern for pattern in HOT if not list(CORE.glob(pattern))] == []


def test_every_exception_is_needed():
    found = {
        (where(module), function) for module in MODULES for function, _ in row_loops(parsed(module))
    }

    assert ALLOWED.keys() - found == set()


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    for row in rows.iter_rows(): add(row)",
        "def f():\n    for row in rows.rows(named=True): add(row)",
        "def f(): return [add(row) for row in rows.to_dicts()]",
        "def f(): return {at: x for at, x in zip(times.tolist(), xs, strict=True)}",
        "def f(): return sum(x * x for x in rows['x'].to_list())",
        "def f():\n    for i, x in enumerate(rows['x'].to_list()): add(i, x)",
        "def f():\n    values = rows['x'].to_list()\n    return [add(x) for x in values]",
        "def f():\n    for x in zip(*(c.tolist() for c in columns)): add(x)",
        "def f(rows):\n    for row in rows: add(row)",
        "def f():\n    for i in range(rows.height): add(rows[i])",
        "def f():\n    for i in range(len(times)): add(times[i])",
        "def f():\n    for x in times.flat: add(x)",
        "def f(): return list(map(add, times.tolist()))",
        "def f(): return rows['x'].map_elements(add)",
        "def f(): return np.vectorize(add)(times)",
        "def f(): return pl.col('x').rolling_map(add, 3)",
        "class C:\n    def f(self):\n        for index, row in rows.iterrows(): add(row)",
        "def g():\n    def f():\n        yield from (x for x in column.to_pylist())",
    ],
)
def test_a_loop_over_rows_is_found_with_its_function(code):
    assert {function for function, _ in row_loops(ast.parse(code))} == {"f"}


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    for block in blocks: add(block.filter(inside))",
        "def f():\n    for name in rows.columns: add(rows[name].sort())",
        "def f():\n    for start in range(0, rows.height, 4096): add(rows[start : start + 4096])",
        "def f(): return state.accepted(keys['end'].unique().to_list())",
        "def f():\n    blocks = held(ends.to_list())\n    return [b.sort() for b in blocks]",
        "def f():\n    for run in runs: run.kill(np.flatnonzero(run.alive))",
        "def f():\n    changes.apply(piece)\n    while at.size: at = at[1:]",
    ],
)
def test_a_loop_over_few_is_not_found(code):
    assert list(row_loops(ast.parse(code))) == []
