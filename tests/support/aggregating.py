"""Rows to aggregate, and ways to do it: any order, cut into blocks, and tree of merges."""

import math
import random
import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tidemark.core.aggregates.aggregate import FAULT, Aggregation
from tidemark.core.aggregates.filtered import filtered
from tidemark.core.time.segment import ARRIVAL, EVENT_TIME, OFFSET, SOURCE, SUB_ROW
from tidemark.serde.frames import decode_frame, encode_frame

COLUMNS: dict[str, pl.DataType] = {
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "decimal": pl.Decimal(38, 2),
    "list": pl.List(pl.Int64()),
}
BY = ["user", "start"]
ALL_TYPES = tuple(COLUMNS)
SUMMABLE = ("int", "float", "bool", "decimal")
ORDERED = (*SUMMABLE, "text")

Row = dict[str, Any]


class CountRows:
    """A count as a user writes it, for ``custom``."""

    def init(self):
        return 0

    def add(self, state, row):
        return state + 1

    def merge(self, state, other):
        return state + other

    def result(self, state):
        return state


def cents(number: int) -> Decimal:
    return Decimal(f"{number}e-2")


def place(row: Row) -> tuple[int, str, int, int]:
    return row[EVENT_TIME], row[SOURCE], row[OFFSET], row[SUB_ROW]


WHERE = pl.col("bool") | (pl.col("int") > 0)
"""A ``where`` that is true, false or null."""


def filtered_by_where(aggregation: Aggregation) -> Aggregation:
    """Return the aggregates of the rows for which WHERE is true."""
    functions = aggregation.aggregates.items()
    return Aggregation({name: filtered(each, WHERE) for name, each in functions}, COLUMNS)


def of_taken(values_of: Callable[[list[Row]], Row]) -> Callable[[list[Row]], Row]:
    """Return the oracle of the same aggregates of the rows for which WHERE is true."""

    def takes(row: Row) -> bool:
        return row["bool"] is True or (row["int"] is not None and row["int"] > 0)

    return lambda rows: values_of([row for row in rows if takes(row)])


SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, 0.1, 1e16]
INT64 = st.integers(-(2**63), 2**63 - 1)
DECIMALS = (st.integers(-5, 5) | st.integers(-(10**30), 10**30)).map(cents)

row_values: dict[str, st.SearchStrategy[Any]] = {
    "user": st.none() | st.sampled_from(["ann", "bob", "ärger"]),
    "start": st.none() | st.sampled_from([-10, 0]),
    "int": st.none() | st.integers(-5, 5) | INT64,
    "float": st.none() | st.floats() | st.sampled_from(SPECIAL) | st.floats(-100, 100, width=32),
    "bool": st.none() | st.booleans(),
    "text": st.none() | st.text(max_size=3),
    "decimal": st.none() | DECIMALS,
    "list": st.none() | st.lists(st.integers(0, 3), max_size=2),
    EVENT_TIME: st.integers(-2, 2),
    SOURCE: st.sampled_from(["moves/0", "moves/2", "moves/10"]),
    SUB_ROW: st.integers(0, 1),
}


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    rows = draw(st.lists(st.fixed_dictionaries(row_values), max_size=12))
    offsets = draw(st.permutations(range(len(rows))))
    return [
        row | {OFFSET: offset, ARRIVAL: (offset * 7) % 13}
        for row, offset in zip(rows, offsets, strict=True)
    ]


SCHEMA: dict[str, pl.DataType] = {
    "user": pl.String(),
    "start": pl.Int64(),
    SOURCE: pl.String(),
    OFFSET: pl.Int64(),
    SUB_ROW: pl.Int32(),
    EVENT_TIME: pl.Int64(),
    ARRIVAL: pl.Int64(),
    **COLUMNS,
}


def frame(rows: Sequence[Row], **more: pl.DataType) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA | more, orient="row")


def bits(value: Any) -> Any:
    """Return a value so that equal means equal to the last bit, inside lists and structs too."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, list):
        return [bits(item) for item in value]
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return str(value) if isinstance(value, Decimal) else value


def shown(partials: pl.DataFrame, aggregation: Aggregation) -> dict[Any, Row]:
    values = aggregation.values(partials)
    assert values.schema.keys() == aggregation.value_types.keys()
    if FAULT in values.columns:
        assert values[FAULT].null_count() == values.height
        values = values.drop(FAULT)
    groups = partials.select(BY).rows()
    assert len(set(groups)) == len(groups)
    found = dict(zip(groups, values.rows(named=True), strict=True))
    return {group: bits(row) for group, row in found.items()}


def expected(rows: list[Row], values_of: Callable[[list[Row]], Row]) -> dict[Any, Row]:
    """Return what ``shown`` should, from the rows of each group in order."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=place):
        groups[row["user"], row["start"]].append(row)
    return {group: bits(values_of(members)) for group, members in groups.items()}


def merged(rows: list[Row], choose: random.Random, aggregation: Aggregation) -> pl.DataFrame:
    """Shuffle, cut into blocks, fold each, and merge some of them at a time until one is left.

    Blocks go through bytes now and then, as those of a changelog do.
    """
    choose.shuffle(rows)
    cuts = sorted(choose.choices(range(len(rows) + 1), k=choose.randint(0, 4)))
    edges = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    blocks = [aggregation.partials(frame(rows[start:end]), BY) for start, end in edges]
    while len(blocks) > 1:
        choose.shuffle(blocks)
        some = choose.randint(1, len(blocks))
        blocks = [aggregation.combine(blocks[:some], BY), *blocks[some:]]
        if choose.random() < 0.3:
            blocks = [decode_frame(encode_frame(block), "a block") for block in blocks]
    return blocks[0]


def one(values: Sequence[Any], column_type: pl.DataType, **named: Any) -> Row:
    """Aggregate a column ``x`` of a single group, a row at a time."""
    aggregation = Aggregation(named, {"x": column_type})
    rows = [
        {"user": "ann", "start": 0, EVENT_TIME: 0, SOURCE: "t/0", OFFSET: i, SUB_ROW: 0, "x": x}
        for i, x in enumerate(values)
    ]
    schema = {name: SCHEMA[name] for name in (*BY, EVENT_TIME, SOURCE, OFFSET, SUB_ROW)}
    whole = pl.DataFrame(rows, schema={**schema, "x": column_type}, orient="row")
    blocks = [aggregation.partials(row, BY) for row in whole.iter_slices(1)]
    return aggregation.values(aggregation.combine(blocks, BY)).row(0, named=True)
