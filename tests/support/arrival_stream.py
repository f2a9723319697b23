"""An arrival-order operator fed by hand, and its panes as text.

A row is written "key time value"; a value of - is null, and one of ! marks punctuation.
"""

import polars as pl

from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.arrival.discarding import DiscardingArrival
from tidemark.core.operators.arrival.operator import ArrivalAggregate
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.windows.arrival import CLOSES

COLUMNS = {"key": pl.String(), "value": pl.Int64(), CLOSES: pl.Boolean()}
SUM = Aggregation({"total": aggregates.sum("value")}, COLUMNS)
ROWS = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS}


class Stream:
    """One operator fed by hand."""

    def __init__(self, windows, every=None, aggregation=SUM, *, discarding=False):
        body = DiscardingArrival if discarding else ArrivalAggregate
        self.body = body(windows, aggregation, ("key",), COLUMNS, every)
        self.state = self.body.fresh()
        self.offset = 0

    def rows(self, text, now=0):
        """Take a segment of comma-separated rows, recorded at ``now``; show panes."""
        self.body.record(self.state, now, NEVER_MS)
        late = self.body.fold(self.frame(text), self.state)
        assert late.is_empty()
        panes = self.body.publish(self.state, NEVER_MS, NEVER_MS)
        self.state.validate()
        return shown(panes)

    def frame(self, text):
        made = []
        for row in filter(None, text.split(",")):
            key, at, value = row.split()
            marked = value == "!"
            number = None if value in "-!" else int(value)
            key = None if key == "-" else key
            made.append(("t/0", self.offset, 0, int(at), NEVER_MS, key, number, marked))
            self.offset += 1
        return pl.DataFrame(made, schema=ROWS, orient="row")


def shown(panes):
    return [
        f"{p['key'] or '-'} #{p['window']} [{p['start']},{p['end']}) {p['total']} "
        f"r{p['revision']} {p['timing']}{' final' if p['final'] else ''}"
        for p in panes.iter_rows(named=True)
    ]
