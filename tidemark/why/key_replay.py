"""A replay of one key on one log partition: what became of each row, and what is beneath a pane.

The segments pass the operator of the services without the rows of other keys, and with all marks.
Rows of other keys change neither the clock nor the state of a key (docs/replay.md, "How it runs").
So each row has the outcome that it has in the services.  Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import polars as pl

from tidemark.core.operators.ports import BY_TIME, DEAD, LATE, LATE_BY, REASON
from tidemark.core.operators.task import OperatorTask
from tidemark.core.rows.copies import COPY
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW, WATERMARK, Segment
from tidemark.core.windows.pane import END, RETRACTED, REVISION, START
from tidemark.plan.physical import OperatorPlan
from tidemark.why.keys import with_key

LOG_OFFSET = "@log_offset"
"""Column of results: the offset of the segment that published them."""

Outcome = Literal["accepted", "late", "dead"]


class Place(NamedTuple):
    """Where a row comes from: topic and partition, or ``op:NAME/partition``, and its offset."""

    source: str
    offset: int
    sub_row: int = 0


@dataclass(frozen=True)
class KeyRow:
    """A row of the key.

    ``log_offset``: of its segment.  ``stream``: its name.  ``late_by_ms``, ``watermark_ms``: of
    late rows, by how much, and the watermark that decided it.  ``reason``: of late and dead rows.
    """

    place: Place
    event_time_ms: int
    log_offset: int
    stream: str
    outcome: Outcome = "accepted"
    reason: str = ""
    late_by_ms: int | None = None
    watermark_ms: int | None = None


@dataclass
class KeyReplay:
    """Takes the segments of a log partition in order; keeps those of the key."""

    plan: OperatorPlan
    key: pl.DataFrame
    segments: list[tuple[int, Segment]] = field(default_factory=list)
    rows: dict[Place, KeyRow] = field(default_factory=dict)
    _results: list[pl.DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task = OperatorTask(self.plan.operator)
        self._streams = self.plan.operator.streams

    def take(self, offset: int, segment: Segment) -> None:
        """Process the segment at an offset of the log."""
        own = self._of_key(segment)
        self.segments.append((offset, own))
        self._note(offset, own)
        for steps in self.task.steps([own]):
            self.task.discard_changes(steps.clock_ms)
            for each in self.plan.ports:
                rows = steps.output.frames.get(each.port.name)
                if rows is None or rows.is_empty():
                    continue
                if each.port.kind == LATE:
                    self._refuse(rows, "late")
                elif each.port.kind == DEAD:
                    self._refuse(rows, "dead")
                elif each is self.plan.results:
                    self._publish(rows, offset)

    def _publish(self, rows: pl.DataFrame, offset: int) -> None:
        columns = [name for name in rows.columns if name in self.plan.results.port.columns]
        self._results.append(rows.select(*columns, pl.lit(offset).alias(LOG_OFFSET)))

    def _of_key(self, segment: Segment) -> Segment:
        """Return a segment with the rows of the key, and those of broadcast streams."""
        streams = {
            name: rows if COPY in rows.columns else with_key(rows, self.key)
            for name, rows in segment.streams.items()
            if name in self._streams
        }
        return replace(segment, streams={n: rows for n, rows in streams.items() if rows.height})

    def _note(self, offset: int, segment: Segment) -> None:
        for name, rows in segment.streams.items():
            for source, at, sub_row, time_ms in rows.select(
                SOURCE, OFFSET, SUB_ROW, EVENT_TIME
            ).rows():
                place = Place(segment.sources[source].source, at, sub_row)
                # Records that were read again are rows that count once.
                self.rows.setdefault(place, KeyRow(place, time_ms, offset, name))

    def _refuse(self, rows: pl.DataFrame, outcome: Outcome) -> None:
        for row in rows.iter_rows(named=True):
            place = Place(str(row[SOURCE]), row[OFFSET], row[SUB_ROW])
            if place in self.rows:
                self.rows[place] = replace(
                    self.rows[place],
                    outcome=outcome,
                    reason=row.get(REASON) or BY_TIME,
                    late_by_ms=row.get(LATE_BY),
                    watermark_ms=row.get(WATERMARK) if outcome == "late" else None,
                )

    @property
    def results(self) -> pl.DataFrame:
        """The published results of the key, in order, with the offset of their segment."""
        if not self._results:
            return pl.DataFrame()
        return pl.concat(self._results, how="vertical_relaxed")

    def panes(self, start_ms: int) -> pl.DataFrame:
        """Return the panes of the window that begins at ``start_ms``, in order."""
        results = self.results
        return results if results.is_empty() else results.filter(pl.col(START) == start_ms)

    def beneath(self, pane: pl.DataFrame) -> list[KeyRow]:
        """Return the rows that are folded into a pane, a frame of one row, in log order."""
        ((start_ms, end_ms, log_offset, revision),) = pane.select(
            START, END, LOG_OFFSET, REVISION
        ).rows()
        found = [
            row
            for row in self.rows.values()
            if start_ms <= row.event_time_ms < end_ms
            and row.outcome == "accepted"
            and row.log_offset <= log_offset
        ]
        if len(found) == revision:
            return found
        # A row may be late for some of its windows, and on time for others.
        return [row for row in found if self._is_in(row, start_ms)]

    def _is_in(self, row: KeyRow, start_ms: int) -> bool:
        """Return whether a row alone makes a pane of the window."""
        alone = KeyReplay(self.plan, self.key)
        for offset, segment in self.segments:
            streams = {
                name: _only(rows, segment, row.place) if name == row.stream else rows.clear()
                for name, rows in segment.streams.items()
            }
            alone.take(offset, replace(segment, streams=streams))
        alone.finish()
        return not alone.panes(start_ms).is_empty()

    def finish(self) -> None:
        """Publish what is open, as the end of bounded input does."""
        rows = self.task.finish().frames.get(self.plan.results.port.name)
        if rows is not None and rows.height:
            self._publish(rows, self.segments[-1][0] if self.segments else 0)


def _only(rows: pl.DataFrame, segment: Segment, place: Place) -> pl.DataFrame:
    numbers = [n for n, mark in enumerate(segment.sources) if mark.source == place.source]
    return rows.filter(
        pl.col(SOURCE).is_in(numbers),
        pl.col(OFFSET) == place.offset,
        pl.col(SUB_ROW) == place.sub_row,
    )


def standing(panes: pl.DataFrame) -> pl.DataFrame:
    """Return the last pane of a window if it is not withdrawn, else no row."""
    last = panes.tail(1)
    return last if last.is_empty() else last.filter(~pl.col(RETRACTED))


def replayed(
    plan: OperatorPlan, key: pl.DataFrame, segments: Iterable[tuple[int, Segment]]
) -> KeyReplay:
    """Return the replay of a key over segments with their offsets."""
    replay = KeyReplay(plan, key)
    for offset, segment in segments:
        replay.take(offset, segment)
    return replay


def windows_with(replay: KeyReplay, row: KeyRow) -> Sequence[pl.DataFrame]:
    """Return the newest pane of each window that holds the time of an accepted row."""
    results = replay.results
    if results.is_empty() or START not in results.columns:
        return []
    time_ms = row.event_time_ms
    holding = results.filter(
        pl.col(START) <= time_ms, time_ms < pl.col(END), pl.col(LOG_OFFSET) >= row.log_offset
    )
    return [
        pane
        for _, panes in holding.group_by(START, maintain_order=True)
        if (pane := standing(panes)).height
    ]
