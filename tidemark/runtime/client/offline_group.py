"""Reads and commits offsets of a group without being its member, as resets and hand-overs do.

Offsets, their metadata and the changelog records that belong to them are written in one
transaction.  The group must be empty: a member would not notice, and commit its old positions.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.client import clients
from tidemark.runtime.client.clients import session_timeout_ms
from tidemark.runtime.client.membership import has_moved
from tidemark.runtime.client.producer import Record, send
from tidemark.runtime.config import Config
from tidemark.runtime.retry import poll, retry

_WAIT_S = 60.0
_ANSWER_S = 10.0
_MARGIN_S, _PAUSE_S = 3.0, 0.5
_log = logging.getLogger("tidemark")


def committed_offsets(
    config: Config, group: str, wanted: Iterable[Partition], timeout_s: float
) -> list[TopicPartition]:
    """Return the committed offsets of a group, once no commit is in progress.

    Asks through a consumer: the admin client's own call can crash the process when it times out.
    Asks again while the coordinator of the group changes, which the client does not do itself.

    Raises:
        KafkaException: no answer within ``timeout_s``.
    """
    consumer = clients.plain_consumer(config, group)
    asked = [TopicPartition(*at) for at in wanted]
    try:
        return retry(
            lambda: consumer.committed(asked, timeout=timeout_s),
            has_moved,
            for_s=timeout_s,
            pause_s=_PAUSE_S,
        )
    finally:
        consumer.close()


def delete_records(admin: AdminClient, ends: Mapping[Partition, int]) -> None:
    """Delete the records of each partition below its offset in ``ends``."""
    wanted = [TopicPartition(*at, end) for at, end in ends.items() if end]
    for deleted in admin.delete_records(wanted).values() if wanted else ():
        deleted.result()


def await_empty(config: Config, admin: AdminClient, groups: Sequence[str]) -> None:
    """Wait until no group has members, as long as the session of a killed process may last.

    Raises:
        ConfigurationError: names the first group that still has members, and the members.
    """
    wait_s = session_timeout_ms(config) / 1000 + _MARGIN_S
    logged = set[str]()

    def are_empty() -> bool:
        waiting = [(group, members) for group in groups if (members := _members(admin, group))]
        for group, members in waiting:
            if group not in logged:
                logged.add(group)
                _log.warning(
                    "waiting until group %s has no members, at most %.0f s: stop service %s; "
                    "members: %s",
                    group,
                    wait_s,
                    group.rpartition(".")[2],
                    ", ".join(members),
                )
        return not waiting

    if not poll(are_empty, for_s=wait_s, pause_s=_PAUSE_S):
        require_empty(admin, groups)


def require_empty(admin: AdminClient, groups: Iterable[str]) -> None:
    """Raise if a group has members.

    Raises:
        ConfigurationError: names the first such group and its members.
    """
    for group in groups:
        members = _members(admin, group)
        if members:
            raise ConfigurationError(
                f"group {group} has members: {', '.join(members)}; stop the service first"
            )


def _members(admin: AdminClient, group: str) -> list[str]:
    """Return "CLIENT at HOST" for each member of a group.

    On a broker without groups the first try may fail: it creates the topic of offsets first.
    """

    def ask() -> list[str]:
        asked = admin.describe_consumer_groups([group], request_timeout=_ANSWER_S)
        try:
            described = asked[group].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise
        return [f"{member.client_id} at {member.host}" for member in described.members]

    return clients.when_known(ask)


def commit_for_group(
    config: Config,
    admin: AdminClient,
    name: str,
    writes: Mapping[Partition, Sequence[Record]],
    commits: Mapping[str, list[TopicPartition]],
) -> None:
    """Write records and commit offsets by group, in one transaction.

    ``name``: the transactional id.

    Raises:
        ConfigurationError: a group has members.
    """
    producer = clients.transactional_producer(config, name)
    producer.init_transactions(_WAIT_S)
    producer.begin_transaction()
    try:
        for at, records in writes.items():
            keys, values = [key for key, _ in records], [value for _, value in records]
            send(producer, at.topic, at.number, keys, values)
        require_empty(admin, commits)  # a supervisor may have restarted a service
        for group, each in commits.items():
            if not each:
                continue
            consumer = clients.group_consumer(config, group, name)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(each, metadata, _WAIT_S)
            consumer.close()
    except BaseException:
        producer.abort_transaction(_WAIT_S)
        raise
    producer.commit_transaction(_WAIT_S)
