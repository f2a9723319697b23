"""Streams: immutable values that describe the stateless operators on a source's rows.

Each call checks its arguments at once.  It computes types only, and expressions on a probe frame
(core/rows/probe.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl

from tidemark.core.operators.ports import ALL
from tidemark.core.rows.expression import (
    as_written,
    expression_text,
    output_types,
    require_column,
    require_expression,
)
from tidemark.core.rows.nested import Path, nested_expression, nested_type, path_of
from tidemark.core.rows.probe import require_row_wise
from tidemark.core.rows.row_operators import (
    Apply,
    Explode,
    Filter,
    FlatMap,
    RowFunction,
    RowsFunction,
    Select,
    WithColumns,
)
from tidemark.core.rows.schema import instance
from tidemark.core.rows.stateless import RowOperator
from tidemark.core.time.duration import Duration
from tidemark.errors import PipelineError
from tidemark.language.absent import absent
from tidemark.language.keyed import KeyedStream
from tidemark.language.output import publish_rows
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.html_table import html_table
from tidemark.plan.logical import Format, Node
from tidemark.plan.names import column_types, require_key, require_new_columns
from tidemark.plan.operators.replacing import require_rows_that_stay
from tidemark.plan.operators.two_phases import of_one_key


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows of sources or of results, with event time; operators see one row at a time.

    All methods raise PipelineError if an argument is not valid.
    """

    dataflow: Dataflow
    node: Node

    def __repr__(self) -> str:
        return f"Stream({', '.join(self.node.columns)})"

    def _repr_html_(self) -> str:
        """Return the columns and their types, for a notebook."""
        return html_table(repr(self), ("column", "type"), self.node.columns.items())

    if not TYPE_CHECKING:  # type checkers know the methods that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AbsentMethodError, with what to write instead."""
            raise absent(self, name)

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The value columns and their types."""
        return dict(self.node.columns)

    def filter(self, predicate: pl.Expr) -> "Stream":
        """Keep the rows for which the predicate is true; null is not true."""
        label = self._checked(predicate, "filter")
        return self._then(Filter(self.node.columns, predicate, label), self.columns)

    def with_columns(self, *expressions: pl.Expr, **named: pl.Expr) -> "Stream":
        """Add or replace columns by expressions; all of them see the row as it was before."""
        used = _aliased(expressions, named, "with_columns")
        types = self._made(used, "with_columns")
        return self._then(
            WithColumns(self.node.columns, used, types), {**self.node.columns, **types}
        )

    def select(self, *expressions: str | pl.Expr, **named: pl.Expr) -> "Stream":
        """Replace all columns by expressions; a string names a column to keep."""
        for name in expressions:
            if isinstance(name, str):
                require_column(name, self.node.columns, "select")
        plain = [pl.col(name) if isinstance(name, str) else name for name in expressions]
        used = _aliased(plain, named, "select")
        types = self._made(used, "select")
        return self._then(Select(self.node.columns, used, types), types)

    def apply(self, function: RowFunction, columns: Mapping[str, Any]) -> "Stream":
        """Add or replace ``columns`` by a Python function of a row.

        The function gets the row as a dict, and returns a dict of ``columns``.  ``columns`` maps
        names to types.  The function is called once for each row and must depend on that row only.
        It does not see metadata columns; add them as value columns first (``with_columns``).
        """
        what = f"apply({getattr(function, '__name__', function)})"
        types = self._declared(function, columns, what)
        return self._then(Apply(self.node.columns, function, types), {**self.node.columns, **types})

    def flat_map(self, function: RowsFunction, columns: Mapping[str, Any]) -> "Stream":
        """Replace each row by the rows that a Python function returns for it.

        The function gets the row as a dict, and returns an iterable of dicts with exactly the
        columns ``columns``, which maps names to types.
        """
        what = f"flat_map({getattr(function, '__name__', function)})"
        types = self._declared(function, columns, what)
        return self._then(FlatMap(self.node.columns, function, types), types)

    def explode(self, column: str) -> "Stream":
        """Make one row for each item of a list column; an empty or null list gives no row.

        Raises:
            PipelineError: the column is unknown or not a list.
        """
        require_column(column, self.node.columns, "explode")
        dtype = self.node.columns[column]
        if not isinstance(dtype, pl.List):
            raise PipelineError(f"explode: column {column!r} is {dtype}, not a list")
        columns = {**self.node.columns, column: instance(dtype.inner)}
        return self._then(Explode(self.node.columns, column), columns)

    def unnest(self, column: str) -> "Stream":
        """Replace a struct column by its fields, in its place; of a null they are null.

        After ``explode`` of a list of structs, such as that of ``top_k``, each item is a row.

        Raises:
            PipelineError: the column is unknown or not a struct, or the stream has a column of the
                name of a field.
        """
        require_column(column, self.node.columns, "unnest")
        dtype = self.node.columns[column]
        if not isinstance(dtype, pl.Struct):
            hint = f"; call explode({column!r}) before" if isinstance(dtype, pl.List) else ""
            raise PipelineError(f"unnest: column {column!r} is {dtype}, not a struct{hint}")
        fields = [field.name for field in dtype.fields]
        for name in fields:
            if name != column and name in self.node.columns:
                raise PipelineError(
                    f"unnest({column!r}): the stream has a column {name!r} already; rename or drop "
                    "it with select()"
                )
        made = [nested_expression((column, name)).alias(name) for name in fields]
        place = list(self.node.columns).index(column)
        others = [pl.col(name) for name in self.node.columns]
        return self.select(*others[:place], *made, *others[place + 1 :])

    def split(self, **predicates: pl.Expr) -> dict[str, "Stream"]:
        """Send each row to the first stream whose predicate is true; other rows are filtered.

        ``rest=lit(True)`` as the last predicate takes all remaining rows.

        Raises:
            PipelineError: there is no predicate, or one is not a Boolean expression of a row.
        """
        if not predicates:
            raise PipelineError("split: no predicates; pass them as name=predicate")
        branches: dict[str, Stream] = {}
        earlier = pl.lit(value=False)
        for name, predicate in predicates.items():
            label = self._checked(predicate, f"split {name}")
            mine = predicate.fill_null(value=False)
            operator = Filter(self.node.columns, mine & ~earlier, label)
            branches[name] = self._then(operator, self.columns)
            earlier = earlier | mine
        return branches

    def union(self, *others: "Stream") -> "Stream":
        """Combine streams with the same columns; a row in several streams becomes several rows.

        Raises:
            PipelineError: there is no other stream, or it has other columns or another pipeline.
        """
        if not others:
            raise PipelineError("union: no other stream")
        for other in others:
            self._require_same(other)
        for each in (self, *others):
            each._require_rows("union")
        require_rows_that_stay([each.node for each in (self, *others)], "union")
        parents = (self.node, *(other.node for other in others))
        return Stream(self.dataflow, Node(self.columns, parents))

    def key_by(self, *columns: str, **named: str) -> KeyedStream:
        """Set the key, the columns that state is kept by; a record with a null key is dead.

        A nested field is a column of the key under its last name: ``key_by("user.id")`` keys by
        ``id``.  ``key_by(user_id="user.id")`` adds a column with that name.  The same form copies
        a plain column.  ``key_by()`` gives all rows one key; windows that allow it are
        computed on every partition and merged by one task.

        Raises:
            PipelineError: a column is missing, named twice, or of a type that cannot be a key.
        """
        what = f"key_by({', '.join([*map(str, columns), *(f'{n}={c}' for n, c in named.items())])})"
        self._require_rows(what)
        if not columns and not named:
            return self._of_one_key()
        stream, key = self._with_key(columns, named, what)
        if len(set(key)) < len(key):
            raise PipelineError(
                f"{what}: a column is named twice; write name='path' for one of them"
            )
        require_key(key, stream.node.columns, what)
        return KeyedStream(self.dataflow, stream.node, key)

    def distinct_by(self, *columns: str, within: Duration) -> "Stream":
        """Keep the first row of each value of ``columns``, and the next only after ``within``.

        The same as ``key_by(*columns).distinct_by(within=within)``.

        Raises:
            PipelineError: no column is named, one cannot be a key, or the time is not positive.
        """
        if not columns:
            raise PipelineError("distinct_by(): no columns; name those that rows have in common")
        return self.key_by(*columns).distinct_by(within=within)

    def _of_one_key(self) -> KeyedStream:
        known = self.dataflow.keyed_nodes.get((self.node, ()))
        if known is None:
            known = self.dataflow.keyed_nodes[self.node, ()] = of_one_key(self.node)
        return KeyedStream(self.dataflow, known, (ALL,))

    def _require_rows(self, what: str) -> None:
        """Raise PipelineError if the stream is only to be published."""

    def _with_key(
        self, columns: Sequence[str], named: Mapping[str, str], what: str
    ) -> "tuple[Stream, tuple[str, ...]]":
        """Return a stream with the columns of a key, and their names."""
        added: dict[str, Path] = {}
        key: list[str] = []
        for name, column in [*((None, column) for column in columns), *named.items()]:
            if not isinstance(column, str):
                raise PipelineError(f"{what}: {as_written(column)} is not a column name")
            path = (column,) if column in self.node.columns else path_of(column, what)
            is_renamed = name is not None and (name,) != path
            require_column(path[0], self.node.columns, what)
            nested_type(path, self.node.columns, what)
            if is_renamed or len(path) > 1:
                added[name or path[-1]] = path
            key.append(name or path[-1])
        for name, path in added.items():
            if name in self.node.columns:
                raise PipelineError(
                    f"{what}: the stream has a column {name!r} already; give the key another name: "
                    f"key_by({'_'.join(path)}={'.'.join(path)!r})"
                )
        if not added:
            return self, tuple(key)
        require_new_columns(list(added), what)
        known = self.dataflow.keyed_nodes.get((self.node, tuple(added.items())))
        if known is not None:
            return Stream(self.dataflow, known), tuple(key)
        made = self.with_columns(**{n: nested_expression(path) for n, path in added.items()})
        self.dataflow.keyed_nodes[self.node, tuple(added.items())] = made.node
        return made, tuple(key)

    def to(self, name: str, format: Format = "json") -> None:  # noqa: A002 - the word users know
        """Publish each row on topic ``<pipeline>.<name>``, in the order of its raw partition.

        ``key_by(...).to(...)`` publishes rows in the partitions of their keys.

        Raises:
            PipelineError: the name is not legal or is taken, a column has the name of a field of
                every row, the format is unknown, or Avro does not support a name or type.
        """
        publish_rows(self.dataflow, self.node, (), name, format)

    def _then(self, operator: RowOperator, columns: Mapping[str, pl.DataType]) -> "Stream":
        self._require_rows(operator.label)
        return Stream(self.dataflow, Node(dict(columns), (self.node,), operator))

    def _made(self, expressions: tuple[pl.Expr, ...], operator: str) -> dict[str, pl.DataType]:
        types = output_types(expressions, self.node.columns, operator)
        require_new_columns(list(types), operator)
        for expression in expressions:
            require_row_wise(expression, self.node.columns, operator)
        return types

    def _checked(self, predicate: pl.Expr, operator: str) -> str:
        """Return the filter's label; raise PipelineError if it is not one row-wise Boolean."""
        label = f"{operator}({expression_text(require_expression(predicate, operator))})"
        types = list(output_types([predicate], self.node.columns, label).values())
        if types != [pl.Boolean()]:
            found = ", ".join(map(str, types))
            raise PipelineError(f"{label}: the predicate gives {found}, not one Boolean")
        require_row_wise(predicate, self.node.columns, operator)
        return label

    def _declared(
        self, function: object, columns: Mapping[str, Any], what: str
    ) -> dict[str, pl.DataType]:
        if not callable(function):
            raise PipelineError(f"{what}: {as_written(function)} is not a function")
        return column_types(columns, f"{what} columns")

    def _require_same(self, other: "Stream") -> None:
        if not isinstance(other, Stream):
            raise PipelineError(
                f"union: {as_written(other)} is a {type(other).__name__}, not a stream"
            )
        if other.dataflow is not self.dataflow:
            raise PipelineError(
                f"union: the streams belong to two pipelines, {self.dataflow.name!r} and "
                f"{other.dataflow.name!r}"
            )
        mine, theirs = self.node.columns, other.node.columns
        for name in {**mine, **theirs}:
            if mine.get(name) != theirs.get(name):
                raise PipelineError(
                    f"union: column {name!r} is {mine.get(name, 'missing')} in one stream and "
                    f"{theirs.get(name, 'missing')} in another"
                )


def _aliased(
    expressions: "tuple[pl.Expr, ...] | list[pl.Expr]", named: Mapping[str, pl.Expr], what: str
) -> tuple[pl.Expr, ...]:
    plain = [require_expression(expression, what) for expression in expressions]
    aliased = [
        require_expression(expression, f"{what}({name})").alias(name)
        for name, expression in named.items()
    ]
    if not plain and not aliased:
        raise PipelineError(f"{what}: no expressions")
    return (*plain, *aliased)
