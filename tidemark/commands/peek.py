"""``tidemark peek``: prints the rows of a pipeline's topics as they pass, a line each."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import polars as pl
import typer
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.commands.options import Bootstrap, FromBeginning, PipelineArgument, broker_config
from tidemark.core.rows.schema import INSTANT
from tidemark.core.time.segment import EVENT_TIME, SOURCE, Segment, shown_source
from tidemark.core.windows.pane import FINAL, RETRACTED, REVISION, TIMING
from tidemark.language.load import load_pipeline
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.client import clients
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.client.schema_registry import with_registry
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.fresh_start import partitions_of
from tidemark.serde.segments import decode_segment
from tidemark.sinks.rows import decode
from tidemark.sinks.table import WINDOW_END, WINDOW_START, Table, tables_of

SHOWN = 40
"""The largest number of rows of a topic that are shown at once."""

_BATCH = 1_000
_WAIT_S = 0.2
_HIDDEN = (WINDOW_START, WINDOW_END, REVISION, TIMING, FINAL, RETRACTED)


def peek(
    pipeline: PipelineArgument,
    rows: Annotated[
        bool, typer.Option("--rows", help="Also the rows that ingest writes for the operators.")
    ] = False,
    from_beginning: FromBeginning = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Print results, late rows and dead letters as they pass, a line each, until interrupted.

    Of many rows that come together, it shows the first, and says how many more there are.
    """
    config = broker_config(bootstrap_server)
    admin = require_broker(config)
    plan = placed_plan(config, admin, load_pipeline(pipeline).plan())
    passing = PassingRows(config, admin, plan, rows=rows, from_beginning=from_beginning)
    try:
        while True:
            for line in passing.lines():
                typer.echo(line)
    finally:
        passing.close()


class PassingRows:
    """What passes through the topics of a pipeline from now on, or from the beginning."""

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        plan: Plan,
        *,
        rows: bool = False,
        from_beginning: bool = False,
    ) -> None:
        """``rows``: also the rows in the logs.  The topics begin at their ends as they are now.

        Raises:
            ConfigurationError: a topic does not exist.
        """
        tables = tables_of(plan)
        with_registry(config, {each.topic: each.avro for each in tables if each.avro is not None})
        self._tables: Mapping[str, Table] = {each.topic: each for each in tables}
        self._logs: Mapping[str, LogPlan] = {log.topic: log for log in plan.logs if rows}
        topics = [*self._tables, *self._logs]
        require(admin, topics)
        begins = offsets(
            admin, partitions_of(admin, topics), EARLIEST if from_beginning else LATEST
        )
        self._prefix = f"{plan.pipeline}."
        self._consumer: Consumer = clients.plain_consumer(config, partitions=len(begins))
        self._consumer.assign([TopicPartition(*at, begin) for at, begin in begins.items()])

    def lines(self) -> Iterator[str]:
        """Yield a line for each row that has come; wait a moment if nothing has."""
        found: dict[str, list[bytes]] = {}
        for message in clients.records(self._consumer.consume(_BATCH, _WAIT_S)):
            value = message.value()
            if value is not None:
                found.setdefault(str(message.topic()), []).append(value)
        for topic, values in found.items():
            name = topic.removeprefix(self._prefix)
            if topic in self._logs:
                yield from log_lines(self._logs[topic], values)
            else:
                yield from table_lines(name, self._tables[topic], values)

    def close(self) -> None:
        """End the connection to the broker."""
        self._consumer.close()


def table_lines(name: str, table: Table, values: Sequence[bytes]) -> Iterator[str]:
    """Yield the lines of records of a topic; ``name``: of the topic."""
    decoded = decode(table, values)
    for row in decoded.rows.head(SHOWN).iter_rows(named=True):
        yield f"{name:24}  {_window(row)}{_fields(row)}{_note(row)}"
    yield from _more(name, decoded.rows.height)
    for number, reason in decoded.bad:
        yield f"{name:24}  {values[number]!r} is no record of it: {reason}"


def log_lines(log: LogPlan, values: Sequence[bytes]) -> Iterator[str]:
    """Yield the lines of the rows in segments of a log."""
    for segment in map(decode_segment, values):
        for stream in log.streams:
            if stream.name in segment.streams:
                yield from _stream_lines(segment, segment.streams[stream.name], stream.columns)


def _stream_lines(
    segment: Segment, frame: pl.DataFrame, columns: Mapping[str, pl.DataType]
) -> Iterator[str]:
    names = [name for name in columns if not name.startswith("@")]
    shown = frame.head(SHOWN).select(SOURCE, pl.col(EVENT_TIME).cast(INSTANT), *names)
    for source, time, *values in shown.iter_rows():
        name = shown_source(segment.sources[source].source)
        yield f"{name:24}  {_text(time)}  {_fields(dict(zip(names, values, strict=True)))}"
    yield from _more("rows", frame.height)


def _more(name: str, height: int) -> Iterator[str]:
    if height > SHOWN:
        yield f"{name:24}  ... and {height - SHOWN:,} more"


def _window(row: Mapping[str, Any]) -> str:
    """Return the bounds of a pane's window: date and time of the start, time of the end."""
    start, end = row.get(WINDOW_START), row.get(WINDOW_END)
    if start is None or end is None:
        return ""
    same_day = start.date() == end.date()
    return f"{_text(start)} to {_text(end).partition(' ')[2] if same_day else _text(end)}  "


def _fields(row: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={_text(value)}"
        for name, value in row.items()
        if name not in _HIDDEN and value is not None
    )


def _note(row: Mapping[str, Any]) -> str:
    if row.get(RETRACTED):
        return "  (withdrawn)"
    return f"  ({row[TIMING]}, revision {row[REVISION]})" if row.get(TIMING) else ""


def _text(value: object) -> str:
    """Return a value as text; an instant without its zone, which is UTC."""
    if not isinstance(value, datetime):
        return str(value)
    return value.replace(tzinfo=None).isoformat(" ", "milliseconds").removesuffix(".000")
