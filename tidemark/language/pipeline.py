"""Pipelines as users write them: sources in, named results out (docs/semantics.md).

One Python module defines a pipeline; every service, the Spark job and the tests load the same one.
A mistake raises PipelineError where it is written, with the operator, the name and the value.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from tidemark.core.rows.keys import KEY_GROUPS
from tidemark.core.time.assigners import IngestTime, RecordTime
from tidemark.core.time.duration import Duration
from tidemark.core.time.watermark import Watermark
from tidemark.errors import PipelineError
from tidemark.language.source_options import (
    WhenSilent,
    assigner,
    clock_waits,
    instant_ms,
    positive_ms,
    require_watermark,
)
from tidemark.language.stream import Stream
from tidemark.plan.compile import compile_plan
from tidemark.plan.logical import Dataflow, Node, Source
from tidemark.plan.names import column_types, require_topic
from tidemark.plan.physical import Plan


class Pipeline:
    """A dataflow from raw topics to result topics; its name leads the names of all its topics."""

    def __init__(self, name: str, partitions: int = 4) -> None:
        """Begin an empty pipeline; ``partitions`` is the number of each log's."""
        require_topic(name, "Pipeline(name)")
        whole = isinstance(partitions, int) and not isinstance(partitions, bool)
        if not whole or not 1 <= partitions <= KEY_GROUPS:
            raise PipelineError(
                f"Pipeline(partitions): {partitions!r} is not an int from 1 to {KEY_GROUPS}"
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
        event_time: str | pl.Expr | RecordTime | IngestTime,
        watermark: Watermark,
        unit: str = "ms",
        zone: str | None = None,
        min_time: str | datetime | None = None,
        max_future: Duration | None = None,
        idle_after: Duration = "10s",
        when_silent: WhenSilent = "advance",
        max_drift: Duration | None = None,
    ) -> Stream:
        """Read a raw topic of JSON records.

        ``schema``: columns and their types: str, int, float, bool, list[...].

        ``event_time``: a column that holds it, in ``unit`` (and, for ISO 8601 text without an
        offset, ``zone``); an expression over one record that gives ms or a Datetime with a zone;
        RECORD_TIME or INGEST_TIME.  ``watermark``: how far time has come in each partition, as
        bounded(), monotonic(), punctuated() or from_expression() tell it.

        ``min_time``: earlier event times are refused.  ``max_future``: how far ahead of its Kafka
        timestamp a record may be dated.

        ``idle_after``: silence after which a partition no longer holds back others.
        ``when_silent``: whether time goes on by itself ("advance") or stands still ("wait") while
        all partitions are silent.  ``max_drift``: how far ahead of the slowest a partition may
        read.
        """
        require_topic(topic, "source(topic)")
        what = f"source({topic!r})"
        columns = column_types(schema, f"{what} schema")
        require_watermark(watermark, columns, what)
        source = Source(
            topic,
            assigner(event_time, unit, zone, columns, what),
            watermark,
            positive_ms(idle_after, f"{what}: idle_after"),
            None if max_future is None else positive_ms(max_future, f"{what}: max_future"),
            None if min_time is None else instant_ms(min_time, f"{what}: min_time"),
            clock_waits(when_silent, what),
            None if max_drift is None else positive_ms(max_drift, f"{what}: max_drift"),
        )
        node = Node(columns, source=source)
        self._dataflow.add_source(node)
        return Stream(self._dataflow, node)

    def plan(self) -> Plan:
        """Compile the pipeline: its topics, its services and what each of them does."""
        return compile_plan(self._dataflow)
