"""Pipelines as users write them: sources in, named results out (docs/semantics.md).

One Python module defines a pipeline; every service, the Spark job and the tests load the same one.
A mistake raises PipelineError where it is written, with the operator, the name and the value.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from tidemark.compile import compile_plan
from tidemark.core.duration import Duration, duration_ms
from tidemark.core.expression import require_column
from tidemark.core.keys import KEY_GROUPS
from tidemark.core.watermark import (
    UNITS,
    Bounded,
    ColumnTime,
    EventTime,
    IngestTime,
    RecordTime,
)
from tidemark.errors import PipelineError
from tidemark.logical import Dataflow, Node, Source
from tidemark.names import column_types, require_topic
from tidemark.plan import Plan
from tidemark.stream import Stream


class Pipeline:
    """A dataflow from raw topics to result topics; its name leads the names of all its topics."""

    def __init__(self, name: str, partitions: int = 4) -> None:
        """Begin an empty pipeline; ``partitions`` is the number of each log's."""
        require_topic(name, "Pipeline(name)")
        whole = isinstance(partitions, int) and not isinstance(partitions, bool)
        if not whole or not 1 <= partitions <= KEY_GROUPS:
            raise PipelineError(
                f"Pipeline(partitions): {partitions!r} is no int from 1 to {KEY_GROUPS}"
            )
        self._dataflow = Dataflow(name, partitions)

    @property
    def name(self) -> str:
        """The name that leads the names of all topics."""
        return self._dataflow.name

    def __repr__(self) -> str:
        outputs = ", ".join(output.name for output in self._dataflow.outputs)
        return f"Pipeline({self.name!r}, outputs: {outputs or 'none'})"

    def source(
        self,
        topic: str,
        *,
        schema: Mapping[str, Any],
        event_time: str | RecordTime | IngestTime,
        watermark: Bounded,
        unit: str = "ms",
        zone: str | None = None,
        idle_after: Duration = "10s",
        max_future: Duration | None = None,
    ) -> Stream:
        """Read a raw topic of JSON records.

        ``schema``: columns and their types: str, int, float, bool, list[...].  ``event_time``: a
        column that holds it, in ``unit`` (and, for ISO 8601 text without an offset, ``zone``), or
        RECORD_TIME or INGEST_TIME.  ``watermark``: how far each partition may be out of order.
        ``idle_after``: silence after which a partition no longer holds back others.
        ``max_future``: how far ahead of its Kafka timestamp a record may be dated.
        """
        require_topic(topic, "source(topic)")
        what = f"source({topic!r})"
        columns = column_types(schema, f"{what} schema")
        if not isinstance(watermark, Bounded):
            raise PipelineError(
                f"{what}: watermark {watermark!r} is none; use bounded('2s') or monotonic()"
            )
        time = _event_time(event_time, unit, zone, columns, what)
        idle_after_ms = _positive_ms(idle_after, f"{what}: idle_after")
        future_ms = None if max_future is None else _positive_ms(max_future, f"{what}: max_future")
        source = Source(topic, time, watermark, idle_after_ms, future_ms)
        node = Node(columns, source=source)
        self._dataflow.add_source(node)
        return Stream(self._dataflow, node)

    def plan(self) -> Plan:
        """Compile the pipeline: its topics, its services and what each of them does."""
        return compile_plan(self._dataflow)


def _event_time(
    event_time: object, unit: str, zone: str | None, columns: Mapping[str, pl.DataType], what: str
) -> EventTime:
    if isinstance(event_time, RecordTime | IngestTime):
        if unit != "ms" or zone is not None:
            raise PipelineError(f"{what}: unit {unit!r}, zone {zone!r}: only of a column's time")
        return event_time
    require_column(event_time, columns, f"{what}: event_time")
    assert isinstance(event_time, str)
    if unit not in UNITS:
        raise PipelineError(f"{what}: unit {unit!r} is not one of {', '.join(UNITS)}")
    if zone is not None:
        _require_zone(zone, what)
    needed = pl.String() if unit == "iso8601" else pl.Int64()
    if columns[event_time] != needed:
        raise PipelineError(
            f"{what}: event_time column {event_time!r} is {columns[event_time]}, but unit {unit!r} "
            f"needs {needed}"
        )
    return ColumnTime(event_time, unit, zone)


def _require_zone(zone: object, what: str) -> None:
    try:
        pl.Series([0]).cast(pl.Datetime("ms")).dt.replace_time_zone(zone)  # type: ignore[arg-type]
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise PipelineError(f"{what}: zone {zone!r} is no time zone such as 'Europe/Berlin'") from (
            error
        )


def _positive_ms(value: Duration, what: str) -> int:
    ms = duration_ms(value, what)
    if ms <= 0:
        raise PipelineError(f"{what}: {value!r} is not longer than 0")
    return ms
