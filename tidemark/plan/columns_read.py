"""The columns that results depend on: the key, windows and aggregates of an output.

A log that lacks one of them in earlier rows cannot give these results (placement.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

import polars as pl

from tidemark.core.aggregates.aggregate import KEPT, AggregateFunction, Aggregation
from tidemark.core.aggregates.custom import Aggregate
from tidemark.core.rows.row_operators import Filter, Select, WithColumns
from tidemark.errors import PipelineError
from tidemark.plan.logical import KeyedNode, Node
from tidemark.plan.outputs import JoinOutput, Output


def columns_read(output: Output) -> frozenset[str]:
    """Return the columns that the panes of an output depend on."""
    windowed, aggregation = output.windowed, output.aggregation
    if output.merges:
        return frozenset(windowed.node.columns)
    named = frozenset(names_in(windowed.window)).intersection(aggregation.columns)
    own = (name for name in aggregation.columns if name.startswith("@"))  # as of punctuation()
    return named.union(own, windowed.key, columns_of(aggregation))


def columns_of(aggregation: Aggregation) -> frozenset[str]:
    """Return the columns that aggregates depend on."""
    return frozenset(
        column
        for name, function in aggregation.aggregates.items()
        for column in _of_function(name, function, aggregation)
    )


def columns_used(output: JoinOutput, ends: Iterable[KeyedNode]) -> frozenset[str]:
    """Return the columns of the results of a join that are published or reach a log.

    ``ends``: the keyed streams of the pipeline; a log holds all columns of its streams.
    """
    results = output.results
    if results is None:
        return frozenset(name for shown in output.stage.shown for name in shown.values())
    needed: dict[Node, set[str]] = {}
    for end, _ in ends:
        nodes = list(end.ancestors())
        if results in nodes:
            needed.setdefault(end, set()).update(end.columns)
        for node in reversed(nodes):
            for parent in node.parents if node in needed else ():
                needed.setdefault(parent, set()).update(_needed(node, parent, needed[node]))
    return frozenset(needed.get(results, ()))


def _needed(node: Node, parent: Node, columns: Iterable[str]) -> set[str]:
    """Return the columns of a parent that some columns of a node need, and its choice of rows."""
    operator = node.operator
    if operator is None:
        return set(columns)
    if any(each.meta.has_multiple_outputs() for each in operator.expressions):
        return set(parent.columns)  # it chooses columns by pattern, type or position
    named = {name for each in operator.expressions for name in each.meta.root_names()}
    if isinstance(operator, Filter):
        return named.union(columns)
    if isinstance(operator, WithColumns):
        return named.union(columns) - (operator.types.keys() - named)
    return named if isinstance(operator, Select) else set(parent.columns)


def _of_function(name: str, function: AggregateFunction, of: Aggregation) -> frozenset[str]:
    """Return the columns that an aggregate names; all if it needs others too."""
    columns, named = of.columns, frozenset(names_in(function)).intersection(of.columns)
    read = {each: columns[each] for each in columns if each in named}
    try:  # without ``where``, which names its columns, and which takes long to check again
        found = of.functions[name].type(name, {**read, KEPT: pl.Boolean()})
    except PipelineError:
        return frozenset(columns)
    return named if found == of.types[name] else frozenset(columns)


def names_in(value: object) -> Iterator[str]:
    """Yield the texts and the columns of expressions in the fields of a frozen value."""
    if isinstance(value, Aggregate):
        return  # an object of the user
    if isinstance(value, str):
        yield value
    elif isinstance(value, pl.Expr):
        yield from value.meta.root_names()
    elif isinstance(value, tuple):
        for each in value:
            yield from names_in(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from names_in(getattr(value, field.name))
