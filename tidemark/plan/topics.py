"""The topics of a pipeline, with the settings that its guarantees need.

* LogAppendTime for all.  With event times as record timestamps, a time far in the future makes the
  broker refuse the whole batch.  An old time makes it delete the segment file at once.
* Messages of 16 MiB: a dead letter or late row may be larger than its record.
* Small segment files for changelogs: the broker never compacts the active file, 1 GiB by default.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.plan.names import progress_topic
from tidemark.plan.physical import Plan

MAX_MESSAGE_BYTES = 16 * 2**20
"""The largest message of own topics, and of producers before compression."""

DAY_MS = 24 * 3_600_000
WEEK_MS = 7 * DAY_MS
UNLIMITED = -1

_ALWAYS = {
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}
_KEPT = {**_ALWAYS, "cleanup.policy": "delete", "retention.ms": str(UNLIMITED)}
_CHANGELOG = {
    **_ALWAYS,
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 2**20),
    "segment.ms": "60000",
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": "60000",
    "delete.retention.ms": "600000",
}
TABLE_SETTINGS = {name: value for name, value in _CHANGELOG.items() if name not in _ALWAYS}
"""Settings that keep the changelog of a table small, although it is written every second."""

# Old stats are worthless, and no guarantee covers them.
_STATS = {
    **_ALWAYS,
    "cleanup.policy": "delete",
    "retention.ms": str(DAY_MS),
    "retention.bytes": str(256 * 2**20),
    "segment.bytes": str(16 * 2**20),
}
# Raw records keep the timestamps of their producers, which may be event times of any year.
_RAW = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
    "retention.ms": str(UNLIMITED),
}

# Ingest splits segments to fit, so a log may have the broker's default.
LEAST_LOG_BYTES = 2**20


@dataclass(frozen=True)
class Topic:
    """The required settings of a topic."""

    name: str
    partitions: int
    settings: Mapping[str, str]
    least_message_bytes: int = MAX_MESSAGE_BYTES
    least_retention_ms: int = WEEK_MS


def own_topics(plan: Plan) -> tuple[Topic, ...]:
    """Return the topics of a pipeline that Tidemark creates and that only Tidemark writes."""
    partitions = {log.topic: log.partitions for log in plan.logs}
    topics = [Topic(name, count, _KEPT, LEAST_LOG_BYTES) for name, count in partitions.items()]
    for operator in plan.operators:
        count = partitions[operator.log]
        topics += [Topic(name, count, _KEPT) for name in operator.topics]
        topics.append(Topic(operator.changelog, count, _CHANGELOG))
    for derived in plan.derived:
        topics.append(Topic(progress_topic(plan.pipeline, derived.operator), 1, _CHANGELOG))
    topics += static_topics(plan)
    return (*topics, Topic(plan.dead_letters, 1, _KEPT), Topic(plan.generations, 1, _CHANGELOG))


def static_topics(plan: Plan) -> list[Topic]:
    """Return the raw topics that ingest writes: the versions of static tables."""
    return [Topic(each.name, 1, _KEPT) for each in plan.sources if each.static is not None]


def topic_of_stats(name: str) -> Topic:
    """Return the stats topic; each service creates it if it can."""
    return Topic(name, 1, _STATS, least_message_bytes=0, least_retention_ms=0)


def topic_of_retries(plan: Plan) -> Topic:
    """Return the topic of letters that were sent again; the first retry creates it."""
    return Topic(plan.retried, 1, _CHANGELOG)


def raw_topics(plan: Plan, partitions: int | None = None) -> tuple[Topic, ...]:
    """Return the raw topics that a pipeline names, with recommended settings for missing ones.

    ``partitions``: the number of each topic; by default the largest number of a log.
    """
    if partitions is None:
        partitions = max((log.partitions for log in plan.logs), default=1)
    own = {topic.name for topic in static_topics(plan)}
    return tuple(raw_topic(name, partitions) for name in plan.named_topics if name not in own)


def raw_topic(name: str, partitions: int) -> Topic:
    """Return a raw topic with recommended settings."""
    return Topic(name, partitions, _RAW)
