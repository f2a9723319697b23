"""At which rows of a segment early panes fire, and what the panes hold there.

Theory of operation (docs/semantics.md, "Early panes").  A *count* is a row in one window of its
own key, or the row that makes a sliding window without being in it; counts of a key and window (a
*pair*) come in log order.

1. Every count gets its place among all rows of its pair, from the pair's tally on.  Places and
   times decide which counts fire; none before the window is there.
2. The counts up to and including each firing one form a *block*, numbered from 1 per pair; counts
   after the last firing one are the remainder.  Blocks become partials in one grouping.
3. Accumulating panes add up blocks (``prefixes``); block 0 is what was there before.  Discarding
   panes are the blocks themselves.

So the work is in columns however many panes fire, and a pane is the same however the log is cut.
"""

import polars as pl

from tidemark.core.operators.tallies import HIGHEST, SHOWN, TOTAL
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS
from tidemark.core.windows.trigger import Every, EveryEventTime, EveryProcessingTime, EveryRows

PAIR = "@pair"  # number of a key and window
BLOCK = "@block"  # number of a block of a pair
ROW = "@row"  # number of a row in the segment
FIRES = "@fires"

BEHIND = "@behind"  # whether W had passed the window's end
COUNTS = "@counts"  # whether the row is in the window
THERE = "@there"  # whether the window was there by then; sliding ones are made by rows


def with_blocks(counts: pl.DataFrame, every: Every) -> pl.DataFrame:
    """Decide which counts fire, and number their blocks.

    ``counts``: PAIR, EVENT_TIME, COUNTS, THERE, and TOTAL, SHOWN and HIGHEST of the pair before the
    segment; in order of pair and row.  TOTAL becomes the count's place; FIRES and BLOCK are added.
    """
    place = pl.col(COUNTS).cast(pl.Int64).cum_sum().over(PAIR)
    placed = counts.with_columns((pl.col(TOTAL) + place).alias(TOTAL))
    fired = placed.with_columns((pl.col(THERE) & _fires(every)).alias(FIRES))
    number = pl.col(FIRES).cast(pl.Int64)
    return fired.with_columns((number.cum_sum().over(PAIR) - number + 1).alias(BLOCK))


def _fires(every: Every) -> pl.Expr:
    match every:
        case EveryRows(rows):
            return _shows_rows(rows)
        case EveryEventTime(interval_ms):
            highest = pl.col(EVENT_TIME).cum_max().shift(1).over(PAIR).fill_null(NEVER_MS)
            before = pl.max_horizontal(highest, HIGHEST)
            further = pl.col(EVENT_TIME) // interval_ms > before // interval_ms
            return (before > NEVER_MS) & further
        case EveryProcessingTime():
            return pl.lit(value=False)


def _shows_rows(rows: int) -> pl.Expr:
    """Fire at so many rows more than are shown; a window that is made may bring more at once."""
    first = pl.col(TOTAL).filter(pl.col(THERE)).first().over(PAIR)
    many = first - pl.col(SHOWN) >= rows
    shown = pl.when(many).then(first).otherwise(pl.col(SHOWN))
    more = pl.col(TOTAL) - shown
    begins = many & (pl.col(THERE).cast(pl.Int64).cum_sum().over(PAIR) == 1)
    return begins | (pl.col(COUNTS) & (more > 0) & (more % rows == 0))
