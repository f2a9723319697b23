"""An aligned-window operator fed by hand, and its panes as text.

A row is written ``key at value``, and ``@w`` after it where its own watermark is not that of the
step before.  A pane is shown as ``key [start,end) total timing rN``, with ``!`` where it is final.
"""

import polars as pl

from tests.support.running import Task
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.constructors import count
from tidemark.core.aggregates.constructors import sum as total
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import Operator
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.core.windows.trigger import on_close
from tidemark.core.windows.window import Hopping

COLUMNS = {"key": pl.String(), "region": pl.String(), "value": pl.Int64()}


class Windowing:
    """A task of one operator with one source, driven by text."""

    def __init__(self, size_ms=10, *, lateness_ms=0, trigger=None, key=("key",), **windows):
        hopping = Hopping(size_ms, windows.pop("slide_ms", size_ms), **windows)
        aggregation = Aggregation({"total": total("value"), "n": count()}, COLUMNS)
        body = WindowAggregate(
            hopping, aggregation, key, COLUMNS, lateness_ms, trigger or on_close()
        )
        self.operator = Operator("sums", ("s",), frozenset({"t"}), key, COLUMNS, body)
        self.task = Task(self.operator)
        self.watermark_ms, self.offset = NEVER_MS, 0
        self.late: list[str] = []

    def step(self, rows="", *, watermark):
        """Fold rows, move the watermark, and show the panes."""
        made = [self._row(text) for text in rows.split("|") if text.strip()]
        first, self.offset = self.offset, self.offset + len(made)
        mark = SourceMark("t/0", first, self.offset, self.watermark_ms, watermark)
        frame = pl.DataFrame(
            [(0, first + i, 0, *row) for i, row in enumerate(made)],
            schema={**ROW_COLUMNS, **COLUMNS},
            orient="row",
        )
        output = self.task.step(Segment(0, 0, (mark,), {"t": 1}, 0, {"s": frame}))
        self.watermark_ms = watermark
        self.late = [shown_late(row) for row in output.late.iter_rows(named=True)]
        return shown(output.panes)

    def finish(self):
        return shown(self.operator.finish(self.task.clocks, self.task.state).panes)

    def _row(self, text):
        words = text.split()
        own_ms = int(words.pop()[1:]) if words[-1].startswith("@") else self.watermark_ms
        key, at, value = words
        name, _, region = key.partition("/")
        return (int(at), own_ms, None if name == "-" else name, region, int(value))


def shown(panes):
    return [
        f"{p['key']} [{p['start']},{p['end']}) {p['total']} {p['timing']} r{p['revision']}"
        + ("!" if p["final"] else "")
        for p in panes.iter_rows(named=True)
    ]


def shown_late(row):
    return f"{row['key']} {row['@event_time']} [{row['start']},{row['end']}) by {row['late_by_ms']}"
