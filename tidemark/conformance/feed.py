"""Turn a case's input into segments of one source; each item is one step.

An ``explicit`` watermark becomes a mark with an empty range.  With ``stream_time`` and
``bounded_out_of_orderness`` rows move time; with ``batch_delay`` only ends of batches do.  The
watermark of a source never goes back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, Segment, SourceMark

TOPIC = "in"
SOURCE_NAME = f"{TOPIC}/0"

FAR_MS = 2**52
"""The watermark for a "+inf" that is not the last input: after every event time."""

Row = tuple[Any, ...]


def stated_ms(item: Fields) -> int:
    """Return the watermark that an item states, in ms."""
    stated = item["watermark"]
    return {"+inf": FAR_MS, "-inf": NEVER_MS}[stated] if isinstance(stated, str) else int(stated)


@dataclass(frozen=True)
class Step:
    """A step of a run: a segment, a restart, or the end of input.

    ``after``: the position of the input item that causes it.
    """

    after: int
    segment: Segment | None = None
    restart: bool = False
    finish: bool = False


class Feed:
    """Turns the input of a case into steps."""

    def __init__(
        self,
        case: Case,
        stream: str,
        columns: Mapping[str, pl.DataType],
        values: Callable[[Fields], Mapping[str, Any]],
    ) -> None:
        """Start before the first item; ``values`` returns the value columns of an element."""
        self._case, self._stream, self._values = case, stream, values
        self._schema = {**ROW_COLUMNS, **columns}
        self._columns = tuple(columns)
        self._time = case.watermark
        self._offset = 0
        self._watermark_ms = NEVER_MS
        self._seen_ms = NEVER_MS
        self._clock_ms = 0
        self._batch: list[Fields] = []
        self.without_key = 0

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the items, in order."""
        last = len(self._case.input) - 1
        for after, item in enumerate(self._case.input):
            if "checkpoint" in item:
                yield Step(after, restart=True)
            elif item.get("watermark") == "+inf" and after == last:
                yield Step(after, finish=True)
            elif self._case.emit == "on_batch_update" and "ts" in item:
                self._batch.append(item)
            else:
                yield from (Step(after, segment) for segment in self._segments(item))

    def _segments(self, item: Fields) -> Iterator[Segment]:
        if "bundle" in item:
            yield self._rows(item["bundle"])
        elif "ts" in item:
            yield self._rows([item])
        elif "end_batch" in item:
            yield from self._end_of_batch()
        elif "watermark" in item:
            yield self._watermark_segment(stated_ms(item))
        elif "clock" in item:
            self._clock_ms = item["clock"]
            yield self._watermark_segment(self._watermark_ms)
        else:
            raise ConformanceError(f"input {item!r} is unknown")

    def _end_of_batch(self) -> Iterator[Segment]:
        if self._batch:
            yield self._rows(self._batch)
            self._batch = []
        if self._seen_ms > NEVER_MS:
            self._clock_ms += 1
            yield self._watermark_segment(self._seen_ms - self._time["delay_ms"])

    def _watermark_segment(self, watermark_ms: int) -> Segment:
        return self._segment([], self._offset, max(watermark_ms, self._watermark_ms))

    def _rows(self, elements: Sequence[Fields]) -> Segment:
        """Return a segment of elements as rows, each with the watermark before it."""
        rows, first, watermark_ms = [], self._offset, self._watermark_ms
        for element in elements:
            if element["key"] is None:
                self.without_key += 1
            else:
                rows.append(self._row(element, watermark_ms))
            self._offset += 1
            self._seen_ms = max(self._seen_ms, element["ts"])
            if self._time["type"] in ("stream_time", "bounded_out_of_orderness"):
                watermark_ms = max(watermark_ms, self._seen_ms - self._time["delay_ms"])
        return self._segment(rows, first, watermark_ms)

    def _row(self, element: Fields, watermark_ms: int) -> Row:
        values = self._values(element)
        lead = (0, self._offset, 0, element["ts"], watermark_ms)
        return (*lead, *(values[name] for name in self._columns))

    def _segment(self, rows: list[Row], first: int, watermark_ms: int) -> Segment:
        mark = SourceMark(SOURCE_NAME, first, self._offset, self._watermark_ms, watermark_ms)
        self._watermark_ms = watermark_ms
        frame = pl.DataFrame(rows, schema=self._schema, orient="row")
        streams = {self._stream: frame} if rows else {}
        return Segment(0, 0, (mark,), {TOPIC: 1}, self._clock_ms, streams)
