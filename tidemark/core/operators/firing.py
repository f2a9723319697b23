"""The rows of a segment at which early panes fire, and the rows that each pane holds.

Theory of operation (docs/semantics.md, "Early panes").  A *pair* is a key and a window.  A *count*
is a row in one window of its key, or the row that makes a sliding window without being in it.  The
counts of a pair are in log order.

1. Every count gets its place among all rows of its pair, which continues from the pair's tally.
   Places and times decide which counts fire.  No count fires before the window exists.
2. A *block* ends with each firing count.  Blocks are numbered from 1 per pair.  The counts after
   the last firing one are the open block.  All blocks become partials in one grouping.
3. An accumulating pane is the sum of the blocks so far (``prefixes``), where block 0 holds the rows
   from before the segment.  A discarding pane is a block.

So the work is in columns for any number of panes, and panes do not depend on how the log is cut.
"""

import polars as pl

from tidemark.core.operators.tallies import HIGHEST, SHOWN, TOTAL
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS
from tidemark.core.windows.trigger import Every, EveryEventTime, EveryProcessingTime, EveryRows

PAIR = "@pair"  # number of a key and window
BLOCK = "@block"  # number of a block of a pair
ROW = "@row"  # number of a row in the segment
FIRES = "@fires"

BEHIND = "@behind"  # whether W was at or past the window's end
COUNTS = "@counts"  # whether the row is in the window
THERE = "@there"  # whether the window exists when the row has come; rows make sliding windows


def with_blocks(counts: pl.DataFrame, every: Every) -> pl.DataFrame:
    """Decide which counts fire, and number their blocks.

    Args:
        counts: in order of pair and row, with PAIR, EVENT_TIME, COUNTS, THERE, and with TOTAL,
            SHOWN and HIGHEST of the pair before the segment.
        every: when counts fire.

    Returns the counts with FIRES (Boolean) and BLOCK (Int64); TOTAL is now the place of the count.
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
    """Fire with ``rows`` rows more than are shown; a window that a row makes may hold more."""
    first = pl.col(TOTAL).filter(pl.col(THERE)).first().over(PAIR)
    many = first - pl.col(SHOWN) >= rows
    shown = pl.when(many).then(first).otherwise(pl.col(SHOWN))
    more = pl.col(TOTAL) - shown
    begins = many & (pl.col(THERE).cast(pl.Int64).cum_sum().over(PAIR) == 1)
    return begins | (pl.col(COUNTS) & (more > 0) & (more % rows == 0))
