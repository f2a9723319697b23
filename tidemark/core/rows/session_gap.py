"""The step before sessions whose gap is a value of the row: docs/semantics.md, "Sessions".

A row whose gap is null, not positive or longer than the longest allowed opens no session.  It must
not vanish, so its record dies at ingest, with the reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from tidemark.core.rows.expression import Columns, evaluate, expression_text
from tidemark.core.rows.stateless import RECORD, StepOutput, with_metadata
from tidemark.core.time.duration import duration_text

GAP_COLUMN = "session_gap_ms"
"""The column that holds a gap which is no column of the stream already."""


@dataclass(frozen=True)
class SessionGap:
    """Keep each row's gap, Int64 milliseconds, as a column; find the rows that have none."""

    columns: Columns
    gap: pl.Expr
    column: str
    longest_ms: int

    @property
    def label(self) -> str:
        """How errors and plans call it."""
        return f"session({expression_text(self.gap)})"

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """The gap."""
        return (self.gap,)

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Compute the gaps."""
        seen = with_metadata(rows, self.columns, [self.gap])
        gaps = evaluate([self.gap.alias(self.column)], [self.column], seen)
        made = rows.with_columns(gaps)
        fits = gaps[self.column].is_between(1, self.longest_ms).fill_null(value=False)
        if fits.all():
            return StepOutput(made)
        return StepOutput(made.filter(fits), list(self._bad(made.filter(~fits))))

    def _bad(self, rows: pl.DataFrame) -> Iterator[tuple[int, str]]:
        for record, gap_ms in rows.select(RECORD, self.column).iter_rows():
            yield record, f"session gap {self._reason(gap_ms)}"

    def _reason(self, gap_ms: int | None) -> str:
        if gap_ms is None:
            return "is null"
        if gap_ms <= 0:
            return f"of {gap_ms} ms is not longer than 0"
        return f"of {gap_ms} ms is longer than {duration_text(self.longest_ms)}"
