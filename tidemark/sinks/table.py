"""The tables of a pipeline: one for each topic that a sink reads, with columns from the plan.

See docs/sinks.md.  Column names avoid words of SQL, such as ``end`` and ``offset``.  Windows have
``window_start`` and ``window_end``.  Raw records have ``raw_topic``, ``raw_partition`` and
``raw_offset``.  Instants are Datetime("ms", "UTC"), which becomes the instant type of a database.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tidemark.core.operators.joins.results import END_MS, START_MS
from tidemark.core.operators.ports import LATE, LATE_BY, PANES, ROW, Port, RowTime
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.rows.schema import INSTANT
from tidemark.core.windows.pane import END, FINAL, RETRACTED, REVISION, START, TIMING, WINDOW
from tidemark.errors import ConfigurationError
from tidemark.plan.physical import OperatorPlan, Plan, PortPlan
from tidemark.serde.avro import AvroType
from tidemark.serde.avro_results import AvroEncoder

WINDOW_START, WINDOW_END = "window_start", "window_end"

_COMMENTS = {
    WINDOW_START: "Start of the window",
    WINDOW_END: "End of the window, not part of it",
    WINDOW: "Number of the window among those of its key, from 0",
    REVISION: "Rows folded into the pane; the highest of a window counts",
    TIMING: "early, on_time or late",
    FINAL: "No later row can change the pane",
    LATE_BY: "Event time by which its source had passed window end and allowed lateness, ms",
    "watermark": "The watermark that decided that the row is late, of its own source",
    "raw_topic": "Where the raw record is",
}
_RAW_POSITION = {
    "raw_topic": pl.String(),
    "raw_partition": pl.Int32(),
    "raw_offset": pl.Int64(),
}
_DEAD_LETTERS = {
    "reason": pl.String(),
    "stage": pl.String(),
    **_RAW_POSITION,
    "record_time": INSTANT,
    **{
        f"{part}{suffix}": pl.Int64() if suffix == "_length" else pl.String()
        for part in ("key", "value")
        for suffix in ("", "_encoding", "_length", "_sha256")
    },
}

_RAW_NAMES = {"topic": "raw_topic", "partition": "raw_partition", "offset": "raw_offset"}
_WINDOW_NAMES = {START: WINDOW_START, END: WINDOW_END}
_LATE_NAMES = {
    **_WINDOW_NAMES,
    **_RAW_NAMES,
    "own_watermark_ms": "watermark",
    "event_time_ms": "event_time",
}
_RESULT_NAMES = {
    **_WINDOW_NAMES,
    START_MS: "_window_start",
    END_MS: "_window_end",
    EVENT_TIME_MS: "_event_time",
}
_DEAD_LETTER_NAMES = {**_RAW_NAMES, "timestamp_ms": "record_time"}
"""Columns of a table, by the member of the record that they hold, if the names differ."""


@dataclass(frozen=True)
class Table:
    """The rows of one topic as a table.

    Attributes:
        topic: the topic.
        name: the name of the table.
        columns: names and types, in order.
        key: the columns that identify a row.
        comment: the content of the table.
        window: the columns that identify the window of a pane; empty if rows are not panes.  A
            withdrawal deletes all rows of its window.
        record_key: the key columns of the pipeline.
        raw_row: the type of column ``row`` of late rows, which holds JSON.
        avro: the schema of the records; None for JSON.
        partitions: the number of partitions of the topic.
        members: the member of a record by column, if their names differ.
        instants: columns that a record holds as ms since 1970.
        raw_keys: whether message keys are those of raw records, any bytes; all others are JSON.
        operator: the name of the operator whose results the topic holds; empty for dead letters.
        schema: the schema of a mapped table; empty for that of the connection.
        is_mapped: whether the table is a user's, which the sink does not create or change.
        keeps_rows: whether the rows of older generations stay in a mapped table.
        row_time: the event time of a result, by the member of its record; None for other rows.
    """

    topic: str
    name: str
    columns: Mapping[str, pl.DataType]
    key: tuple[str, ...]
    comment: str
    window: tuple[str, ...] = ()
    record_key: tuple[str, ...] = ()
    raw_row: pl.Struct | None = None
    avro: AvroType | None = None
    partitions: int = 1
    members: Mapping[str, str] = field(default_factory=dict)
    instants: frozenset[str] = frozenset()
    raw_keys: bool = False
    operator: str = ""
    schema: str = ""
    is_mapped: bool = False
    keeps_rows: bool = False
    row_time: RowTime | None = None

    def member(self, column: str) -> str:
        """Return the member of a record that a column holds."""
        return self.members.get(column, column)

    @property
    def has_panes(self) -> bool:
        """Whether rows have revisions and may be withdrawn, as panes do."""
        return bool(self.window)

    def comment_of(self, column: str) -> str:
        """Return a comment on a column; empty if its name is clear."""
        return _COMMENTS.get(column, "")


def tables_of(plan: Plan) -> tuple[Table, ...]:
    """Return the tables of all results, late rows and dead letters of a pipeline.

    Raises:
        ConfigurationError: two columns, or two tables, of the same name.
    """
    tables = [_dead_letters(plan)]
    for operator in plan.operators:
        tables += [_table(plan, operator, each) for each in operator.published]
    require_distinct(tables, "topics")
    return tuple(tables)


def require_distinct(tables: Sequence[Table], what: str) -> None:
    """Raise ConfigurationError if two topics have the same table; ``what`` begins the error."""
    names: dict[str, str] = {}
    for table in tables:
        other = names.setdefault(table.name, table.topic)
        if other != table.topic:
            raise ConfigurationError(
                f"{what} {other} and {table.topic} would both go to table {table.name!r}"
            )


def chosen(tables: Sequence[Table], names: str) -> tuple[Table, ...]:
    """Return the tables in ``names``, which are separated by commas; all if it is empty.

    Raises:
        ConfigurationError: there is no such table.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {table.name: table for table in tables}
    for name in wanted:
        if name not in known:
            raise ConfigurationError(
                f"TIDEMARK_SINK_TABLES: no table {name!r}; there are {', '.join(known)}"
            )
    return tuple(known[name] for name in dict.fromkeys(wanted)) or tuple(tables)


def avro_reasons(tables: Sequence[Table], needs: str) -> dict[str, str]:
    """Return why a sink that takes only JSON refuses tables, by name; ``needs``: says that."""
    return {
        table.name: f"{table.topic} is Avro, but {needs}: choose another sink, or leave the table "
        "out of TIDEMARK_SINK_TABLES"
        for table in tables
        if table.avro is not None
    }


def table_name(plan: Plan, topic: str) -> str:
    """Return the table name of a topic: without the pipeline's name, valid SQL without quotes."""
    return re.sub(r"\W", "_", topic.removeprefix(f"{plan.pipeline}."), flags=re.ASCII).lower()


def _table(plan: Plan, operator: OperatorPlan, each: PortPlan) -> Table:
    """Return the table of a port; its columns depend on the port alone."""
    port = each.port
    names = {name: _column(port, name) for name in port.columns if name != RETRACTED}
    columns = {column: _type(port, name) for name, column in names.items()}
    if len(columns) < len(names):
        own = next(column for name, column in names.items() if name != column and column in names)
        raise ConfigurationError(f"{each.topic}: column {own!r} is reserved by sinks; rename it")
    # Windows come in order of time: with them first, rows of a batch are neighbours in an index.
    identity = port.window_id + tuple(name for name in port.key if name in port.identity)
    window = tuple(names[name] for name in identity)
    return Table(
        each.topic,
        table_name(plan, each.topic),
        columns,
        (*window, *port.version),
        _comment(operator, each),
        window=window if port.withdraws else (),
        record_key=port.key if port.withdraws else (),
        raw_row=_raw_row(port),
        avro=AvroEncoder(each.topic, port).avro if each.format == "avro" else None,
        partitions=next(log.partitions for log in plan.logs if log.topic == operator.log),
        members={column: name for name, column in names.items() if name != column},
        instants=frozenset(names[name] for name in port.instants),
        operator=operator.name,
        row_time=port.row_time if each is operator.results else None,
    )


def _column(port: Port, name: str) -> str:
    """Return the column of a member; of results, only instants have another name."""
    if port.kind == LATE:
        return _LATE_NAMES.get(name, name)
    return _RESULT_NAMES.get(name, name) if name in port.instants else name


def _type(port: Port, name: str) -> pl.DataType:
    if name in port.instants:
        return INSTANT
    return pl.String() if port.kind == LATE and name == ROW else port.columns[name]


def _raw_row(port: Port) -> pl.Struct | None:
    row = port.columns.get(ROW)
    return row if port.kind == LATE and isinstance(row, pl.Struct) else None


def _comment(operator: OperatorPlan, each: PortPlan) -> str:
    if each.port.kind == LATE:
        return f"Rows that came too late for {operator.results.topic}"
    what = "Panes" if each.port.kind == PANES else "Rows"
    return f"{what} of {each.topic}: {operator.description}"


def _dead_letters(plan: Plan) -> Table:
    return Table(
        plan.dead_letters,
        table_name(plan, plan.dead_letters),
        _DEAD_LETTERS,
        ("raw_topic", "raw_partition", "raw_offset"),
        f"Raw records of {plan.pipeline} that became no row",
        members={column: name for name, column in _DEAD_LETTER_NAMES.items()},
        instants=frozenset({"record_time"}),
        raw_keys=True,
    )
