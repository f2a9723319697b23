"""The rules that Tidemark follows where other systems differ.

The numbers are those of the table in docs/semantics.md, "Where peers differ".
"""

RULES: dict[str, str] = {
    "D1": "two events exactly one gap apart are two sessions",
    "D2": "a session ends at its last event + gap, exclusive",
    "D3": "a session closes when the clock reaches last event + gap",
    "D4": "sessions of on-time rows do not depend on the order of rows or on cuts",
    "D5": "each source has a watermark, shared by all keys; the clock is their minimum",
    "D6": "a session's row is late by its own time, or by its session after merging",
    "D7": "a row is late for a window when its end + allowed lateness is at or before W",
    "D8": "on_close publishes at the end, and once per later segment with rows behind, or with n of"
    " them; on_final once",
    "D9": "a row late for some of its windows counts in the others",
    "D10": "record-aligned windows are [t - size, t] and [t + 1, t + 1 + size] of every record t",
    "D11": "windows may start before 1970; no window is cut at 0",
    "D12": "an offset is shorter than the slide, and the slide at most the size",
    "D13": "an unmatched row comes once, when the clock has passed the last time of a partner,"
    " and has that time",
    "D14": "a session's pane is withdrawn when a merge changes its start, and only then",
    "D15": "early panes come at exact rows; a window with on-time rows has an on-time pane, even"
    " if discarding early panes have published all of them",
    "D16": "any mark of a source that is not idle wakes it; when all sources are idle, the clock"
    " advances to the highest watermark + silence",
    "D17": "the clock is the minimum over the sources",
    "D18": "first, last and collect order by event time, or by arrival if that is requested",
    "D19": "an aggregate of only nulls is null",
    "D20": "state belongs to a window and is dropped with it; no keyed value has a time to live",
    "batches": "due panes are published in the step that moved the clock, and only if they changed",
    "chaining": "operators downstream read final panes only",
    "held updates": "corrections are published at once, one per segment; on_final publishes once",
    "join lateness": "a row of a join is late when its time + allowed lateness is before W",
    "join state": "a row of a join leaves the state when the clock has passed the last time of a"
    " partner + allowed lateness; the state shows how many rows it has",
    "evictors": "a count window holds the rows of its window; there are no evictors",
    "pattern time": "within counts from the first row of a match to the last",
    "never": "a never begins after the last row of the step before it",
    "not next": "a never forbids rows up to the next row of a match, not the next row alone",
    "last rows": "rows that are in no pane of every() are published when the window is final",
    "null key": "a record without a key is a dead letter, and its event time moves the watermark",
    "timers": "an early pane is caused by a row that steps into a new interval, not by the clock",
    "composed triggers": "a trigger is one of on_close, on_final, on_update and every, early or"
    " alone",
}


class NotOfferedError(Exception):
    """A case needs an option of another system that Tidemark does not have."""

    def __init__(self, rule: str, instead: str | None = None) -> None:
        """``rule``: a key of RULES; ``instead``: text in place of the rule's."""
        super().__init__(f"{rule}: {instead or RULES[rule]}")
        self.rule = rule
