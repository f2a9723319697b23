"""A source with records, and what stateless operators make of them."""

import polars as pl

from tidemark import (
    RECORD_TIME,
    Pipeline,
    count,
    monotonic,
    tumbling,
)
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SUB_ROW, WATERMARK
from tidemark.plan.compile import compile_plan

SCHEMA = {"key": str, "number": int, "text": str, "items": list[int]}


def source():
    return Pipeline("test").source(
        "raw", schema=SCHEMA, event_time=RECORD_TIME, watermark=monotonic()
    )


def graph(*streams, key="key"):
    """Return the graph of the source with these streams as its outputs, keyed."""
    for index, stream in enumerate(streams):
        stream.key_by(key).window(tumbling("1m")).aggregate(n=count()).to(f"out-{index}")
    return compile_plan(streams[0].dataflow).sources[0].graph


def records(*rows, **metadata):
    """Records at offsets 10, 11, ...: (key, number, text, items), shorter ones ending in nulls."""
    filled = [(*row, *[None] * (4 - len(row))) for row in rows]
    frame = pl.DataFrame(
        filled,
        schema={
            "key": pl.String,
            "number": pl.Int64,
            "text": pl.String,
            "items": pl.List(pl.Int64),
        },
        orient="row",
    )
    offsets = pl.int_range(10, 10 + len(rows), eager=True)
    return frame.with_columns(
        offsets.alias(OFFSET),
        (offsets * 100).alias(EVENT_TIME),
        (offsets * 100 - 1).alias(WATERMARK),
        *(pl.Series(name, values) for name, values in metadata.items()),
    )


def shown(frame, *columns):
    """Each row as text: offset.sub_row and the columns."""
    names = columns or [name for name in frame.columns if not name.startswith("@")]
    return [
        f"{row[OFFSET]}.{row[SUB_ROW]} " + " ".join(str(row[name]) for name in names)
        for row in frame.iter_rows(named=True)
    ]


def rows_of(stream, given_records, *columns):
    return shown(graph(stream).evaluate(given_records).streams["raw"], *columns)
