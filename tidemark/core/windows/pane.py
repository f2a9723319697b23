"""The pane: a result that an operator publishes for one key and window.

The values of (pane, revision) are a function of the log.  ``revision`` counts the rows folded into
the pane (docs/semantics.md, "Panes").
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

EARLY = "early"
ON_TIME = "on_time"
LATE = "late"

WINDOW = "window"
"""Int64 column of panes of windows in order of arrival: the window's number, from 0.

It comes before the start.
"""

START, END, REVISION = "start", "end", "revision"
TIMING, FINAL, RETRACTED = "timing", "final", "retracted"

END_OF_INPUT = "end_of_input"
"""Boolean column of panes in bounded runs: whether only the end of input published the pane."""

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
    """Return the keys with PANE_COLUMNS added; the caller adds the values."""
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
    """Return the panes of partials, in the order of panes.

    ``partials``: with the columns of ``within`` and ``key``, END, REVISION and TIMING.
    ``final_until_ms``: panes that are not early and end up to this time are final; for all panes or
    for each.  ``within``: columns that come before the key, and before it in the order.
    """
    end_ms = partials[END].to_numpy()
    # More panes may follow an early pane, wherever the clock stands.
    known = (partials[TIMING] != EARLY).to_numpy()
    panes = pane_frame(
        partials[[*within, *key]],
        start_ms,
        end_ms,
        partials[REVISION],
        partials[TIMING],
        known & (end_ms <= final_until_ms),
    ).hstack(values)
    # An early pane comes before the on-time pane of the same rows.
    return panes.sort(*within, END, *key, REVISION, TIMING)


def timing_where(mask: npt.NDArray[np.bool_], timing: str, otherwise: str) -> pl.Series:
    """Return ``timing`` where the mask is true, ``otherwise`` elsewhere."""
    return pl.Series([otherwise, timing])[pl.Series(mask.astype(np.uint32))]


def pane_schema(
    key: Collection[str],
    columns: Mapping[str, pl.DataType],
    values: Mapping[str, pl.DataType],
    *,
    numbered: bool = False,
) -> dict[str, pl.DataType]:
    """Return the columns of panes, in order; ``numbered``: with WINDOW."""
    number = {WINDOW: pl.Int64()} if numbered else {}
    return {**{name: columns[name] for name in key}, **number, **PANE_COLUMNS, **values}
