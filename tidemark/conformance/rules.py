"""The rules that Tidemark follows where other systems differ.

The numbers are those of the table in docs/semantics.md, "Where peers differ".
"""

RULES: dict[str, str] = {
    "D1": "two events exactly one gap apart are two sessions",
    "D2": "a session ends at its last event + gap, exclusive",
    "D3": "a session closes when the clock reaches last event + gap",
    "D4": "sessions of on-time rows do not depend on the order of rows or on cuts",
    "D5": "each source has a watermark, shared by all keys; the clock is their minimum",
    "D6": "a session's row is judged by the session after merging, or strictly by its own time",
    "D7": "a row is late for a window when its end + allowed lateness is at or before W",
    "D8": "on_close publishes at the end and once more per segment with rows behind; on_final once",
    "D9": "a row late for some of its windows counts in the others",
    "D10": "record-aligned windows are [t - size, t] and [t + 1, t + 1 + size] of every record t",
    "D11": "windows may start before 1970, and none is cut at 0",
    "D12": "an offset is shorter than the slide, and the slide at most the size",
    "D13": "joins are to come",
    "D14": "a session's pane is withdrawn when a merge changes its start, and only then",
    "D15": "early panes come at exact rows; a window with rows on time has an on-time pane even"
    " where discarding early ones have shown them all",
    "D16": "any word of a source that is not idle wakes it; when all are idle the clock goes on to"
    " the highest watermark + silence",
    "D17": "the clock is the minimum over the sources",
    "D18": "first, last and collect go by event time, or by arrival where that is asked for",
    "D19": "an aggregate of nothing but nulls is null",
    "D20": "state is a window's and gone with it; there is no keyed value with a time to live",
    "batches": "what is due is published in the step that moved the clock, and only what changed",
    "chaining": "operators downstream read final panes only",
    "held updates": "corrections are published as they come, one per segment; on_final publishes"
    " once",
    "evictors": "a count window holds the rows of its window; there are no evictors",
    "idleness": "a source is idle when it was read to its end for idle_after, as the broker tells",
    "last rows": "rows that no pane of every() has shown are published when the window is final",
    "null key": "a record without a key is a dead letter, and its event time moves the watermark",
    "timers": "early panes come of rows that step into another interval of time, not of the clock",
    "composed triggers": "a trigger is one of on_close, on_final, on_update and every, early or"
    " alone",
}


class NotOfferedError(Exception):
    """A case needs an option of another system that Tidemark does not have."""

    def __init__(self, rule: str, instead: str | None = None) -> None:
        """``rule``: a key of RULES; ``instead``: text in place of the rule's."""
        super().__init__(f"{rule}: {instead or RULES[rule]}")
        self.rule = rule
