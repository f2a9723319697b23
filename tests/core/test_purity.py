"""The core is pure: no clock, I/O, randomness or logging; no sum whose bits depend on the order.

Reads the code of ``tidemark/core`` as trees, so that a comment or a string is never a finding.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "tidemark" / "core"
MODULES = sorted(CORE.glob("**/*.py"))

COLUMNAR = {"numpy", "polars", "pyarrow"}
PURE_STANDARD = {
    *("abc", "bisect", "collections", "dataclasses", "datetime", "decimal", "difflib", "enum"),
    *("fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re"),
    *("string", "struct", "types", "typing", "unicodedata"),
}
OWN = ("tidemark.core", "tidemark.errors")

IMPURE_BUILTINS = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}
CLOCKS = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today")
IMPURE_ATTRIBUTES = {
    **dict.fromkeys(("random", "sample", "shuffle"), "is random"),
    **dict.fromkeys(("fromfile", "tofile", "memmap", "loadtxt", "savetxt"), "does I/O"),
}
IO_PREFIXES = ("read_", "scan_", "write_", "sink_")

FLOAT_SUMS = {
    *("sum", "nansum", "sum_horizontal", "cumsum", "cum_sum", "cumulative_sum", "rolling_sum"),
    *("mean", "nanmean", "mean_horizontal", "average", "ewm_mean", "rolling_mean"),
    *("var", "nanvar", "variance", "std", "nanstd", "stddev", "ewm_var", "ewm_std", "rolling_var"),
    *("rolling_std", "skew", "kurtosis", "corr", "cov"),
    *("dot", "vdot", "vecdot", "matmul", "einsum", "tensordot", "linalg"),
    *("prod", "product", "cumprod", "cum_prod"),
}

WHOLE_NUMBERS = {
    ("aggregates/lists.py", "summed_counts"): "counts",
    ("aggregates/quantiles.py", "value"): "counts",
    ("aggregates/quantiles.py", "_ends"): "counts",
    ("operators/sliding/lines.py", "without"): "ROWS, Int64",
    ("windows/open_bounds.py", "count_from"): "counts of windows",
    ("operators/joins/pairs.py", "require_few"): "counts of pairs",
    ("operators/joins/time_index.py", "_between"): "counts entries of keys",
    ("aggregates/stable_hash.py", "_of_texts"): "counts of words",
    ("aggregates/aggregate.py", "_merged"): "ROWS, Int64",
    ("aggregates/parts.py", "additive"): "limbs and counters, Int64",
    ("operators/firing.py", "with_blocks"): "counts rows that fire",
    ("operators/firing.py", "_shows_rows"): "counts rows of windows that are there",
    ("rows/row_size.py", "_value_bytes"): "bytes",
    ("time/row_watermarks.py", "_with_order"): "counts rows",
    ("operators/sessions/fold.py", "_components"): "counts where a component begins",
    ("rows/stateless.py", "_kill_oversized"): "bytes",
    ("rows/stateless.py", "filtered"): "counts true",
    ("operators/replacing/slots.py", "_changed"): "counts withdrawals",
    ("operators/replacing/sums.py", "sums_within"): "revisions and changes, Int64",
    ("operators/patterns/partial.py", "unpacked"): "lengths of lists",
    ("operators/joins/gathering_join.py", "_due"): "numbers of pairs",
    ("operators/joins/pairs.py", "_dense_rank"): "counts distinct times",
    ("operators/joins/sessions/operator.py", "_candidates"): "numbers of pairs",
    ("operators/joins/sessions/results.py", "counts_before"): "counts rows",
    ("operators/joins/side_rows.py", "_compact"): "counts rows that are needed",
    ("operators/joins/version_runs.py", "of"): "adds up heights of frames",
}
"""Functions of the core that may sum by columns, since they sum only whole numbers; and which."""


def impurities(tree: ast.AST) -> Iterator[str]:
    """Yield what a module of the core must not import, call or touch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if not is_pure(alias.name))
        elif isinstance(node, ast.ImportFrom):
            yield from imported(node)
        elif isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS:
            yield f"{node.id} does I/O or hides code"
        elif isinstance(node, ast.Attribute):
            if ast.unparse(node).endswith(CLOCKS):
                yield f"{node.attr} reads the clock"
            elif node.attr in IMPURE_ATTRIBUTES:
                yield f"{node.attr} {IMPURE_ATTRIBUTES[node.attr]}"
            elif node.attr.startswith(IO_PREFIXES) and is_columnar(node.value):
                yield f"{node.attr} does I/O"
        elif isinstance(node, ast.Call) and keeps_any(node):
            yield "unique keeps any row: say keep='first', 'last' or 'none'"


def imported(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    if node.level or not is_pure(module):
        yield f"{'.' * node.level}{module}"
    for alias in node.names:
        if alias.name in IMPURE_ATTRIBUTES:
            yield f"{module}.{alias.name}"


def is_pure(module: str) -> bool:
    return module.split(".")[0] in COLUMNAR | PURE_STANDARD or any(
        module == own or module.startswith(f"{own}.") for own in OWN
    )


def is_columnar(value: ast.expr) -> bool:
    """Whether it is a column library itself, or the result of some call: a frame or series."""
    return isinstance(value, ast.Call) or (isinstance(value, ast.Name) and value.id in {"pl", "pa"})


def keeps_any(call: ast.Call) -> bool:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "unique"):
        return False
    if isinstance(call.func.value, ast.Name) and call.func.value.id in {"np", "pc"}:
        return False
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if "keep" in named:
        return isinstance(named["keep"], ast.Constant) and named["keep"].value == "any"
    return bool(call.args) or "subset" in named


def float_sums(tree: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """Yield (function, what) of each columnar sum: bits of floats depend on the order."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Attribute) and node.attr in FLOAT_SUMS:
            yield function, node.attr
        elif isinstance(node, ast.Attribute) and ast.unparse(node).endswith("np.add.reduce"):
            yield function, "add.reduce"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield function, "@"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in COLUMNAR:
            yield from ((function, a.name) for a in node.names if a.name in FLOAT_SUMS)
        inside = node.name if isinstance(node, ast.FunctionDef) else function
        yield from float_sums(node, inside)


def where(module: Path) -> str:
    return module.relative_to(CORE).as_posix()


def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES, ids=where)
def test_the_core_is_pure(module):
    assert list(impurities(parsed(module))) == []


@pytest.mark.parametrize("module", MODULES, ids=where)
def test_the_core_sums_columns_only_of_whole_numbers(module):
    """For sums of values use Aggregation; list a function that sums integers in WHOLE_NUMBERS."""
    found = {(where(module), function) for function, _ in float_sums(parsed(module))}

    assert found - WHOLE_NUMBERS.keys() == set()


def test_every_exception_is_needed():
    found = {
        (where(module), function)
        for module in MODULES
        for function, _ in float_sums(parsed(module))
    }

    assert WHOLE_NUMBERS.keys() - found == set()


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "import os.path",
        "from random import random",
        "from tidemark.runtime import config",
        "import tidemark.core_of_others",
        "from . import clock",
        "import logging",
        "import msgspec",
        "def f():\n    import threading",
        "from datetime import datetime\nx = datetime.now()",
        "x = np.random.default_rng(1)",
        "x = rows.sample(3)",
        "x = pl.read_parquet(p)",
        "rows.select(x).write_csv(p)",
        "open('x')",
        "print(rows)",
        "x = rows.unique(['a'])",
        "x = rows.unique(subset='a', keep='any')",
    ],
)
def test_impure_code_is_found(code):
    assert list(impurities(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np\nimport pyarrow.compute as pc\nfrom collections.abc import Mapping",
        "from tidemark.core.time.clock import ClockTable\nfrom tidemark.errors import StateError",
        "from datetime import timedelta\nx = timedelta(days=1)",
        "x = np.unique(y)\nz = series.unique()\nw = rows.unique('a', keep='first')",
        '"""Do not print() or open() or time.time()."""',
        "x = source.has_read(mark)\ny = span.now()",
    ],
)
def test_pure_code_is_not_found(code):
    assert list(impurities(ast.parse(code))) == []


@pytest.mark.parametrize(
    "code",
    [
        "def f(): return rows['x'].sum()",
        "def f(): return rows.group_by('k').agg(pl.col('x').mean())",
        "def f(): return pl.sum('x')",
        "def f(): return np.dot(a, b)",
        "def f(): return a @ b",
        "def f(): return pc.sum(x)",
        "def f(): return map(np.sum, columns)",
        "def f(): return np.add.reduce(x)",
        "def f():\n    from numpy import nansum",
        "def f(): return pl.col('x').rolling_mean(3)",
        "class C:\n    def f(self): return [x.std() for x in self.columns]",
    ],
)
def test_float_sums_are_found_with_their_function(code):
    assert [function for function, _ in float_sums(ast.parse(code))] == ["f"]


def test_what_only_looks_like_a_float_sum_is_not_found():
    code = """
from tidemark.core.aggregates.constructors import sum
def f(rows):
    "Never rows.sum()."
    total = sum("x")
    return total, math.fsum(rows), rows.min(), functools.reduce(f, rows)
"""
    assert list(float_sums(ast.parse(code))) == []
