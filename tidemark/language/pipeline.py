"""Pipelines as users write them: from sources to named results (docs/semantics.md).

One Python module defines a pipeline; every service, the Spark job and the tests load that module.
A mistake raises PipelineError in the call that has it, with the operator, the name and the value.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any

import polars as pl

from tidemark.core.rows.keys import KEY_GROUPS
from tidemark.core.time.assigners import IngestTime, RecordTime
from tidemark.core.time.duration import Duration, positive_ms
from tidemark.core.time.watermark import Watermark
from tidemark.errors import PipelineError
from tidemark.language.formats import FormatName, fitted, format_columns, source_format
from tidemark.language.joins.static import static_table
from tidemark.language.joins.tables import Table
from tidemark.language.mistake import caller
from tidemark.language.schema import schema_of
from tidemark.language.source_options import (
    WhenSilent,
    assigner,
    clock_waits,
    exploded,
    instant_ms,
    raw_topics,
    require_watermark,
)
from tidemark.language.stream import Stream
from tidemark.plan.compile import compile_plan
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.html_table import html_table
from tidemark.plan.logical import Node, Source
from tidemark.plan.names import require_topic, source_text
from tidemark.plan.physical import Plan
from tidemark.serde.formats.source_format import SourceFormat


class Pipeline:
    """A dataflow from raw topics to result topics; its name is the prefix of all its topics."""

    def __init__(self, name: str, partitions: int = 4) -> None:
        """Start an empty pipeline; ``partitions``: the number of partitions of each log.

        Raises:
            PipelineError: the name is not legal, or the number is out of range.
        """
        require_topic(name, "Pipeline(name)")
        whole = isinstance(partitions, int) and not isinstance(partitions, bool)
        if not whole or not 1 <= partitions <= KEY_GROUPS:
            raise PipelineError(
                f"Pipeline(partitions): {partitions!r} is not an int from 1 to {KEY_GROUPS}"
            )
        self._dataflow = Dataflow(name, partitions)
        for topic in self._dataflow.own_topics:
            require_topic(topic, "Pipeline(name)")

    @property
    def name(self) -> str:
        """The name, the prefix of all topics."""
        return self._dataflow.name

    def __repr__(self) -> str:
        outputs = ", ".join(output.name for output in self._dataflow.outputs)
        return f"Pipeline({self.name!r}, outputs: {outputs or 'none'})"

    def _repr_html_(self) -> str:
        """Return the raw topics with their columns, and the result topics, for a notebook."""
        sources = [
            (f"reads {', '.join(node.source.topics)}", ", ".join(node.columns))
            for node in self._dataflow.sources
            if node.source is not None
        ]
        outputs = [
            (f"publishes {self.name}.{output.name}", output.format)
            for output in self._dataflow.outputs
        ]
        return html_table(f"pipeline {self.name}", ("topic", "what"), [*sources, *outputs])

    def source(
        self,
        topic: str | Sequence[str] | None = None,
        *,
        topics: str | None = None,
        schema: Mapping[str, Any] | type | None = None,
        format: FormatName | SourceFormat = "json",  # noqa: A002 - the word users know
        explode: str | Sequence[str] | None = None,
        event_time: str | pl.Expr | RecordTime | IngestTime,
        watermark: Watermark,
        unit: str | Sequence[str] = "ms",
        zone: str | None = None,
        min_time: str | datetime | None = None,
        max_future: Duration | None = None,
        idle_after: Duration = "10s",
        when_silent: WhenSilent = "advance",
        max_drift: Duration | None = None,
    ) -> Stream:
        """Read raw topics.

        ``topic``: the name of a raw topic, or a list of names.  ``topics`` instead: a regular
        expression that matches whole names; new topics that match join while ingest runs.

        ``schema``: the columns and their types, as a dict or a class of fields (a dataclass, a
        TypedDict, a pydantic model).  A type is str, int, float, bool, bytes, list[...],
        dict[str, ...], or a dict or class of nested fields.  ``field`` reads a column from another
        place in the record, or with options; RAW is the whole record.  Without a schema, the
        columns are those of the format's schema.

        ``format``: "json", "avro", "csv", "debezium-json", "debezium-avro", "cloudevents", "text"
        or "bytes"; or with options: avro(), protobuf() or csv().

        ``explode``: the path of a list in each record.  Each item is a row: the record with the
        item in place of the list (docs/formats.md, "Lists").

        ``event_time``: a column or nested field; an expression of one record, in ms or as a
        Datetime with a zone; RECORD_TIME; INGEST_TIME.  ``unit`` reads a column or field: one unit,
        or several to try in turn (docs/time.md).  ``zone`` is for text without an offset.
        ``watermark``: the progress of event time in each partition: bounded(), monotonic(),
        punctuated() or from_expression().

        ``min_time``: earlier event times become dead letters.  ``max_future``: how far the event
        time of a record may be ahead of its Kafka timestamp.

        ``idle_after``: the silence after which a partition no longer holds back the clock.
        ``when_silent``: while all partitions are silent, time advances by itself ("advance") or
        stands still ("wait").  ``max_drift``: how far ingest may read a partition ahead of the
        slowest partition.

        Raises:
            PipelineError: an argument is not valid; names the argument and its value.
        """
        read = raw_topics(topic, topics)
        what = f"source({source_text(read)})"
        chosen = source_format(format, what)
        if schema is None and explode is not None:
            raise PipelineError(f"{what}: explode={explode!r} needs schema=, the columns of a row")
        if schema is None:
            schema = format_columns(chosen, what)
        columns = schema_of(schema, f"{what} schema")
        require_watermark(watermark, columns, what)
        chosen, read_as = fitted(chosen, columns, what)
        chosen = exploded(chosen, explode, read_as, what)
        source = Source(
            read,
            read_as,
            assigner(event_time, unit, zone, columns, what),
            watermark,
            positive_ms(idle_after, f"{what}: idle_after"),
            None if max_future is None else positive_ms(max_future, f"{what}: max_future"),
            None if min_time is None else instant_ms(min_time, f"{what}: min_time"),
            clock_waits(when_silent, what),
            None if max_drift is None else positive_ms(max_drift, f"{what}: max_drift"),
            declared_at=caller(),
            format=chosen,
        )
        node = Node(dict(columns), source=source)
        self._dataflow.add_source(node)
        return Stream(self._dataflow, node)

    def static(
        self,
        name: str,
        address: str | PathLike[str],
        *,
        key: str | Sequence[str],
        schema: Mapping[str, Any] | type,
        query: str | None = None,
        delimiter: str | None = None,
        reload: Duration | None = None,
    ) -> Table:
        """Return a table of the rows of a file or a query, for ``join``.

        ``name``: of the table; its versions are kept in topic ``<pipeline>.<name>.static``.
        ``address``: the path of a CSV file with a header, or of a Parquet file; or a database,
        ``"sqlite:PATH"`` or ``"postgresql://..."``, with a ``query`` that returns the rows.

        ``key``: the columns of the key; of several rows with one key, the last counts.
        ``schema``: the columns and their types, as of ``source``.  ``delimiter``: of CSV; by
        default a comma, and in ``.tsv`` a tabulator.  ``reload``: how often the rows are read
        again.  By default they are read when ingest starts.

        The first rows count for all event times, later changes from the time on at which they were
        read.

        Raises:
            PipelineError: an argument is not valid; names the argument and its value.
        """
        return static_table(
            self._dataflow,
            name,
            address,
            key=key,
            schema=schema,
            query=query,
            delimiter=delimiter,
            reload=reload,
        )

    def plan(self) -> Plan:
        """Return the physical plan: topics, services and operators.

        Raises:
            PipelineError: the pipeline has no outputs, or two topics have the same name.
        """
        return compile_plan(self._dataflow)
