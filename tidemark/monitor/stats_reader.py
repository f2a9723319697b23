"""Reads what the processes of a pipeline wrote to its stats topic lately."""

import logging

import msgspec
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.monitor.alerts import process_of
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.runtime.service.stats import Stats, decode

_log = logging.getLogger("tidemark")


def latest_stats(config: Config, admin: AdminClient, topic: str, since_ms: int) -> list[Stats]:
    """Return the last record of each process that has written one since a time.

    A process that has stopped in order is left out, as is a record that is not a stats record.

    Raises:
        ConfigurationError: the topic does not exist.
    """
    require(admin, [topic])
    at = Partition(topic, 0)
    begin = offsets(admin, [at], OffsetSpec.for_timestamp(since_ms))[at]
    if begin < 0:  # no record is that young
        return []
    found: dict[str, Stats] = {}
    for message in read(config, {at: (begin, offsets(admin, [at], LATEST)[at])}):
        try:
            stats = decode(message.value())
        except msgspec.DecodeError as error:
            _log.warning("%s offset %d is not a stats record: %s", at, message.offset(), error)
            continue
        found[process_of(stats)] = stats
    return [stats for stats in found.values() if not stats.stopped]
