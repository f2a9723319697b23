"""Rows as they are: an operator that publishes each row of a stream, without keyed state.

See docs/semantics.md, "Rows".  A published row has the columns of its stream, and those that say
which row it is (``identity_of``) and when it happened (``EVENT_TIME_MS``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Body, Changes, Frames
from tidemark.core.operators.ports import ROWS, Port, RowTime, places
from tidemark.core.rows.byte_text import bytes_as_text, text_types
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import EVENT_TIME, OFFSET, OPERATOR, SOURCE, SUB_ROW
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import END_OF_INPUT, RETRACTED

IDENTITY: dict[str, pl.DataType] = {
    "_topic": pl.String(),
    "_partition": pl.Int32(),
    "_offset": pl.Int64(),
    "_sub_row": pl.Int32(),
}
"""The place of the raw record, and the number of the row among those of the record."""

ID = "_id"
"""The column that identifies a row or a result of a stage, as text."""

EVENT_TIME_MS = "_event_time_ms"


def identity_of(*, by_id: bool) -> dict[str, pl.DataType]:
    """Return the columns that say which row a published row is; ``by_id``: a text alone."""
    return {ID: pl.String()} if by_id else IDENTITY


def row_fields(*, by_id: bool) -> tuple[str, ...]:
    """Return the names of fields of published rows, which no column of their stream may have.

    Only withdrawals have RETRACTED, and only rows of a local run END_OF_INPUT.
    """
    return (*identity_of(by_id=by_id), EVENT_TIME_MS, RETRACTED, END_OF_INPUT)


def rows_port(
    key: tuple[str, ...],
    columns: Mapping[str, pl.DataType],
    *,
    holds_ms: int | None = None,
    keeps_bytes: bool = False,
    by_id: bool = False,
) -> Port:
    """Return the port of rows of a stream with these columns.

    The message key is the key of the stream, or without a key the identity of the row.

    Args:
        key: names of the key columns.
        columns: of the stream, with types.
        holds_ms: see ``Port``.
        keeps_bytes: whether bytes stay bytes, as for other operators; else they become text.
        by_id: whether a text says which row it is, and not the place of the raw record.
    """
    identity = identity_of(by_id=by_id)
    return Port(
        ROWS,
        ROWS,
        {
            **(columns if keeps_bytes else text_types(columns)),
            **identity,
            EVENT_TIME_MS: pl.Int64(),
        },
        key,
        message_key=key or tuple(identity),
        identity=tuple(identity),
        row_time=RowTime(EVENT_TIME_MS),
        instants=frozenset({EVENT_TIME_MS}),
        holds_ms=holds_ms,
    )


def published_rows(
    rows: pl.DataFrame,
    columns: Sequence[str],
    *,
    keeps_bytes: bool = False,
    by_id: bool = False,
) -> pl.DataFrame:
    """Return a task's rows as rows of ``rows_port``; ``columns``: of the stream.

    In a batch, they keep the column SEGMENT.
    """
    selected = rows[[*columns]]
    own = (selected if keeps_bytes else bytes_as_text(selected)).get_columns()
    place = [*_places(rows[SOURCE]), rows[OFFSET].alias("_offset"), rows[SUB_ROW].alias("_sub_row")]
    identity = [_ids(rows)] if by_id else place
    time = rows[EVENT_TIME].alias(EVENT_TIME_MS)
    segment = [rows[SEGMENT]] if SEGMENT in rows.columns else []
    return pl.DataFrame([*own, *identity, time, *segment])


def _ids(rows: pl.DataFrame) -> pl.Series:
    """Return the identity of each row as text: its source, then two numbers."""
    source = pl.col(SOURCE).str.strip_prefix(OPERATOR)
    return rows.select(pl.concat_str(source, OFFSET, SUB_ROW, separator="-").alias(ID)).to_series()


def _places(sources: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return topic and partition of each source, computed once for each run of equal sources."""
    runs = sources.rle().struct.unnest()
    topic, partition = runs.select(places(pl.col("value"), "_topic", "_partition")).get_columns()
    run_of = pl.Series(np.repeat(np.arange(runs.height, dtype=np.uint32), runs["len"].to_numpy()))
    return topic[run_of], partition[run_of]


class NoState:
    """The keyed state of an operator that keeps none: a ``State`` that is always empty."""

    def changes(self) -> Changes:
        """Return no changes."""
        return {}

    def snapshot(self) -> Iterator[Changes]:
        """Return no pieces."""
        return iter(())

    def size_bytes(self) -> int:
        """Return 0."""
        return 0

    def open_windows(self) -> int:
        """Return 0."""
        return 0

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return no bounds."""
        return ()

    def apply(self, changes: Changes) -> None:
        """Do nothing: there is no piece with content."""

    def purge(self, clock_ms: int) -> None:
        """Do nothing."""

    def validate(self) -> None:
        """Do nothing."""


class WithoutState(Body):
    """An operator that publishes rows at once and keeps no state."""

    @property
    def can_batch(self) -> bool:
        """True: a segment changes nothing for the next one."""
        return True

    def open(self, store: BlockStore = IN_MEMORY, /) -> NoState:  # noqa: ARG002 - holds no blocks
        """Return the state, which is empty."""
        return NoState()

    def rests(self, state: NoState, before_ms: int, clock_ms: int) -> bool:  # noqa: ARG002
        """True: time makes no row due."""
        return True

    def advance(self, state: NoState, before_ms: int, clock_ms: int) -> Frames:  # noqa: ARG002
        """Return nothing: time makes no row due."""
        return {}

    def advance_each(self, state: NoState, before_ms: int, clock_ms: Sequence[int]) -> Frames:  # noqa: ARG002
        """Return nothing: time makes no row due."""
        return {}


@dataclass(frozen=True)
class PublishRows(WithoutState):
    """Publishes each row at once, in log order; ``columns``: of the stream, with types.

    ``by_id``: as in ``rows_port``.  No row is late: there is no window that it could have missed.
    """

    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    by_id: bool = False

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The port of rows."""
        return (rows_port(self.key, self.columns, by_id=self.by_id),)

    def process(self, sides: Frames, state: NoState) -> Frames:  # noqa: ARG002 - the contract
        """Return all rows."""
        (rows,) = sides.values()
        return {ROWS: published_rows(rows, list(self.columns), by_id=self.by_id)}
