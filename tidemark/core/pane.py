"""The pane: what an operator publishes for one key and window.

(pane, revision) -> values is a function of the log: ``revision`` counts the rows folded into it
(docs/semantics.md, "Panes").
"""

from collections.abc import Collection, Mapping

import polars as pl

EARLY = "early"
ON_TIME = "on_time"
LATE = "late"

WINDOW = "window"
"""Of windows in order of arrival, the window's number, from 0; it comes before the start."""

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


def numbered_pane_schema(
    key: Mapping[str, pl.DataType], values: Mapping[str, pl.DataType]
) -> dict[str, pl.DataType]:
    """Return the columns of panes of windows in order of arrival."""
    return pane_schema({**key, WINDOW: pl.Int64()}, values)


def identity(columns: Collection[str]) -> str:
    """Return the pane column that, with the key, says which window it is."""
    return WINDOW if WINDOW in columns else START
