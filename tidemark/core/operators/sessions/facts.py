"""The facts that state holds of a session, in addition to its key and partial aggregates.

See docs/semantics.md, "Sessions" and "Early panes of sessions".  Changelogs store facts by name, so
the values of the constants never change.
"""

import numpy as np

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.windows.pane import END, START
from tidemark.core.windows.trigger import EveryEventTime, EveryProcessingTime, OnClose, Trigger

HAS_LATE_ROWS, PUBLISHED_ROWS, PUBLISHED_END = "@joined_late", "@stands", "@stands_end"
SHOWN_EARLY = "@shown_early"
HIGHEST, RECORDED = "@highest", "@recorded"

FACT_NAMES = (START, END, ROWS, HAS_LATE_ROWS, PUBLISHED_ROWS, PUBLISHED_END, SHOWN_EARLY)

_MARKS = (HAS_LATE_ROWS, SHOWN_EARLY)

FACTS = np.dtype(
    [(name, np.bool_ if name in _MARKS else np.int64) for name in FACT_NAMES], align=True
)
"""Facts of a session.

* START, END: bounds of the session, Int64 ms; ROWS: the number of its rows.
* HAS_LATE_ROWS: whether a row joined after an end had passed.  The timing of panes is then late.
* PUBLISHED_ROWS: revision of the pane that is published under this start and not withdrawn, or 0.
  The session needs no new pane while it equals ROWS.  With discarding panes it counts the rows that
  panes have shown, under any start.
* PUBLISHED_END: end in that pane, Int64 ms.
* SHOWN_EARLY: whether that pane was early, or replaces a withdrawn pane.  Its rows are published
  again at the close.
* HIGHEST: highest event time, Int64 ms; only with a trigger by event time.
* RECORDED: processing time of the last row, Int64 ms; only with a trigger by processing time.
"""


def facts_of(trigger: Trigger) -> np.dtype[np.void]:
    """Return the type of the facts of sessions with this trigger."""
    match trigger.early if isinstance(trigger, OnClose) else trigger:
        case EveryEventTime():
            more = [(HIGHEST, np.int64)]
        case EveryProcessingTime():
            more = [(RECORDED, np.int64)]
        case _:
            return FACTS
    return np.dtype([(name, FACTS[name]) for name in FACT_NAMES] + more, align=True)
