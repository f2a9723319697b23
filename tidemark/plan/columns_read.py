"""The columns that the results of an output depend on: its key, its windows, its aggregates.

A log that lacks one of them in earlier rows cannot give these results (placement.py).
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import polars as pl

from tidemark.core.aggregates.aggregate import KEPT, AggregateFunction, Aggregation
from tidemark.core.aggregates.custom import Aggregate
from tidemark.errors import PipelineError
from tidemark.plan.logical import Output


def columns_read(output: Output) -> frozenset[str]:
    """Return the columns that the panes of an output depend on."""
    windowed, aggregation = output.windowed, output.aggregation
    if output.merges:
        return frozenset(windowed.node.columns)
    found = (
        _of_function(name, function, aggregation)
        for name, function in aggregation.aggregates.items()
    )
    named = frozenset(_names(windowed.window)).intersection(aggregation.columns)
    own = (name for name in aggregation.columns if name.startswith("@"))  # as of punctuation()
    return named.union(own, windowed.key, *found)


def _of_function(name: str, function: AggregateFunction, of: Aggregation) -> frozenset[str]:
    """Return the columns that an aggregate names; all if it needs others too."""
    columns, named = of.columns, frozenset(_names(function)).intersection(of.columns)
    read = {each: columns[each] for each in columns if each in named}
    try:  # without ``where``, which names its columns, and which takes long to check again
        found = of.functions[name].type(name, {**read, KEPT: pl.Boolean()})
    except PipelineError:
        return frozenset(columns)
    return named if found == of.types[name] else frozenset(columns)


def _names(value: object) -> Iterator[str]:
    """Yield the texts and the columns of expressions in the fields of a frozen value."""
    if isinstance(value, Aggregate):
        return  # an object of the user
    if isinstance(value, str):
        yield value
    elif isinstance(value, pl.Expr):
        yield from value.meta.root_names()
    elif isinstance(value, tuple):
        for each in value:
            yield from _names(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _names(getattr(value, field.name))
