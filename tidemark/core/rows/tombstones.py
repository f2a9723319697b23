"""Tombstones in streams: the column that marks them, and the step that adds it.

A record without a value is a tombstone.  It is no row of the source, so no operator sees it.  It
becomes a row of the streams that a table reads: with the columns of the key, and TOMBSTONE.  See
docs/semantics.md, "Tombstones".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tidemark.core.rows.expression import Columns
from tidemark.core.rows.stateless import StepOutput

TOMBSTONE = "@tombstone"
"""Boolean column: whether the row deletes its key."""


@dataclass(frozen=True)
class WithTombstones:
    """Add TOMBSTONE to rows, false; ingest adds the rows of records without a value.

    ``key``: by column of the key, where the Kafka key has it: a column of the source, or "_key" for
    its text.
    """

    columns: Columns
    key: Mapping[str, str]

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"table({', '.join(f'{name}={place}' for name, place in self.key.items())})"

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """No expressions."""
        return ()

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Return the rows with the column added."""
        return StepOutput(rows.with_columns(pl.lit(value=False).alias(TOMBSTONE)))
