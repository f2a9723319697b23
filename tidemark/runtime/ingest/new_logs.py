"""New logs: the logs of the program that lack rows of a source that ingest has read before.

A log is new after a key was added or changed, or when a key comes back.  It is built from the first
raw record that is still there, or from where it ended (docs/operations.md, "Changing a pipeline").
The committed offset of a source names the logs that have all its rows.
"""

import logging
from functools import cached_property

from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from tidemark.core.time.assigners import IngestTime
from tidemark.core.time.segment import NEVER_MS
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.progress import Backfilled, SourceProgress
from tidemark.runtime.client.topics import short_ids
from tidemark.runtime.ingest.past_marks import PastMarks

_log = logging.getLogger("tidemark")


class NewLogs:
    """Finds the logs that lack rows of a source, and where to begin in each."""

    def __init__(self, admin: AdminClient, plan: Plan, past: PastMarks) -> None:
        """Prepare; no request is sent yet."""
        self._admin, self._plan, self._past = admin, plan, past

    @cached_property
    def _ids(self) -> dict[str, str]:
        return short_ids(self._admin, [log.topic for log in self._plan.logs])

    def _logs(self, topic: str) -> list[LogPlan]:
        return [log for log in self._plan.logs if log.reads(topic)]

    def ids(self, topic: str) -> dict[str, str]:
        """Return the short ids, by log, of the logs that a raw topic feeds."""
        return {log.topic: self._ids[log.topic] for log in self._logs(topic)}

    def backfills(self, source: Partition, committed: SourceProgress) -> dict[str, Backfilled]:
        """Return by log how far a source has come, for the logs that lack its rows."""
        found = {}
        for log in self._logs(source.topic):
            done = committed.backfills.get(self._ids[log.topic])
            if done is None and self._lacks(log, committed):
                done = self._begin(log, source, committed)
            if done is not None:
                found[log.topic] = self._from_there(log, source, committed, done)
        return found

    def _lacks(self, log: LogPlan, committed: SourceProgress) -> bool:
        if committed.logs is not None:
            return self._ids[log.topic] not in committed.logs
        # An older version has committed: a log that it has written has some segment.
        has_read = committed.watermark_ms != NEVER_MS
        return has_read and offsets(self._admin, [Partition(log.topic, 0)], LATEST) == {
            Partition(log.topic, 0): 0
        }

    def _begin(
        self, log: LogPlan, source: Partition, committed: SourceProgress
    ) -> Backfilled | None:
        """Return where a source begins in a log; None if it begins where ingest is."""
        if isinstance(self._plan.source_of(source.topic).event_time, IngestTime):
            _log.warning(
                "log %s is new and has no rows of %s below offset %d: their event time is when "
                "ingest read them, and raw topics do not have that time",
                log.topic,
                source,
                committed.next_offset,
            )
            return None
        mark = self._past.last_mark(log, str(source))
        if mark is None:
            return Backfilled(0, NEVER_MS, committed.next_offset)
        if mark.next_offset >= committed.next_offset:
            return Backfilled(committed.next_offset, committed.watermark_ms, committed.next_offset)
        return Backfilled(mark.next_offset, mark.watermark_ms, committed.next_offset)

    def _from_there(
        self, log: LogPlan, source: Partition, committed: SourceProgress, done: Backfilled
    ) -> Backfilled:
        """Return progress that goes on with the first raw record that is still there.

        A log that has rows before that record lacks those between: a warning names them.
        """
        (first,) = offsets(self._admin, [source], EARLIEST).values()
        begin = first + committed.shift
        if begin > committed.next_offset:
            begin, done = committed.next_offset, replace(done, watermark_ms=committed.watermark_ms)
        if begin <= done.next_offset:
            return done
        if done.next_offset > 0:
            _log.warning(
                "log %s has rows of %s up to offset %d, and goes on with offset %d: the records "
                "between are gone, so windows that have rows of them are not whole",
                log.topic,
                source,
                done.next_offset,
                begin,
            )
        return replace(done, next_offset=begin)
