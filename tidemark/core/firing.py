"""At which rows of a segment early panes fire, and what the panes hold there.

Theory of operation (docs/semantics.md, "Early panes").  A *count* is a row in one window of its
own key; counts of a key and window (a *pair*) come in log order.

1. Every count gets its place among all counts of its pair, from the pair's tally on.  Places and
   times decide which counts fire.
2. The counts up to and including each firing one form a *block*, numbered from 1 per pair; counts
   after the last firing one are the remainder.  Blocks become partials in one grouping.
3. Accumulating panes add up blocks (``prefixes``); block 0 is what was there before.  Discarding
   panes are the blocks themselves.

So the work is in columns however many panes fire, and a pane is the same however the log is cut.
"""

import polars as pl

from tidemark.core.segment import EVENT_TIME, NEVER_MS
from tidemark.core.tallies import HIGHEST, TOTAL
from tidemark.core.trigger import Every, EveryEventTime, EveryProcessingTime, EveryRows

PAIR = "@pair"  # number of a key and window
BLOCK = "@block"  # number of a block of a pair
ROW = "@row"  # number of a row in the segment
FIRES = "@fires"


def with_blocks(counts: pl.DataFrame, every: Every) -> pl.DataFrame:
    """Decide which counts fire, and number their blocks.

    ``counts``: PAIR, EVENT_TIME, and TOTAL and HIGHEST of the pair before the segment; in order of
    pair and row.  TOTAL becomes the count's place; FIRES and BLOCK are added.
    """
    place = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(PAIR)
    placed = counts.with_columns((pl.col(TOTAL) + place).alias(TOTAL))
    fired = placed.with_columns(_fires(every).alias(FIRES))
    number = pl.col(FIRES).cast(pl.Int64)
    return fired.with_columns((number.cum_sum().over(PAIR) - number + 1).alias(BLOCK))


def _fires(every: Every) -> pl.Expr:
    match every:
        case EveryRows(rows):
            return pl.col(TOTAL) % rows == 0
        case EveryEventTime(interval_ms):
            highest = pl.col(EVENT_TIME).cum_max().shift(1).over(PAIR).fill_null(NEVER_MS)
            before = pl.max_horizontal(highest, HIGHEST)
            further = pl.col(EVENT_TIME) // interval_ms > before // interval_ms
            return (before > NEVER_MS) & further
        case EveryProcessingTime():
            return pl.lit(value=False)
