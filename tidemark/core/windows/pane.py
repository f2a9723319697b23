"""The pane: what an operator publishes for one key and window.

(pane, revision) -> values is a function of the log: ``revision`` counts the rows folded into it
(docs/semantics.md, "Panes").
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

EARLY = "early"
ON_TIME = "on_time"
LATE = "late"

WINDOW = "window"
"""Of windows in order of arrival, the window's number, from 0; it comes before the start."""

START, END, REVISION = "start", "end", "revision"
TIMING, FINAL, RETRACTED = "timing", "final", "retracted"

END_OF_INPUT = "end_of_input"
"""Of bounded runs: whether only the end of input published the pane."""

PANE_COLUMNS: dict[str, pl.DataType] = {
    START: pl.Int64(),
    END: pl.Int64(),
    REVISION: pl.Int64(),
    TIMING: pl.String(),
    FINAL: pl.Boolean(),
    RETRACTED: pl.Boolean(),
}
"""Columns between the key and the values of every pane, in order."""


Column = pl.Series | npt.NDArray[np.int64] | npt.NDArray[np.bool_]


def pane_frame(
    keys: pl.DataFrame,
    start_ms: Column,
    end_ms: Column,
    revision: Column,
    timing: pl.Series | str,
    final: Column | bool,
    *,
    retracted: bool = False,
) -> pl.DataFrame:
    """Put the columns of panes behind their keys; the values follow."""
    if isinstance(final, bool):
        final = np.full(keys.height, final)
    if isinstance(timing, str):
        timing = pl.Series([timing] * keys.height, dtype=pl.String())
    return keys.hstack(
        [
            pl.Series(START, start_ms),
            pl.Series(END, end_ms),
            pl.Series(REVISION, revision),
            timing.alias(TIMING),
            pl.Series(FINAL, final),
            pl.Series(RETRACTED, np.full(keys.height, retracted)),
        ]
    )


def panes_of(
    partials: pl.DataFrame,
    key: Sequence[str],
    start_ms: npt.NDArray[np.int64],
    values: pl.DataFrame,
    final_until_ms: int | npt.NDArray[np.int64],
    within: Sequence[str] = (),
) -> pl.DataFrame:
    """Make panes of partials with key, END, REVISION and TIMING, in the order of panes.

    Those that end up to ``final_until_ms``, of all or of each, are final.  ``within``: columns of
    the partials that lead the panes and their order.
    """
    end_ms = partials[END].to_numpy()
    # What follows an early pane is not known yet, wherever the clock stands.
    known = (partials[TIMING] != EARLY).to_numpy()
    panes = pane_frame(
        partials.select(*within, *key),
        start_ms,
        end_ms,
        partials[REVISION],
        partials[TIMING],
        known & (end_ms <= final_until_ms),
    ).hstack(values)
    # Of the same rows, a pane that is early comes before the one on time.
    return panes.sort(*within, END, *key, REVISION, TIMING)


def timing_where(mask: npt.NDArray[np.bool_], timing: str, otherwise: str) -> pl.Series:
    """Return one timing where a mask is true, the other where not."""
    return pl.Series([otherwise, timing])[pl.Series(mask.astype(np.uint32))]


def pane_schema(
    key: Collection[str],
    columns: Mapping[str, pl.DataType],
    values: Mapping[str, pl.DataType],
    *,
    numbered: bool = False,
) -> dict[str, pl.DataType]:
    """Return the columns of panes, in order; ``numbered``: of windows in order of arrival."""
    number = {WINDOW: pl.Int64()} if numbered else {}
    return {**{name: columns[name] for name in key}, **number, **PANE_COLUMNS, **values}


def identity(columns: Collection[str]) -> str:
    """Return the pane column that, with the key, says which window it is."""
    return WINDOW if WINDOW in columns else START
