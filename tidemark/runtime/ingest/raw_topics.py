"""The raw topics that ingest reads: those of a pattern come and go while it runs.

Every process looks for itself, in the background, at the topics of the cluster.  The decisions are
those of plan/matched_topics.py.  See docs/semantics.md, "Several topics".
"""

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.plan.matched_topics import MatchedTopics, matched_topics
from tidemark.plan.physical import Plan
from tidemark.runtime.client.topics import partition_counts, require, topic_ids, warn_of_retention
from tidemark.runtime.service.trouble_log import TroubleLog

_log = logging.getLogger("tidemark")

_ANSWER_S = 5.0


@dataclass(frozen=True)
class Change:
    """Topics of a pattern that have come, with their ids, and topics that are gone."""

    joined: Mapping[str, str]
    gone: tuple[str, ...]


@dataclass(frozen=True)
class _Look:
    """The topics of the cluster at one time; ``ids``: of raw topics that were not read before."""

    counts: Mapping[str, int]
    matched: MatchedTopics
    ids: Mapping[str, str]


class RawTopics:
    """The raw topics that belong to a plan now."""

    def __init__(
        self, admin: AdminClient, plan: Plan, counts: Mapping[str, int], every_ms: int
    ) -> None:
        """``counts``: the partitions of the raw topics that are read first.

        ``every_ms``: the time between two looks.  A plan that only names its topics needs no look.
        """
        self._admin, self._plan, self._every_ms = admin, plan, every_ms
        self.counts = dict(counts)
        self.waits: tuple[str, ...] = ()
        """What is wrong with patterns: no topic matches, or two match one topic."""
        patterns = any(source.topics != source.named_topics for source in plan.sources)
        self._executor = ThreadPoolExecutor(1) if patterns else None
        self._looking: Future[_Look] | None = None
        self._looked_ms = 0
        self._own: tuple[str, ...] = ()
        self._trouble_log = TroubleLog()

    def counted(self) -> dict[str, int]:
        """Return the partition counts of the topics that are read, asked for now.

        Raises:
            ConfigurationError: a topic that the plan names is gone.
        """
        named = require(self._admin, self._plan.named_topics)
        if self._executor is None:
            return named
        there = partition_counts(self._admin)
        return {topic: there[topic] for topic in self.counts if topic in there}

    def poll(self, now_ms: int) -> Change | None:
        """Look again if it is time; return what has changed when the answer has come."""
        if self._executor is None:
            return None
        self._trouble_log.report(self.waits, time.monotonic())
        if self._looking is None:
            if now_ms - self._looked_ms >= self._every_ms:
                self._looked_ms = now_ms
                self._looking = self._executor.submit(
                    _look, self._admin, self._plan, frozenset(self.counts)
                )
            return None
        if not self._looking.done():
            return None
        looked, self._looking = self._looking, None
        try:
            return self._changed(looked.result())
        except KafkaException:  # no broker has answered, or a topic is gone again: look later
            return None

    def _changed(self, look: _Look) -> Change | None:
        found, named = look.matched, self._plan.named_topics
        self.waits = tuple(found.waits())
        if found.own != self._own:
            self._own = found.own
            _log.info("no source reads the pipeline's own topics: %s", ", ".join(found.own))
        gone = tuple(t for t in self.counts if t not in found.sources and t not in named)
        self.counts = {
            topic: look.counts.get(topic) or self.counts[topic]
            for topic in [*self.counts, *look.ids]
            if topic not in gone and (topic in self.counts or look.counts[topic])
        }
        joined = {topic: id_ for topic, id_ in look.ids.items() if topic in self.counts}
        for topic in joined:
            _log.info("topic %s joins source %s", topic, self._plan.source_of(topic).name)
        for topic in gone:
            _log.warning("topic %s is gone: its rows stay, and no clock waits for it", topic)
        return Change(joined, gone) if joined or gone else None


def _look(admin: AdminClient, plan: Plan, known: Collection[str]) -> _Look:
    """Return the topics of the cluster now; warn of new ones that lose records."""
    counts = partition_counts(admin, _ANSWER_S)
    matched = matched_topics(plan, counts)
    new = [topic for topic in matched.sources if topic not in known and counts[topic]]
    ids = topic_ids(admin, new)
    warn_of_retention(admin, new)
    return _Look(counts, matched, ids)
