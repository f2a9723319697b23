"""The tables of a pipeline: one for each topic that a sink reads, its columns from the plan.

Names are those of SQL, where ``end`` and ``offset`` are words of the language: windows are
``window_start`` and ``window_end``, and raw records have ``raw_topic``, ``raw_partition`` and
``raw_offset``.  Instants are Datetime("ms", "UTC"), as a database's own type for them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.operators.operator import LATE_BY
from tidemark.core.windows.pane import END, FINAL, RETRACTED, REVISION, START, TIMING, WINDOW
from tidemark.errors import ConfigurationError
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.keyed.encoders import results_of
from tidemark.serde.avro import AvroType

ROW = "row"
WINDOW_START, WINDOW_END = "window_start", "window_end"
INSTANT = pl.Datetime("ms", "UTC")

_PANE = {
    WINDOW_START: INSTANT,
    WINDOW_END: INSTANT,
    REVISION: pl.Int64(),
    TIMING: pl.String(),
    FINAL: pl.Boolean(),
}
_COMMENTS = {
    WINDOW_START: "Start of the window",
    WINDOW_END: "End of the window, not part of it",
    WINDOW: "Number of the window among those of its key, from 0",
    REVISION: "Rows folded into the pane; the highest of a window counts",
    TIMING: "early, on_time or late",
    FINAL: "No later row can change the pane",
    LATE_BY: "Event time by which its source had passed window end and allowed lateness, ms",
    "watermark": "What the row was judged by: the watermark of its own source",
    "raw_topic": "Where the raw record is",
}
_RAW_POSITION = {
    "raw_topic": pl.String(),
    "raw_partition": pl.Int32(),
    "raw_offset": pl.Int64(),
}
_LATE = {
    "reason": pl.String(),
    WINDOW_START: INSTANT,
    WINDOW_END: INSTANT,
    LATE_BY: pl.Int64(),
    "watermark": INSTANT,
    "event_time": INSTANT,
    **_RAW_POSITION,
    "sub_row": pl.Int32(),
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

RENAMED: Mapping[str, str] = {
    WINDOW_START: START,
    WINDOW_END: END,
    "watermark": "own_watermark_ms",
    "event_time": "event_time_ms",
    "record_time": "timestamp_ms",
    "raw_topic": "topic",
    "raw_partition": "partition",
    "raw_offset": "offset",
}
"""Columns that are called otherwise in the records of a topic."""


@dataclass(frozen=True)
class Table:
    """The rows of one topic as a table.

    ``key``: the columns that say which row it is.  ``window``: those that say which window a pane
    is of, empty where rows are no panes; all rows of a window go where the pane is withdrawn.
    ``record_key``: the pipeline's key columns.  ``raw_row``: type of what late rows hold besides,
    as JSON in column ``row``.  ``avro``: how records are written, None for JSON.  ``partitions``:
    of the topic.
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

    @property
    def has_panes(self) -> bool:
        """Whether the rows are panes, with revisions and withdrawals."""
        return bool(self.window)

    def comment_of(self, column: str) -> str:
        """Say what a column holds; empty where its name says it."""
        return _COMMENTS.get(column, "")


def tables_of(plan: Plan) -> tuple[Table, ...]:
    """Return the tables of all results, late rows and dead letters of a pipeline.

    Raises:
        ConfigurationError: two columns, or two tables, of the same name.
    """
    tables = [_dead_letters(plan)]
    for operator in plan.operators:
        tables += [_panes(plan, operator), _late(plan, operator)]
    names: dict[str, str] = {}
    for table in tables:
        other = names.setdefault(table.name, table.topic)
        if other != table.topic:
            raise ConfigurationError(
                f"topics {other} and {table.topic} would both be table {table.name}"
            )
    return tuple(tables)


def chosen(tables: Sequence[Table], names: str) -> tuple[Table, ...]:
    """Return the tables that ``names`` has, between commas; all where it has none.

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


def table_name(plan: Plan, topic: str) -> str:
    """Return a topic's name without the pipeline's, as SQL writes names without quotes."""
    return re.sub(r"\W", "_", topic.removeprefix(f"{plan.pipeline}."), flags=re.ASCII).lower()


def _panes(plan: Plan, operator: OperatorPlan) -> Table:
    body = operator.operator
    key = {name: body.columns[name] for name in body.key}
    number = {WINDOW: pl.Int64()} if operator.identity == WINDOW else {}
    own = {**number, **_PANE}
    for name in (*key, *operator.values):
        if name in own or name == RETRACTED:
            raise ConfigurationError(f"{operator.results}: column {name!r} is a sink's; rename it")
    identity = WINDOW if number else WINDOW_START
    # Windows come in the order of time: with it first, rows of a batch are neighbours in an index.
    window = (identity, *key)
    return Table(
        operator.results,
        table_name(plan, operator.results),
        {**key, **own, **operator.values},
        # A window that closes may have a pane of no more rows than the early one before it.
        (*window, REVISION, TIMING) if operator.discarding else window,
        f"Panes of {operator.results}: {operator.description}",
        window,
        tuple(key),
        avro=_avro(operator, "pane_type"),
        partitions=_partitions(plan, operator),
    )


def _late(plan: Plan, operator: OperatorPlan) -> Table:
    columns = {n: t for n, t in operator.operator.columns.items() if not n.startswith("@")}
    return Table(
        operator.late,
        table_name(plan, operator.late),
        {**_LATE, ROW: pl.String()},
        ("raw_topic", "raw_partition", "raw_offset", "sub_row"),
        f"Rows that came too late for {operator.results}",
        raw_row=pl.Struct(columns),
        avro=_avro(operator, "late_type"),
        partitions=_partitions(plan, operator),
    )


def _partitions(plan: Plan, operator: OperatorPlan) -> int:
    return next(log.partitions for log in plan.logs if log.topic == operator.log)


def _avro(operator: OperatorPlan, kind: str) -> AvroType | None:
    return getattr(results_of(operator), kind) if operator.format == "avro" else None


def _dead_letters(plan: Plan) -> Table:
    return Table(
        plan.dead_letters,
        table_name(plan, plan.dead_letters),
        _DEAD_LETTERS,
        ("raw_topic", "raw_partition", "raw_offset"),
        f"Raw records of {plan.pipeline} that became no row",
    )
