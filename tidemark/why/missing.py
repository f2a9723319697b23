"""What became of records of a key, from the raw topic to the sink: facts with a sentence each."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from tidemark.core.operators.ports import BY_TIME
from tidemark.core.time.duration import duration_text
from tidemark.core.windows.pane import END, RETRACTED, REVISION, START, TIMING
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.service.stats import instant_text
from tidemark.serde.json_rows import json_arrays
from tidemark.why.key_replay import LOG_OFFSET, KeyReplay, KeyRow, windows_with
from tidemark.why.keys import partition_of
from tidemark.why.raw_trace import RawFate, RawTrace
from tidemark.why.reading import Reading, Record

Fact = dict[str, Any]

_ANSWER_S = 10.0


class Missing:
    """The facts about the records of one key, for one operator."""

    def __init__(self, reading: Reading, plan: OperatorPlan, replay: KeyReplay) -> None:
        """``replay``: of the key, over what ``reading`` reads of the log."""
        self._reading, self._plan, self._replay = reading, plan, replay

    def rows(self, times_ms: tuple[int, int]) -> Iterator[Fact]:
        """Yield what became of the rows in the log with an event time in a range."""
        begin_ms, end_ms = times_ms
        for row in self._replay.rows.values():
            if begin_ms <= row.event_time_ms < end_ms:
                yield self._row(row)
                if row.outcome == "accepted":
                    yield from self._results(row)

    def _row(self, row: KeyRow) -> Fact:
        place = f"{row.place.source} offset {row.place.offset}"
        text = (
            f"{place}, event time {instant_text(row.event_time_ms)}: a row of {self._plan.log} in "
            f"segment {row.log_offset}; operator {self._plan.name} "
        )
        if row.outcome == "dead":
            text += f"refuses it, so it is a dead letter: {row.reason}"
        elif row.outcome == "late":
            text += "refuses it as late"
            if row.reason == BY_TIME and row.late_by_ms is not None:
                text += f" by {duration_text(row.late_by_ms)}"
            if row.watermark_ms is not None:
                text += f": the watermark of its source was {instant_text(row.watermark_ms)}"
            if row.reason != BY_TIME:
                text += f": {row.reason}"
        else:
            text += "has counted it"
        return {
            "fact": row.outcome,
            "source": row.place.source,
            "offset": row.place.offset,
            "event_time_ms": row.event_time_ms,
            "log_offset": row.log_offset,
            "reason": row.reason,
            "late_by_ms": row.late_by_ms,
            "text": text,
        }

    def _results(self, row: KeyRow) -> Iterator[Fact]:
        if START not in self._plan.results.port.columns:
            yield from self._published_rows(row)
            return
        panes = windows_with(self._replay, row)
        if not panes:
            clock = instant_text(self._replay.task.clock_ms)
            text = (
                f"no pane of its window is published{self._part}: the clock is {clock}. "
                "'tidemark why open' says what it waits for"
            )
            yield {"fact": "open", "clock_ms": self._replay.task.clock_ms, "text": text}
        for pane in panes:
            yield from self._pane(pane)

    def _published_rows(self, row: KeyRow) -> Iterator[Fact]:
        results = self._replay.results
        count = 0
        if not results.is_empty():
            count = results.filter(pl.col(LOG_OFFSET) >= row.log_offset).height
        topic = self._plan.results.topic
        text = (
            f"{topic}: {count} rows of the key were published with its segment and since"
            f"{self._part}"
        )
        yield {"fact": "rows", "count": count, "text": text}

    def _pane(self, pane: pl.DataFrame) -> Iterator[Fact]:
        (row,) = pane.rows(named=True)
        window = f"{instant_text(row[START])} to {instant_text(row[END])}"
        yield {
            "fact": "pane",
            "start_ms": row[START],
            "end_ms": row[END],
            "revision": row[REVISION],
            "timing": row[TIMING],
            "text": f"the window {window} has a pane: revision {row[REVISION]}, {row[TIMING]}",
        }
        if self._plan.results.topic:
            yield self._delivery(pane, row)

    def _delivery(self, pane: pl.DataFrame, row: dict[str, Any]) -> Fact:
        """Return where the pane is in its topic, and whether the sink has read it."""
        (key,) = json_arrays(pane.select(self._plan.results.port.message_key))
        newest = None
        for record in self._published[key]:
            if not record.fields.get(RETRACTED) and record.fields[REVISION] >= row[REVISION]:
                newest = record.offset
        if newest is None:
            there = self._part or " there yet, or no longer"
            text = f"{self._at}: the pane is not{there}"
            return {"fact": "unpublished", "text": text}
        committed = self._committed
        delivered = committed > newest
        text = f"{self._at} offset {newest} has the pane; "
        sink = f"sink {self._reading.config.sink_name!r}"
        if committed < 0:
            text += f"no {sink} reads the topic"
        elif delivered:
            text += f"{sink} has delivered it (committed {committed})"
        else:
            text += f"{sink} has not delivered it (committed {committed})"
        return {"fact": "published", "offset": newest, "delivered": delivered, "text": text}

    @cached_property
    def _at(self) -> Partition:
        """The partition of the results of the key."""
        log = self._reading.plan.log_of(self._plan)
        return Partition(self._plan.results.topic, partition_of(self._replay.key, log))

    @cached_property
    def _published(self) -> Mapping[bytes, Sequence[Record]]:
        """The published panes of the key by message key; their partition is read once."""
        port = self._plan.results
        keys = set(json_arrays(self._replay.results.select(port.port.message_key)))
        found: dict[bytes, list[Record]] = {key: [] for key in keys}
        for record in self._reading.published(port, self._at.number, keys):
            found[record.key].append(record)
        return found

    @cached_property
    def _committed(self) -> int:
        """The offset that the sink has committed in the partition; negative without a commit."""
        config, plan = self._reading.config, self._reading.plan
        group = plan.group(config.sink_name)
        (committed,) = committed_offsets(config, group, [self._at], _ANSWER_S)
        return committed.offset

    @property
    def _part(self) -> str:
        """Ends what is said of all records, if a bound has left some of them out."""
        return " in the part that was read" if self._reading.unread else ""

    def raw(self, trace: RawTrace, since_ms: int | None) -> Iterator[Fact]:
        """Yield what became of raw records that gave no row of the key and time in the log."""
        topics = self._reading.raw_topics(trace.sources.values())
        found = False
        for batch in self._reading.raw_batches(topics, since_ms):
            for fate in trace.take(batch):
                found = True
                yield self._fate(fate)
        if not found:
            names = ", ".join(topics)
            text = f"{names}: no record of this key and time{self._part}"
            yield {"fact": "absent", "text": text}

    def _fate(self, fate: RawFate) -> Fact:
        place = f"{fate.topic}/{fate.partition} offset {fate.offset}"
        shown: Fact = {"topic": fate.topic, "partition": fate.partition, "offset": fate.offset}
        if fate.dead is not None:
            text = f"{place} is a dead letter of {fate.dead.stage}: {fate.dead.reason}"
            return {"fact": "dead letter", **shown, "reason": fate.dead.reason, "text": text}
        if fate.filtered_by:
            text = f"{place} is filtered out by {fate.filtered_by}"
            return {"fact": "filtered", **shown, "by": fate.filtered_by, "text": text}
        text = f"{place} becomes a row, but "
        if self._part:
            text += f"the log does not have it{self._part}"
        else:
            text += "ingest has not written it to the log, or it is gone"
        return {"fact": "unread", **shown, "text": text}
