"""Copies: each row of a broadcast stream is in every partition of the log that reads it.

The first partition has the row itself, all others have copies of it.  COPY tells them apart, so a
row is counted, and reported if it is late, once.  See docs/semantics.md, "Broadcast tables".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tidemark.core.rows.expression import Columns
from tidemark.core.rows.stateless import StepOutput

COPY = "@copy"
"""Boolean column: whether the row is a copy of one in another partition of the log."""


@dataclass(frozen=True)
class Copies:
    """Add COPY to rows, false; what writes a log makes the copies.

    ``beside``: the key columns, with types, of the log that gets the rows.
    """

    columns: Columns
    beside: Mapping[str, pl.DataType]

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"broadcast to {', '.join(self.beside)}"

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """No expressions."""
        return ()

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Return the rows with the column added."""
        return StepOutput(rows.with_columns(pl.lit(value=False).alias(COPY)))


def in_parts(rows: pl.DataFrame, parts: int) -> list[pl.DataFrame]:
    """Return the rows for each part of a log: as they are for the first one, then copies."""
    copies = rows.with_columns(pl.lit(value=True).alias(COPY))
    return [rows, *[copies] * (parts - 1)]


def own_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are no copies."""
    return rows.filter(~rows[COPY]) if COPY in rows.columns else rows
