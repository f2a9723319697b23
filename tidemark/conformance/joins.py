"""Run cases of joins: two sides, with a source of their own each, or with one for both.

Each item of the input is one segment.  A watermark moves the source of its side.  With
``stream_time`` both sides are of one source, whose rows move time.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.conformance.feed import Step, stated_ms
from tidemark.conformance.run import RunResult, outputs
from tidemark.conformance.values import as_type, type_of
from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import LATE, ROWS
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.core.time.watermark import monotonic
from tidemark.language.keyed import KeyedStream
from tidemark.language.pipeline import Pipeline
from tidemark.language.stream import Stream
from tidemark.plan.logical import SIDES

BOTH = "in"

_POLARS: Mapping[type, pl.DataType] = {
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    bool: pl.Boolean(),
}
_KINDS: Mapping[str, Kind] = {"inner": "inner", "left": "left", "outer": "full"}


def run_join(case: Case, *, restart_often: bool = False) -> RunResult:
    """Run a case; ``restart_often``: restart after each step, which must not show.

    Raises:
        ConformanceError: a parameter is unknown.
    """
    types = _types(case)
    operator = _operator(case, types)
    streams = {side.name: side.streams[0] for side in operator.inputs}
    steps = _Feed(case, types, streams).steps()
    collected = RunResult()
    for step, output, _ in outputs(operator, steps, restart_often=restart_often):
        collected.results += _results(output, step.after)
        collected.late += output.late
    return collected


def bounds_ms(case: Case) -> tuple[int, int]:
    """Return the first and the last distance of a right row from a left row, ms."""
    join = case.spec["join"]
    return (
        join["lower_ms"] + (not join["lower_inclusive"]),
        join["upper_ms"] - (not join["upper_inclusive"]),
    )


def kind_of(case: Case) -> Kind:
    """Return the kind of the join."""
    kind: Kind = _KINDS[case.spec["join"]["kind"]]
    return kind


def sources_of(case: Case) -> Mapping[str, str]:
    """Return the topic of each side."""
    shared = case.watermark.get("scope") == "task"
    return {side: BOTH if shared else side for side in SIDES}


Types = Mapping[str, Mapping[str, type]]
"""Types of the columns of each side: the key, and the value with the name of the side."""


def _types(case: Case) -> Types:
    elements = list(case.elements())
    key = type_of(element["key"] for element in elements)
    values = {
        side: type_of(element["value"] for element in elements if element["side"] == side)
        for side in SIDES
    }
    return {side: {"key": key, side: values[side]} for side in SIDES}


def _schema(types: Mapping[str, type]) -> dict[str, pl.DataType]:
    return {name: _POLARS[kind] for name, kind in types.items()}


def _operator(case: Case, types: Types) -> Operator:
    """Return the operator of a pipeline that joins the sides of a case."""
    if case.emit not in ("on_match", "on_match+unmatched_on_close"):
        raise ConformanceError(f"emit {case.emit!r} is unknown")
    pipeline = Pipeline("conformance", partitions=1)
    schema = {"ts": int, "side": str, **types["left"], **types["right"]}
    topics = sources_of(case)
    sources = {
        topic: pipeline.source(topic, schema=schema, event_time="ts", watermark=monotonic())
        for topic in dict.fromkeys(topics.values())
    }
    left, right = (
        sources[topics[side]].filter(pl.col("side") == side).select("key", side).key_by("key")
        for side in SIDES
    )
    _joined(case, left, right).to("results")
    (plan,) = pipeline.plan().operators
    return plan.operator


def _joined(case: Case, left: KeyedStream, right: KeyedStream) -> Stream:
    """Return the join of two sides; an as-of join has a table of the last ``grace_ms``."""
    join = case.spec["join"]
    match join["type"]:
        case "interval":
            lower_ms, upper_ms = bounds_ms(case)
            return left.join(
                right,
                within=(f"{lower_ms}ms", f"{upper_ms}ms"),
                how=kind_of(case),
                allowed_lateness=f"{case.spec['allowed_lateness_ms']}ms",
            )
        case "asof":
            grace = f"{join['grace_ms']}ms"
            table = right.table(keep=grace)
            return left.join(table, how=kind_of(case), allowed_lateness=grace, wait="arrival")
    raise ConformanceError(f"join {join['type']!r} is unknown")


class _Feed:
    """Turns the input of a case into steps."""

    def __init__(self, case: Case, types: Types, streams: Mapping[str, str]) -> None:
        """Start before the first item; ``streams``: of each side, in a log."""
        self._case, self._types, self._streams = case, types, streams
        self._topics = sources_of(case)
        self._offsets = dict.fromkeys(self._topics.values(), 0)
        self._watermarks_ms = dict.fromkeys(self._topics.values(), NEVER_MS)

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the items, in order."""
        for after, item in enumerate(self._case.input):
            if "checkpoint" in item:
                yield Step(after, restart=True)
            elif "ts" in item:
                yield Step(after, self._row(item))
            elif "watermark" in item:
                topic = self._topics[item["side"]]
                yield Step(after, self._segment(topic, stated_ms(item), {}, rows=0))
            else:
                raise ConformanceError(f"input {item!r} is unknown")

    def _row(self, element: Fields) -> Segment:
        side, at_ms = element["side"], element["ts"]
        topic = self._topics[side]
        watermark_ms = self._watermarks_ms[topic]
        types = self._types[side]
        values = as_type(types["key"], element["key"]), as_type(types[side], element["value"])
        row = (0, self._offsets[topic], 0, at_ms, watermark_ms, *values)
        frame = pl.DataFrame([row], schema={**ROW_COLUMNS, **_schema(types)}, orient="row")
        if self._case.watermark["type"] == "stream_time":
            watermark_ms = max(watermark_ms, at_ms - self._case.watermark["delay_ms"])
        return self._segment(topic, watermark_ms, {self._streams[side]: frame}, rows=1)

    def _segment(
        self, topic: str, watermark_ms: int, streams: Mapping[str, pl.DataFrame], rows: int
    ) -> Segment:
        first, before_ms = self._offsets[topic], self._watermarks_ms[topic]
        self._offsets[topic] = first + rows
        self._watermarks_ms[topic] = max(before_ms, watermark_ms)
        mark = SourceMark(f"{topic}/0", first, first + rows, before_ms, self._watermarks_ms[topic])
        return Segment(0, 0, (mark,), dict.fromkeys(self._offsets, 1), 0, streams)


def _results(output: Output, after: int) -> Iterator[dict[str, Any]]:
    for row in output[ROWS].iter_rows(named=True):
        values = {side: row[side] for side in SIDES}
        kind = "unmatched" if None in values.values() else "match"
        yield {"key": row["key"], **values, "kind": kind, "ts": row[EVENT_TIME_MS], "after": after}
    for side in SIDES:
        for row in output[f"{LATE}-{side}"].iter_rows(named=True):
            yield {
                "side": side,
                "key": row["key"],
                "ts": row[EVENT_TIME],
                "value": row[side],
                "kind": "late",
                "after": after,
            }
