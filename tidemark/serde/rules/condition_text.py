"""Conditions as text, such as ``celsius > 80 and kind in ["a", "b"]``, as expressions of columns.

See docs/rules.md, "Conditions".  The text has the syntax of a Python expression, of which only a
few forms are allowed.  Nothing is evaluated: the syntax tree becomes an expression of polars.
"""

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal, NamedTuple

import polars as pl

from tidemark.core.rows.expression import require_column
from tidemark.errors import PipelineError

MAX_CHARACTERS = 2_000
"""Maximum length of a condition."""

_MAX_DEPTH = 40
_UNKNOWN = "this form is not allowed"
_LARGEST = 2**63 - 1

Kind = Literal["number", "text", "Boolean", "time", "date", "nested value"]

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    ast.Lt: lambda one, other: one < other,
    ast.LtE: lambda one, other: one <= other,
    ast.Gt: lambda one, other: one > other,
    ast.GtE: lambda one, other: one >= other,
    ast.Eq: lambda one, other: one == other,
    ast.NotEq: lambda one, other: one != other,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Div: lambda one, other: one / other,
}
_TRUTHS = {"true": True, "false": False}


class _Typed(NamedTuple):
    """An expression, and what its values are."""

    expression: pl.Expr
    kind: Kind


def condition_of(
    text: str, columns: Mapping[str, pl.DataType], steps: tuple[str, ...] = ()
) -> pl.Expr:
    """Return a condition as an expression, a Boolean of the columns of a row.

    ``steps``: those of which ``hot.celsius`` names the column ``celsius`` of the last row.

    Raises:
        PipelineError: the text is too long or no expression, a form is not allowed, a column is
            unknown, or types do not fit.
    """
    if len(text) > MAX_CHARACTERS:
        raise PipelineError(
            f"the condition has {len(text):,} characters: at most {MAX_CHARACTERS:,} are allowed"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise PipelineError(f"{text!r} is no condition ({reason})") from error
    found = _Reader(text, columns, steps).read(tree.body)
    if found.kind != "Boolean":
        raise PipelineError(f"{text!r} is a {found.kind}: a condition is true or false")
    return found.expression


@dataclass(frozen=True)
class _Reader:
    """Reads the syntax tree of one condition."""

    text: str
    columns: Mapping[str, pl.DataType]
    steps: tuple[str, ...]

    def read(self, node: ast.expr, depth: int = 0) -> _Typed:
        """Return the expression of a node."""
        if depth > _MAX_DEPTH:
            raise PipelineError(f"the condition is nested more than {_MAX_DEPTH} deep")
        match node:
            case ast.Constant(value=value):
                return self._literal(node, value)
            case ast.Name() | ast.Attribute() | ast.Call():
                return self._named(node, depth + 1)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return _Typed(self._logic(node, depth + 1), "Boolean")
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
                return self._negative(node, operand)
            case ast.BinOp() | ast.UnaryOp(op=ast.USub()):
                return _Typed(self._arithmetic(node, depth + 1), "number")
            case ast.Compare():
                return self._compared(node, depth + 1)
            case _:
                raise self._refusal(node, _UNKNOWN)

    def _named(self, node: ast.expr, depth: int) -> _Typed:
        """Return a column, a truth, or whether an operand is null."""
        match node:
            case ast.Name(id=name) if name in _TRUTHS and name not in self.columns:
                return _Typed(pl.lit(_TRUTHS[name]), "Boolean")
            case ast.Name(id=name):
                return self._column(name)
            case ast.Attribute(value=ast.Name(id=step), attr=name):
                return self._earlier(step, name)
            case ast.Call(func=ast.Name(id="is_null"), args=[operand], keywords=[]):
                return _Typed(self.read(operand, depth).expression.is_null(), "Boolean")
            case ast.Call(
                func=ast.Name(id="col"), args=[ast.Constant(value=str(name))], keywords=[]
            ):
                return self._column(name)
            case _:
                raise self._refusal(node, _UNKNOWN)

    def _logic(self, node: ast.BoolOp | ast.UnaryOp, depth: int) -> pl.Expr:
        if isinstance(node, ast.UnaryOp):
            return ~self._boolean(node.operand, depth)
        parts = [self._boolean(each, depth) for each in node.values]
        if isinstance(node.op, ast.And):
            return reduce(lambda one, other: one & other, parts)
        return reduce(lambda one, other: one | other, parts)

    def _arithmetic(self, node: ast.BinOp | ast.UnaryOp, depth: int) -> pl.Expr:
        if isinstance(node, ast.UnaryOp):
            return -self._number(node.operand, depth)
        if type(node.op) not in _ARITHMETIC:
            raise self._refusal(node, _UNKNOWN)
        return _ARITHMETIC[type(node.op)](
            self._number(node.left, depth), self._number(node.right, depth)
        )

    def _refusal(self, node: ast.expr, reason: str) -> PipelineError:
        return PipelineError(f"{ast.get_source_segment(self.text.strip(), node)!r}: {reason}")

    def _literal(self, node: ast.expr, value: object) -> _Typed:
        if isinstance(value, bool) or value is None:
            raise self._refusal(node, "write true, false, or is_null(column)")
        if isinstance(value, str):
            return _Typed(pl.lit(value), "text")
        if not isinstance(value, int | float):
            raise self._refusal(node, "it is neither a number nor a text")
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refusal(node, "the number is too large")
        if isinstance(value, int) and value > _LARGEST:
            raise self._refusal(node, f"the number is larger than {_LARGEST}")
        return _Typed(pl.lit(value), "number")

    def _negative(self, node: ast.expr, operand: ast.Constant) -> _Typed:
        if isinstance(operand.value, bool) or not isinstance(operand.value, int | float):
            raise self._refusal(node, "only a number has a sign")
        return self._literal(node, -operand.value)

    def _column(self, name: str) -> _Typed:
        require_column(name, self.columns, "condition")
        return _Typed(pl.col(name), _kind_of(self.columns[name]))

    def _earlier(self, step: str, name: str) -> _Typed:
        if step not in self.steps:
            known = ", ".join(self.steps) or "none; write a condition on earlier rows as on"
            raise PipelineError(f"'{step}.{name}': {step!r} is no step here (steps: {known})")
        require_column(name, self.columns, f"condition '{step}.{name}'")
        return _Typed(pl.col(f"{step}.{name}"), _kind_of(self.columns[name]))

    def _boolean(self, node: ast.expr, depth: int) -> pl.Expr:
        found = self.read(node, depth)
        if found.kind != "Boolean":
            raise self._refusal(node, f"it is a {found.kind}; and, or and not combine conditions")
        return found.expression

    def _number(self, node: ast.expr, depth: int) -> pl.Expr:
        """Return a number as a double: integers of a few bits would overflow."""
        found = self.read(node, depth)
        if found.kind != "number":
            raise self._refusal(node, f"it is a {found.kind}, and not a number")
        return found.expression.cast(pl.Float64)

    def _compared(self, node: ast.Compare, depth: int) -> _Typed:
        operands = [node.left, *node.comparators]
        parts = [
            self._pair(node, op, one, other, depth)
            for op, one, other in zip(node.ops, operands, operands[1:], strict=False)
        ]
        return _Typed(reduce(lambda one, other: one & other, parts), "Boolean")

    def _pair(
        self, node: ast.expr, op: ast.cmpop, one: ast.expr, other: ast.expr, depth: int
    ) -> pl.Expr:
        if isinstance(op, ast.In | ast.NotIn):
            found = self._is_in(one, other, depth)
            return found if isinstance(op, ast.In) else ~found
        if type(op) not in _COMPARISONS:
            raise self._refusal(node, "write is_null(column), or not is_null(column)")
        left, right = self.read(one, depth), self.read(other, depth)
        if left.kind == "nested value":
            raise self._refusal(node, "it compares a nested value; is_null() alone takes it")
        if left.kind != right.kind:
            raise self._refusal(node, f"it compares a {left.kind} with a {right.kind}")
        return _COMPARISONS[type(op)](left.expression, right.expression)

    def _is_in(self, one: ast.expr, other: ast.expr, depth: int) -> pl.Expr:
        left = self.read(one, depth)
        if not isinstance(other, ast.List | ast.Tuple) or not other.elts:
            raise self._refusal(other, "in takes a list of values, such as [1, 2]")
        found = []
        for each in other.elts:
            is_value = isinstance(each, ast.Constant) or (
                isinstance(each, ast.UnaryOp) and isinstance(each.operand, ast.Constant)
            )
            if not is_value:
                raise self._refusal(each, "a list has numbers or texts")
            value = self.read(each, depth)
            if value.kind != left.kind:
                raise self._refusal(each, f"it is a {value.kind}, and compared with a {left.kind}")
            found.append(left.expression == value.expression)
        return reduce(lambda before, equal: before | equal, found)


_KINDS: Mapping[type[pl.DataType], Kind] = {
    pl.String: "text",
    pl.Boolean: "Boolean",
    pl.Datetime: "time",
    pl.Date: "date",
}


def _kind_of(dtype: pl.DataType) -> Kind:
    if dtype.is_numeric():
        return "number"
    return _KINDS.get(dtype.base_type(), "nested value")
