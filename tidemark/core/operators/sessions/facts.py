"""What is known of a session besides its key and partial aggregates."""

import numpy as np

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.windows.pane import END, START
from tidemark.core.windows.trigger import EveryEventTime, EveryProcessingTime, OnClose, Trigger

JOINED_LATE, STANDS, STANDS_END = "@joined_late", "@stands", "@stands_end"
SHOWN_EARLY = "@shown_early"
HIGHEST, RECORDED = "@highest", "@recorded"

FACT_NAMES = (START, END, ROWS, JOINED_LATE, STANDS, STANDS_END, SHOWN_EARLY)

_MARKS = (JOINED_LATE, SHOWN_EARLY)

FACTS = np.dtype(
    [(name, np.bool_ if name in _MARKS else np.int64) for name in FACT_NAMES], align=True
)
"""Facts of a session.

* JOINED_LATE: some row joined after an end had passed, so timing is late.
* STANDS: revision of the pane published under this start and not withdrawn, 0 without one; the
  session is up to date when it equals ROWS.
* STANDS_END: the end in that pane.
* SHOWN_EARLY: that pane was early, and one of the same rows is to follow when the session closes.

* HIGHEST: the highest event time, where early panes go by it.
* RECORDED: the processing time of the last row, where early panes go by that.

Discarding, STANDS counts the rows that panes have shown, under whatever start.
"""


def facts_of(trigger: Trigger) -> np.dtype[np.void]:
    """Return the type of what is known of sessions that are published so."""
    match trigger.early if isinstance(trigger, OnClose) else trigger:
        case EveryEventTime():
            more = [(HIGHEST, np.int64)]
        case EveryProcessingTime():
            more = [(RECORDED, np.int64)]
        case _:
            return FACTS
    return np.dtype([(name, FACTS[name]) for name in FACT_NAMES] + more, align=True)
