"""Creates topics with the settings that plan/topics.py declares, and verifies them."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tidemark.errors import ConfigurationError
from tidemark.ingest.segment_builder import EPOCH, MAX_BYTES, SegmentBuilder
from tidemark.plan.matched_topics import matched_topics
from tidemark.plan.physical import Plan
from tidemark.plan.topics import DAY_MS, UNLIMITED, WEEK_MS, Topic
from tidemark.runtime.client.clients import when_known
from tidemark.runtime.retry import poll

_log = logging.getLogger("tidemark")
_TIMEOUT_S = 30.0
_PAUSE_S = 0.1
_SHORT_ID = 8  # of 22 characters; the metadata of offsets has little room
_ROOM = 4  # a message may be this many times larger than the columns of its segment
_EXACT = ("message.timestamp.type", "cleanup.policy")


def ensure(admin: AdminClient, topics: Sequence[Topic], replication_factor: int) -> list[str]:
    """Create missing topics and verify the others; return the names of the created ones.

    Raises:
        ConfigurationError: a topic cannot be created, or exists with other settings.
    """
    there = partition_counts(admin)
    missing = [topic for topic in topics if topic.name not in there]
    created = _create(admin, missing, replication_factor)
    _verify(admin, [topic for topic in topics if topic.name not in created])
    await_leaders(admin, {topic.name for topic in topics})
    return created


def ensure_raw(admin: AdminClient, topics: Sequence[Topic], replication_factor: int) -> list[str]:
    """Create missing raw topics; return their names.

    Raw topics that exist belong to their producers, whose settings are as good as ours: any number
    of partitions, message size or timestamp type.  A retention that may delete records before they
    are read is only logged.

    Raises:
        ConfigurationError: a topic cannot be created.
    """
    there = partition_counts(admin)
    created = _create(
        admin, [topic for topic in topics if topic.name not in there], replication_factor
    )
    warn_of_retention(admin, [topic.name for topic in topics if topic.name not in created])
    await_leaders(admin, {topic.name for topic in topics})
    return created


def partition_counts(admin: AdminClient, timeout_s: float = _TIMEOUT_S) -> dict[str, int]:
    """Return the number of partitions of each topic of the cluster, by name."""
    topics = admin.list_topics(timeout=timeout_s).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def require(admin: AdminClient, names: Iterable[str], user: str = "this client") -> dict[str, int]:
    """Return the partition counts of topics that must exist, by name.

    Raises:
        ConfigurationError: a topic does not exist, or ``user`` has no right to see it.
    """
    there = partition_counts(admin)
    for name in names:
        if name not in there:
            raise _missing(name, user)
    return {name: there[name] for name in names}


def require_raw(
    admin: AdminClient,
    plan: Plan,
    user: str = "this client",
    on_dispute: Callable[[str], None] | None = None,
) -> dict[str, int]:
    """Return the partition counts of the raw topics of a plan, by name in the order of the plan.

    ``on_dispute``: takes what is wrong with a topic that the patterns of two sources match, in
    place of an error; the topic is left out.

    Raises:
        ConfigurationError: a topic that the plan names does not exist, ``user`` has no right to
            see it, or the patterns of two sources match one topic.
    """
    there = partition_counts(admin)
    matched = matched_topics(plan, there)
    for topic in matched.missing:
        raise _missing(topic, user)
    for dispute in matched.disputes():
        if on_dispute is None:
            raise ConfigurationError(dispute)
        on_dispute(dispute)
    return {topic: there[topic] for topic in matched.sources}


def raw_counts(admin: AdminClient, plan: Plan) -> dict[str, int]:
    """Return the partition counts of the raw topics of a plan that exist, by name."""
    there = partition_counts(admin)
    return {topic: there[topic] for topic in matched_topics(plan, there).sources}


def _missing(name: str, user: str) -> ConfigurationError:
    return ConfigurationError(
        f"topic {name} does not exist, or {user} may not see it: create it, for example with "
        "'tidemark topics'"
    )


def message_bytes(admin: AdminClient, names: Sequence[str]) -> int:
    """Return the largest message size in bytes that all given topics accept."""
    found = when_known(lambda: _settings(admin, names))
    return min(int(each["max.message.bytes"]) for each in found.values())


def segment_builder(admin: AdminClient, plan: Plan) -> SegmentBuilder:
    """Return a builder of segments that fit into the messages of all logs."""
    return SegmentBuilder(EPOCH, segment_bytes(admin, plan))


def segment_bytes(admin: AdminClient, plan: Plan) -> int:
    """Return the size of the rows of a segment that fits into a message of every log."""
    most = message_bytes(admin, [log.topic for log in plan.logs]) // _ROOM
    return min(MAX_BYTES, most)


def compacted(admin: AdminClient, names: Sequence[str]) -> set[str]:
    """Return the topics that the broker compacts; these take no record without a key."""
    found = when_known(lambda: _settings(admin, names)) if names else {}
    return {name for name, each in found.items() if "compact" in each["cleanup.policy"]}


def warn_of_retention(admin: AdminClient, names: Sequence[str]) -> None:
    """Log each raw topic that may lose records unread: by event times, or within a week.

    The first is only a warning because most producers use the time of sending, and which do is not
    known here.
    """
    found = when_known(lambda: _settings(admin, names)) if names else {}
    for name, settings in found.items():
        kept_ms = int(settings["retention.ms"])
        if "delete" not in settings["cleanup.policy"] or kept_ms == UNLIMITED:
            continue
        if settings["message.timestamp.type"] == "CreateTime":
            _log.warning(
                "raw topic %s: the broker deletes records whose timestamp is %.1f days old, read "
                "or not; if producers set it to the event time, late records are lost: set "
                "retention.ms=-1 or message.timestamp.type=LogAppendTime",
                name,
                kept_ms / DAY_MS,
            )
        elif kept_ms < WEEK_MS:
            _log.warning(
                "raw topic %s: the broker deletes records after %.1f days, read or not: a pipeline "
                "that stands still for longer loses them",
                name,
                kept_ms / DAY_MS,
            )


def topic_ids(admin: AdminClient, names: Iterable[str]) -> dict[str, str]:
    """Return the broker's id of each topic by name; a deleted and recreated topic has a new id."""
    wanted = list(names)

    def ask() -> dict[str, str]:
        described = admin.describe_topics(TopicCollection(wanted), request_timeout=_TIMEOUT_S)
        return {name: str(future.result().topic_id) for name, future in described.items()}

    return when_known(ask) if wanted else {}


def short_ids(admin: AdminClient, names: Iterable[str]) -> dict[str, str]:
    """Return the first characters of each topic's id by name, enough to tell a few topics apart."""
    return {name: each[:_SHORT_ID] for name, each in topic_ids(admin, names).items()}


def _create(admin: AdminClient, topics: Sequence[Topic], replication_factor: int) -> list[str]:
    if not topics:
        return []
    futures = _create_futures(admin, topics, replication_factor)
    return [name for name, future in futures.items() if _was_created(name, future)]


def begin_to_create(admin: AdminClient, topic: Topic, replication_factor: int) -> "Future[Any]":
    """Return the future of creating a topic; it fails if the topic exists."""
    return _create_futures(admin, [topic], replication_factor)[topic.name]


def _create_futures(
    admin: AdminClient, topics: Sequence[Topic], replication_factor: int
) -> "dict[str, Future[Any]]":
    new = [
        NewTopic(topic.name, topic.partitions, replication_factor, config=dict(topic.settings))
        for topic in topics
    ]
    futures: dict[str, Future[Any]] = admin.create_topics(new, request_timeout=_TIMEOUT_S)
    return futures


def _was_created(name: str, future: "Future[Any]") -> bool:
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False  # another service created it first
        hint = (
            "; set TIDEMARK_REPLICATION_FACTOR"
            if error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
            else ""
        )
        raise ConfigurationError(
            f"topic {name} cannot be created: {error.args[0].str()}{hint}"
        ) from None
    return True


def _verify(admin: AdminClient, topics: Sequence[Topic]) -> None:
    if not topics:
        return
    names = [topic.name for topic in topics]
    actual = when_known(lambda: _settings(admin, names))
    counts = partition_counts(admin)
    for topic in topics:
        faults = _faults(topic, counts[topic.name], actual[topic.name])
        if faults:
            raise ConfigurationError(f"topic {topic.name} exists with " + "; ".join(faults))


def _settings(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
    return {
        resource.name: {name: entry.value for name, entry in future.result().items()}
        for resource, future in futures.items()
    }


def _faults(topic: Topic, partitions: int, found: Mapping[str, str]) -> list[str]:
    faults = []
    if partitions != topic.partitions:
        faults.append(f"{partitions} partitions where the pipeline needs {topic.partitions}")
    for name in _EXACT:
        if name in topic.settings and found[name] != topic.settings[name]:
            faults.append(f"{name}={found[name]} where it needs {topic.settings[name]}")
    at_least = {
        "max.message.bytes": topic.least_message_bytes,
        "retention.ms": topic.least_retention_ms,
    }
    for name, least in at_least.items():
        if name in topic.settings and UNLIMITED < int(found[name]) < least:
            faults.append(f"{name}={found[name]} where it needs at least {least}")
    return faults


def await_leaders(admin: AdminClient, names: set[str]) -> None:
    """Wait until every partition has a leader; just after creation some do not.

    Raises:
        ConfigurationError: a partition has none for 30 s, or a topic does not exist.
    """

    def have_leaders() -> bool:
        topics = admin.list_topics(timeout=_TIMEOUT_S).topics
        return all(name in topics and _has_leaders(topics[name]) for name in names)

    if not poll(have_leaders, for_s=_TIMEOUT_S, pause_s=_PAUSE_S):
        raise ConfigurationError(f"no leader after {_TIMEOUT_S:.0f} s for topics {sorted(names)}")


def _has_leaders(topic: Any) -> bool:
    return bool(topic.partitions) and all(p.leader >= 0 for p in topic.partitions.values())
