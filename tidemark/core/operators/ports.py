"""Inputs and ports: the columns that an operator reads and publishes, with their meaning.

Encoders, tables of sinks, Parquet files, result schemas, ``tail``, ``diff`` and later operators
read ports.  None of them knows which operator is behind a port (docs/architecture.md, "Operators").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from tidemark.core.rows.byte_text import bytes_as_text, text_types
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW, WATERMARK
from tidemark.core.windows.pane import (
    END,
    RETRACTED,
    REVISION,
    START,
    TIMING,
    WINDOW,
    pane_schema,
)

Kind = Literal["panes", "rows", "late", "dead", "failed"]
Mode = Literal["append", "upsert", "changes"]

PANES: Kind = "panes"
"""Results for a key and window."""
ROWS: Kind = "rows"
"""Results that are not panes, such as pairs of a join."""
LATE: Kind = "late"
"""Late rows, with the same columns for all operators (``LATE_COLUMNS``)."""
DEAD: Kind = "dead"
"""Rows that the operator refuses, with ``REASON``; they go to the pipeline's dead letters."""
FAILED: Kind = "failed"
"""Panes whose values cannot be computed, with ``REASON``; they go to the dead letters, too."""

APPEND: Mode = "append"
"""Every row is a result."""
UPSERT: Mode = "upsert"
"""The row with the highest revision of an identity is the result; RETRACTED withdraws it."""
CHANGES: Mode = "changes"
"""As ``UPSERT``, and RETRACTED comes with the values, before each row that replaces another.

Rows may lie up to ``holds_ms`` behind the clock.  Operators that read them accept such rows.
"""

LATE_BY = "late_by_ms"
REASON = "@reason"
"""Column that says why a row or a pane is refused, or why a row is late, if not by its time."""
BY_TIME = "late"
"""The reason of a row that is late by its time; a larger lateness would have saved it."""
ROW = "row"
ALL = "@all"
"""Key column of a stream whose rows have one key: an Int8 column of zeros."""
OWN = "@row."
"""Begins the name of a late row's own column that has the name of one of its window."""

LATE_COLUMNS: dict[str, pl.DataType] = {
    "reason": pl.String(),
    START: pl.Int64(),
    END: pl.Int64(),
    LATE_BY: pl.Int64(),
    "own_watermark_ms": pl.Int64(),
    "event_time_ms": pl.Int64(),
    "topic": pl.String(),
    "partition": pl.Int32(),
    "offset": pl.Int64(),
    "sub_row": pl.Int32(),
}
"""Columns of a published late row before ``ROW``, which is a struct of the stream's columns."""

_LATE_IDENTITY = ("topic", "partition", "offset", "sub_row")
_LATE_INSTANTS = frozenset({START, END, "own_watermark_ms", "event_time_ms"})


@dataclass(frozen=True)
class Input:
    """One side of an operator: streams of one log with the same columns.

    Args:
        streams: names of the streams; their rows are read in log order, as one stream.
        key: names of the key columns.
        columns: columns of the streams and their types, including the key.
        sources: raw topics, or operators as ``operator_source`` names them, whose watermarks make
            the operator's clock.
        name: of the side in ``Body.process``; two inputs may read the same stream.
    """

    streams: tuple[str, ...]
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    sources: frozenset[str]
    name: str = "input"


class RowTime(NamedTuple):
    """Event time of a published row: a column's value in ms, plus ``shift_ms``."""

    column: str
    shift_ms: int = 0


@dataclass(frozen=True)
class Port:
    """One output of an operator, published to a topic of its own.

    Args:
        name: of the port; unique in the operator.
        kind: ``PANES``, ``ROWS``, ``LATE``, ``DEAD`` or ``FAILED``.
        columns: of a published row, in order, with types.
        key: names of the key columns; rows of one key are in one partition.
        message_key: columns of the Kafka message key, which is a JSON array.
        identity: columns that identify a result.  In mode ``UPSERT`` a row replaces the earlier row
            with the same identity.
        row_time: the event time of a row, for an operator that reads the port.
        values: columns that a withdrawal leaves out.
        mode: ``APPEND``, ``UPSERT`` or ``CHANGES``; with the last two the columns have REVISION and
            RETRACTED.
        version: in mode ``APPEND``, columns in which rows of one identity differ.
        instants: columns whose Int64 values are instants in ms.
        holds_ms: the largest distance of a row's event time behind the clock before its segment;
            None without a bound.  With ``watermark``, the largest distance of a row's W.
        watermark: column with the W of a row, which judges the row in the operators that read the
            port; "" if no row is late for them.
        stage: of the dead letters of the port; only of kinds ``DEAD`` and ``FAILED``.
    """

    name: str
    kind: Kind
    columns: Mapping[str, pl.DataType]
    key: tuple[str, ...]
    message_key: tuple[str, ...]
    identity: tuple[str, ...]
    row_time: RowTime
    values: tuple[str, ...] = ()
    mode: Mode = APPEND
    version: tuple[str, ...] = ()
    instants: frozenset[str] = frozenset()
    holds_ms: int | None = None
    watermark: str = ""
    stage: str = ""

    @property
    def is_dead_letters(self) -> bool:
        """Whether rows become dead letters of the pipeline, so that the port has no topic."""
        return self.kind in (DEAD, FAILED)

    @property
    def withdraws(self) -> bool:
        """Whether rows may be withdrawn."""
        return RETRACTED in self.columns

    @property
    def rejects(self) -> bool:
        """Whether rows are rows of an input that did not change state: late or dead ones."""
        return self.kind in (LATE, DEAD)

    @property
    def window_id(self) -> tuple[str, ...]:
        """The columns of the identity that are not key columns."""
        return tuple(name for name in self.identity if name not in self.key)

    def published(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return an operator's frame with the columns of the port.

        Late rows come with the columns of segment and stream, and are converted to ``LATE_COLUMNS``
        and ``ROW``, with bytes as base64 text.  All other frames already have the columns of the
        port; the column ALL is dropped.
        """
        if self.kind != LATE:
            return frame.drop(ALL) if ALL in frame.columns else frame
        own = {name: f"{OWN}{name}" for name in self._own}
        rows = bytes_as_text(
            frame.select(
                pl.col(other if other in frame.columns else name).alias(name)
                for name, other in own.items()
            )
        )
        return _late_columns(frame).with_columns(rows.to_struct(ROW))

    @property
    def _own(self) -> list[str]:
        row = self.columns[ROW]
        assert isinstance(row, pl.Struct)
        return [field.name for field in row.fields]


def shown_key(key: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a key that results show; the only key of all rows is not shown."""
    return tuple(name for name in key if name != ALL)


def shown_columns(columns: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return the columns that results show; names that begin with ``@`` are of operators."""
    return {name: dtype for name, dtype in columns.items() if not name.startswith("@")}


def pane_port(
    key: tuple[str, ...],
    columns: Mapping[str, pl.DataType],
    values: Mapping[str, pl.DataType],
    *,
    numbered: bool = False,
    discarding: bool = False,
    holds_ms: int | None = None,
) -> Port:
    """Return the port of panes.

    Args:
        key: names of the key columns.
        columns: of the stream and their types, including the key.
        values: names of the aggregates and their types.
        numbered: whether windows have numbers, as windows in order of arrival have.
        discarding: whether a pane holds only rows since the pane before it, so all panes count.
        holds_ms: see ``Port``.
    """
    key = shown_key(key)
    identity = (*key, WINDOW if numbered else START)
    return Port(
        PANES,
        PANES,
        pane_schema(key, columns, values, numbered=numbered),
        key,
        message_key=identity,
        identity=identity,
        row_time=RowTime(END, -1),
        values=tuple(values),
        mode=APPEND if discarding else UPSERT,
        # The last pane of a window may have the same revision as the early pane before it.
        version=(REVISION, TIMING) if discarding else (),
        instants=frozenset({START, END}),
        holds_ms=holds_ms,
    )


def late_port(key: tuple[str, ...], columns: Mapping[str, pl.DataType], name: str = LATE) -> Port:
    """Return the port of late rows of an input with these columns."""
    return Port(
        name,
        LATE,
        {**LATE_COLUMNS, ROW: pl.Struct(text_types(shown_columns(columns)))},
        shown_key(key),
        message_key=key,
        identity=_LATE_IDENTITY,
        row_time=RowTime("event_time_ms"),
        instants=_LATE_INSTANTS,
    )


def dead_port(key: tuple[str, ...], columns: Mapping[str, pl.DataType], operator: str) -> Port:
    """Return the port of rows that a user's function refuses; dead letters show the whole row."""
    return Port(
        DEAD,
        DEAD,
        {REASON: pl.String(), ROW: pl.Struct(shown_columns(columns))},
        shown_key(key),
        message_key=key,
        identity=(),
        row_time=RowTime(EVENT_TIME),
        stage=operator,
    )


def failed_port(panes: Port, operator: str) -> Port:
    """Return the port of panes of a port whose values a user's function cannot compute."""
    hidden = (*panes.values, RETRACTED)
    columns = {name: dtype for name, dtype in panes.columns.items() if name not in hidden}
    return Port(
        FAILED,
        FAILED,
        {**columns, REASON: pl.String()},
        panes.key,
        panes.message_key,
        panes.identity,
        panes.row_time,
        version=(REVISION, TIMING),
        instants=panes.instants,
        stage=operator,
    )


def _late_columns(late: pl.DataFrame) -> pl.DataFrame:
    """Return ``LATE_COLUMNS`` of an operator's late rows, in the same order of rows."""
    return late.select(
        (pl.col(REASON) if REASON in late.columns else pl.lit(BY_TIME)).alias("reason"),
        START,
        END,
        LATE_BY,
        pl.col(WATERMARK).alias("own_watermark_ms"),
        pl.col(EVENT_TIME).alias("event_time_ms"),
        *places(pl.col(SOURCE).cast(pl.String), "topic", "partition"),
        pl.col(OFFSET).alias("offset"),
        pl.col(SUB_ROW).alias("sub_row"),
    )


def places(source: pl.Expr, topic: str, partition: str) -> tuple[pl.Expr, pl.Expr]:
    """Return topic and partition of sources; an operator stands for its topic, partition -1."""
    number = source.str.extract("/([0-9]+)$").cast(pl.Int32).fill_null(-1)
    return source.str.replace("/[0-9]+$", "").alias(topic), number.alias(partition)
