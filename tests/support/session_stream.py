"""A session operator fed by hand, and its panes as text.

A row is written "key time" or "key time @W": W is the watermark it is judged by, its own time
unless given.  A row with a gap of its own is written "key time+gap".
"""

from typing import Any

import polars as pl

from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.sessions.early import EarlySessionAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.core.windows.window import Session

COLUMNS = {"key": pl.String(), "value": pl.Int64(), "gap": pl.Int64()}
SUM = Aggregation({"total": aggregates.sum("value")}, COLUMNS)
ROWS = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS}


class Stream:
    """One operator fed by hand: rows, then the clock."""

    def __init__(self, **settings):
        settings.setdefault("windows", Session(10))
        self.body: Any = SessionAggregate(
            **{"aggregation": SUM, "key": ("key",), "columns": COLUMNS, **settings}
        )
        if self.body.trigger not in (on_close(), on_final()):
            self.body = EarlySessionAggregate(self.body)
        self.state = self.body.fresh()
        self.clock_ms = NEVER_MS
        self.offset = 0

    def rows(self, text, clock=None):
        """Take a segment of comma-separated rows, each with the value 1; show late ones, panes."""
        late = self.body.fold(self.frame(text), self.state)
        before_ms, self.clock_ms = self.clock_ms, self.clock_ms if clock is None else clock
        panes = self.body.publish(self.state, before_ms, self.clock_ms)
        self.state.validate()
        return [f"late {r['key']} {r['@event_time']}" for r in late.iter_rows(named=True)] + shown(
            panes
        )

    def clock(self, clock_ms):
        return self.rows("", clock_ms)

    def frame(self, text):
        made = []
        for row in filter(None, text.split(",")):
            key, at, *w = row.split()
            at, _, gap = at.partition("+")
            w_ms = int(w[0][1:]) if w else int(at)
            values = (None if key == "-" else key, 1, int(gap or 0))
            made.append(("t/0", self.offset, 0, int(at), w_ms, *values))
            self.offset += 1
        return pl.DataFrame(made, schema=ROWS, orient="row")


def shown(panes):
    return [
        f"{p['key'] or '-'} [{p['start']},{p['end']}) r{p['revision']} "
        + ("retracted" if p["retracted"] else f"{p['timing']}{' final' if p['final'] else ''}")
        for p in panes.iter_rows(named=True)
    ]
