"""The columns that outputs depend on: docs/operations.md, "Streams and logs"."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import tidemark as td
from tidemark.language.keyed import KeyedStream
from tidemark.plan.program import program_of

SCHEMA = {"at": int, "id": str, "city": str, "v": int, "w": float, "gap": int, "tags": list[str]}


def read(build: Callable[[KeyedStream], Any]) -> set[str]:
    pipeline = td.Pipeline("p")
    rows = pipeline.source("raw", schema=SCHEMA, event_time="at", watermark=td.bounded("2s"))
    build(rows.key_by("id", "city")).to("out")
    (operator,) = pipeline.plan().operators
    assert operator.reads is not None
    return set(operator.reads) - {"id", "city"}


class Sums:
    """A custom aggregate."""

    def init(self) -> int:
        return 0

    def add(self, state: int, row: dict[str, Any]) -> int:
        return state + (row["v"] or 0)

    def merge(self, state: int, other: int) -> int:
        return state + other

    def result(self, state: int) -> int:
        return state


def total(frame: pl.DataFrame) -> float:
    return float(frame["w"].sum())


AGGREGATES: list[tuple[Any, set[str]]] = [
    (td.count(), set()),
    (td.sum("v"), {"v"}),
    (td.min_by("v", "w"), {"v", "w"}),
    (td.first("tags"), {"tags"}),
    (td.top_k("v", 3), {"v"}),
    (td.quantile("w", 0.5), {"w"}),
    (td.collect("v"), {"v"}),
    (td.count_distinct("city"), set()),
    (td.count(where=td.col("gap") > 3), {"gap"}),
    (td.sum("v", where=td.col("w") > td.col("gap")), {"v", "w", "gap"}),
    (td.latest("v", "w"), {"v", "w"}),
    (td.latest(), {"at", "v", "w", "gap", "tags"}),
    (td.value_counts("v", where=td.col("gap") > 3), {"v", "gap"}),
    (td.top_k("v", 3, by="w", ties=True, ranks=True), {"v", "w"}),
    (td.custom(Sums(), "v", int), {"v"}),
    (td.apply_frame(total, "w", float), {"w"}),
]


@pytest.mark.parametrize(("aggregate", "columns"), AGGREGATES)
def test_aggregates_read_the_columns_that_they_name(aggregate, columns):
    assert read(lambda s: s.window(td.tumbling("1m")).aggregate(x=aggregate)) == columns
    assert read(lambda s: s.window(td.sliding("1m")).aggregate(n=td.count(), x=aggregate)) == (
        columns
    )


WINDOWS: list[tuple[Any, set[str]]] = [
    (td.session("gap", max_gap="1m"), {"gap"}),
    (td.session("1m"), set()),
    (td.delta("w", 2.5), {"w"}),
    (td.punctuation(when=td.col("v") > 3), {"@closes"}),
    (td.count_window(3), set()),
    (td.count_window(3, order="event_time"), set()),
]


@pytest.mark.parametrize(("window", "columns"), WINDOWS)
def test_windows_read_the_columns_that_they_name(window, columns):
    assert read(lambda s: s.window(window).aggregate(n=td.count())) == columns


def test_rows_as_they_are_take_the_columns_that_come():
    pipeline = td.Pipeline("p")
    rows = pipeline.source("raw", schema=SCHEMA, event_time="at", watermark=td.bounded("2s"))
    rows.select("id", "v").to("out")
    assert program_of(pipeline.plan()).reads == {}
