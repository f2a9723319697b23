"""Topics of a pattern that come or go: after the last mark of one that is gone, no clock waits.

Any process of ingest writes the marks with its next commit, and records that the topic is gone.
So the marks of one topic may come several times, which changes nothing.
"""

from collections.abc import Collection, Iterator, Mapping, MutableMapping

import msgspec

from tidemark.core.time.segment import SourceMark
from tidemark.ingest.ingest import Progress
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan
from tidemark.plan.program import SourceProgram, source_program
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.recorded_program import record_of_topic
from tidemark.runtime.ingest.past_marks import PastMarks, furthest
from tidemark.runtime.ingest.raw_sources import OwnedSource
from tidemark.runtime.ingest.raw_topics import Change


class Departures:
    """The marks and records that the next commit writes, of topics that have come or gone."""

    def __init__(self, plan: Plan, past: PastMarks, known: Mapping[str, SourceProgram]) -> None:
        """``known``: the raw topics that are recorded."""
        self._plan, self._past, self._known = plan, past, dict(known)
        self.marks: list[SourceMark] = []
        self.records: list[Record] = []

    def begin(self, there: Collection[str]) -> None:
        """Let topics of a pattern go that went while no process ran.

        ``there``: the raw topics now.  Those before are in the records, or at least in the logs.
        """
        patterns = [source for source in self._plan.sources if not source.named_topics]
        if not patterns:
            return
        for topic in sorted({*self._known, *self._past.topics()} - set(there)):
            before = self._known.get(topic)
            was_there = before is None or not before.gone
            if was_there and any(source.reads(topic) for source in patterns):
                self._leave(topic, {}, 0)

    def follow(
        self,
        change: Change,
        sources: MutableMapping[Partition, OwnedSource],
        partitions: Mapping[str, int],
    ) -> None:
        """Let topics come and go.

        ``sources``: of this process; those of topics that are gone are removed.  ``partitions``:
        the number of partitions, by raw topic.
        """
        for topic, topic_id in change.joined.items():
            self._join(topic, topic_id)
        for topic in change.gone:
            self._leave(topic, sources, partitions.get(topic, 0))

    def _join(self, topic: str, topic_id: str) -> None:
        """Record a topic that has come.

        One that was here before keeps its earlier id: its offsets may mean other records.
        """
        before = self._known.get(topic)
        if before is None:
            source = source_program(self._plan.source_of(topic))
            self._record(topic, msgspec.structs.replace(source, topic_id=topic_id))
        elif before.gone:
            self._record(topic, msgspec.structs.replace(before, gone=False))

    def _leave(
        self, topic: str, sources: MutableMapping[Partition, OwnedSource], count: int
    ) -> None:
        """Let a topic go that had ``count`` partitions.

        The logs have the progress of the sources of other processes.
        """
        count = max([count, *(self._past.announced(log, topic) for log in self._logs(topic))])
        for at in (Partition(topic, number) for number in range(count)):
            owned = sources.pop(at, None)
            end = self._end(at) if owned is None else owned.progress
            self.marks.append(end.idle_mark(str(at)))
        before = self._known.get(topic) or source_program(self._plan.source_of(topic))
        self._record(topic, msgspec.structs.replace(before, gone=True))

    def clear(self) -> None:
        """Forget what is committed."""
        self.marks.clear()
        self.records.clear()

    def _logs(self, topic: str) -> Iterator[LogPlan]:
        return (log for log in self._plan.logs if log.reads(topic))

    def _end(self, at: Partition) -> Progress:
        return furthest(self._past.last_mark(log, str(at)) for log in self._logs(at.topic))

    def _record(self, topic: str, source: SourceProgram) -> None:
        self._known[topic] = source
        self.records.append(record_of_topic(topic, source))
