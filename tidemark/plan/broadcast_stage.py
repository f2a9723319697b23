"""The stage of a join with a broadcast table: rows with the versions of all keys."""

from dataclasses import dataclass

import polars as pl

from tidemark.plan.logical import MAX_PAIRS, TableStage

MAX_ROWS = 100_000
"""The number of keys that a broadcast table may have, unless the user says another."""


@dataclass(frozen=True, eq=False)
class BroadcastStage(TableStage):
    """The rows of a keyed stream with versions of all keys of a broadcast table, the second input.

    The other fields are those of ``BroadcastJoin``.
    """

    condition: pl.Expr | None = None
    max_rows: int = MAX_ROWS
    max_pairs: int = MAX_PAIRS

    @property
    def table_key(self) -> tuple[str, ...]:
        """The key columns of the table."""
        return self.inputs[1].key
