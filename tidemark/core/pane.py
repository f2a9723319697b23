"""The pane: what an operator publishes for one key and window.

(pane, revision) -> values is a function of the log: ``revision`` counts the rows folded into it
(docs/semantics.md, "Panes").
"""

from collections.abc import Mapping

import polars as pl

ON_TIME = "on_time"
LATE = "late"

START, END, REVISION = "start", "end", "revision"
TIMING, FINAL, RETRACTED = "timing", "final", "retracted"

PANE_COLUMNS: dict[str, pl.DataType] = {
    START: pl.Int64(),
    END: pl.Int64(),
    REVISION: pl.Int64(),
    TIMING: pl.String(),
    FINAL: pl.Boolean(),
    RETRACTED: pl.Boolean(),
}
"""Columns between the key and the values of every pane, in order."""


def pane_schema(
    key: Mapping[str, pl.DataType], values: Mapping[str, pl.DataType]
) -> dict[str, pl.DataType]:
    """Return the columns of an operator's panes, in order."""
    return {**key, **PANE_COLUMNS, **values}
