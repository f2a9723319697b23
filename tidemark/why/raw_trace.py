"""Where records of a key leave ingest: the row operator that filters them, or a dead letter.  Pure.

The records pass the ingest of the services, with the rows of every step as a stream of its own.  So
a record is filtered by the first step that has no row of it.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

import polars as pl

from tidemark.core.rows.stateless import KeyedOutput, StatelessGraph, Step
from tidemark.core.time.segment import EVENT_TIME, OFFSET
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress
from tidemark.plan.physical import Plan, SourcePlan
from tidemark.serde.formats.avro_values import WriterSchemas
from tidemark.serde.records import DeadLetter, RecordBatch
from tidemark.why.keys import with_key


@dataclass(frozen=True)
class RawFate:
    """What ingest makes of a record.

    ``filtered_by``: the row operator that leaves it out, as ``tidemark plan`` names it.  ``dead``:
    its dead letter.  Neither: it becomes a row.
    """

    topic: str
    partition: int
    offset: int
    event_time_ms: int | None
    filtered_by: str = ""
    dead: DeadLetter | None = None


class RawTrace:
    """Finds the records of a key and a time in raw topics."""

    def __init__(
        self,
        plan: Plan,
        streams: Set[str],
        key: pl.DataFrame,
        key_text: str,
        times_ms: tuple[int, int],
        writers: WriterSchemas | None = None,
    ) -> None:
        """Prepare.

        Args:
            plan: of the pipeline.
            streams: keyed streams that the records should reach.
            key: see ``typed_key``.
            key_text: the key as typed; a dead letter that holds this text may be of the key.
            times_ms: the first event time, and the end of the times.
            writers: for formats with a registry.
        """
        self._key, self._times_ms = key, times_ms
        self._text, self._streams = key_text.encode(), streams
        sources = [each for each in plan.sources if streams & each.graph.streams.keys()]
        self.sources = {each.name: _with_steps(each, streams) for each in sources}
        stepped = replace(plan, sources=tuple(self.sources.values()))
        self._plan, self._ingest = stepped, Ingest(stepped, writers)

    def take(self, batch: RecordBatch) -> Iterator[RawFate]:
        """Yield what becomes of the wanted records of a batch."""
        taken = self._ingest.take(batch, Progress(next_offset=int(batch.log_offsets[0])))
        yield from self._alive(batch, taken)
        for letter in taken.dead_letters:
            if self._text in (letter.key or b"") or self._text in (letter.value or b""):
                yield RawFate(letter.topic, letter.partition, letter.offset, None, "", letter)

    def _alive(self, batch: RecordBatch, taken: IngestOutput) -> Iterator[RawFate]:
        graph = self._plan.source_of(batch.topic).graph
        reached: dict[int, int] = {}  # by offset: the last step that has a row of the record
        times_ms: dict[int, int] = {}
        for number, step in enumerate(graph.steps):
            rows = taken.streams[str(number)]
            if set(self._key.columns) <= step.columns.keys():
                found = self._wanted(rows).select(OFFSET, EVENT_TIME).rows()
                times_ms |= {offset: time_ms for offset, time_ms in found if offset not in times_ms}
            here = set(rows[OFFSET].to_list())
            reached |= dict.fromkeys(times_ms.keys() & here, number)
        ends = {graph.streams[name].step for name in self._streams & graph.streams.keys()}
        for offset, number in sorted(reached.items()):
            by = "" if number in ends else _after(graph, number).text
            yield RawFate(batch.topic, batch.partition, offset, times_ms[offset], by)

    def _wanted(self, rows: pl.DataFrame) -> pl.DataFrame:
        begin_ms, end_ms = self._times_ms
        timely = rows.filter(pl.col(EVENT_TIME) >= begin_ms, pl.col(EVENT_TIME) < end_ms)
        return with_key(timely, self._key)


def _with_steps(source: SourcePlan, streams: Set[str]) -> SourcePlan:
    """Return a source with the rows of each step as a stream, beside the streams of its graph."""
    graph = source.graph.only([name for name in source.graph.streams if name in streams])
    steps = {str(number): KeyedOutput(number, ()) for number in range(len(graph.steps))}
    return replace(source, graph=replace(graph, streams={**graph.streams, **steps}))


def _after(graph: StatelessGraph, number: int) -> Step:
    """Return the step after one; all steps lie on a way to a stream."""
    return next(step for step in graph.steps if number in step.inputs)
