"""The step before dynamic-gap sessions, whose gap is a value of the row.

See docs/semantics.md, "Sessions".  A row whose gap is null, not positive or longer than the maximum
opens no session.  Its record becomes a dead letter with the reason, so no row is lost silently.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from tidemark.core.rows.expression import Columns, evaluate, expression_text
from tidemark.core.rows.stateless import RECORD, StepOutput, with_metadata
from tidemark.core.time.duration import duration_text

GAP_COLUMN = "session_gap_ms"
"""Name of the column for a gap that is an expression."""


@dataclass(frozen=True)
class SessionGap:
    """Add each row's gap as a column, Int64 ms; report the rows without a valid gap."""

    columns: Columns
    gap: pl.Expr
    column: str
    longest_ms: int

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"session({expression_text(self.gap)})"

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """The gap."""
        return (self.gap,)

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Return the rows with a valid gap; report the others with the reason."""
        seen = with_metadata(rows, self.columns, [self.gap])
        gaps = evaluate([self.gap.alias(self.column)], [self.column], seen)
        with_gaps = rows.with_columns(gaps)
        fits = gaps[self.column].is_between(1, self.longest_ms).fill_null(value=False)
        if fits.all():
            return StepOutput(with_gaps)
        return StepOutput(with_gaps.filter(fits), list(self._bad(with_gaps.filter(~fits))))

    def _bad(self, rows: pl.DataFrame) -> Iterator[tuple[int, str]]:
        for record, gap_ms in rows.select(RECORD, self.column).iter_rows():
            yield record, f"session gap {self._reason(gap_ms)}"

    def _reason(self, gap_ms: int | None) -> str:
        if gap_ms is None:
            return "is null"
        if gap_ms <= 0:
            return f"of {gap_ms} ms is not longer than 0"
        return f"of {gap_ms} ms is longer than {duration_text(self.longest_ms)}"
