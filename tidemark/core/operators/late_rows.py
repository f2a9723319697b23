"""Late rows as results: an operator that publishes the rows which other windows refuse.

See docs/semantics.md, "Late rows as a stream".  The time of a row and its W decide whether it is
late.  So the operator needs no state, and finds the rows that the operator on the windows finds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import polars as pl

from tidemark.core.operators.operator import Frames
from tidemark.core.operators.ports import BY_TIME, LATE_BY, ROWS, Port, shown_columns, shown_key
from tidemark.core.operators.rows import NoState, WithoutState, published_rows, rows_port
from tidemark.core.time.segment import EVENT_TIME, WATERMARK
from tidemark.core.windows.pane import END, START

LATE_REASON = "reason"
OWN_WATERMARK = "own_watermark"

LATE_FIELDS: dict[str, pl.DataType] = {
    LATE_REASON: pl.String(),
    START: pl.Int64(),
    END: pl.Int64(),
    LATE_BY: pl.Int64(),
    OWN_WATERMARK: pl.Int64(),
}
"""Columns of a late row after those of its stream: why, the window missed, by how much, its W."""


class JudgesRows(Protocol):
    """An operator whose late rows depend on their times and W alone."""

    def late_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the late ones of rows whose W has passed their time; ``missed`` adds columns."""


@dataclass(frozen=True)
class LateRows(WithoutState):
    """Publishes the late rows of an operator at once, in log order, with their W.

    ``judge``: says which rows are late.  ``key``, ``columns``: of the stream, with types; no
    column has the name of one of ``LATE_FIELDS``.
    """

    judge: JudgesRows
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The port of late rows: a row may be of any age, but its W is not behind the clock."""
        columns = {**shown_columns(self.columns), **LATE_FIELDS}
        port = rows_port(shown_key(self.key), columns, holds_ms=0, keeps_bytes=True)
        return (replace(port, watermark=OWN_WATERMARK),)

    def process(self, sides: Frames, state: NoState) -> Frames:  # noqa: ARG002 - the contract
        """Return the late rows."""
        (rows,) = sides.values()
        # No window has ended for a row before its own time.
        behind = rows.filter(rows[WATERMARK] > rows[EVENT_TIME])
        late = self.judge.late_of(behind).with_columns(
            pl.lit(BY_TIME).alias(LATE_REASON), pl.col(WATERMARK).alias(OWN_WATERMARK)
        )
        return {ROWS: published_rows(late, list(self._shown), keeps_bytes=True)}

    @cached_property
    def _shown(self) -> Sequence[str]:
        return (*shown_columns(self.columns), *LATE_FIELDS)
