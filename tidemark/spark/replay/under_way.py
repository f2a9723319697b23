"""A hand-over that is under way: its mark in the committed offsets of log partitions.

The mark says which run it is, and for a log that is written anew, which records it is made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.progress import LogProgress, decode, encode
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config
from tidemark.spark.read.live_position import committed_positions
from tidemark.spark.read.ranges import Offsets


class HandOverRun(msgspec.Struct, frozen=True, array_like=True):
    """The run of a hand-over that is under way.

    Only the same program (``fingerprint``) can complete it.  A second run uses the key-group slices
    of the first.  ``are_written``: whether all logs that are written anew are complete.
    ``made_of``: begin and end of the records that a log partition is made of; None if it stays.
    """

    name: str
    slices: int
    fingerprint: str
    from_raw: bool = False
    are_written: bool = False
    made_of: tuple[int, int] | None = None

    def marked(self, committed: TopicPartition, begun: int | None = None) -> TopicPartition:
        """Return a committed offset with the mark.

        ``begun``: the new offset, where the state is to begin; None if both stay.
        """
        past = decode(committed.metadata or "", LogProgress, committed.topic)
        marked = msgspec.structs.replace(past, handing_over=msgspec.json.encode(self).decode())
        offset = committed.offset
        if begun is not None:
            offset, marked = begun, msgspec.structs.replace(marked, begun=begun)
        return TopicPartition(committed.topic, committed.partition, offset, metadata=encode(marked))


@dataclass(frozen=True)
class UnderWay:
    """A hand-over that is under way.

    ``made_of``: begin and end of the records that a log partition is to be made of.  ``begun``:
    where its new epoch begins.  Both have the log partitions that are written anew.
    """

    run: HandOverRun
    made_of: Mapping[Partition, tuple[int, int]]
    begun: Offsets

    @property
    def begins(self) -> Offsets:
        """The first offsets of the records to read: of a log that is complete, the new ones."""
        if self.run.are_written:
            return self.begun
        return {at: begin for at, (begin, _) in self.made_of.items()}

    @property
    def ends(self) -> Offsets:
        """The ends of the records to read, if they are not the ends of the logs."""
        return {} if self.run.are_written else {at: end for at, (_, end) in self.made_of.items()}


def find_under_way(config: Config, admin: AdminClient, plan: Plan) -> UnderWay | None:
    """Return the hand-over of a plan that is under way, or None."""
    runs: list[HandOverRun] = []
    made_of: dict[Partition, tuple[int, int]] = {}
    begun: dict[Partition, int] = {}
    counts = partition_counts(admin)
    for service in plan.keyed_services():
        logs = {each.log for each in plan.of_service(service)}
        wanted = [
            Partition(log, n) for log in sorted(logs & counts.keys()) for n in range(counts[log])
        ]
        for each in committed_positions(config, plan.group(service), wanted):
            at = Partition(each.topic, each.partition)
            past = _past(each, at)
            if past is None or not past.handing_over:
                continue
            run = msgspec.json.decode(past.handing_over, type=HandOverRun)
            runs.append(msgspec.structs.replace(run, made_of=None))
            if run.made_of is not None:
                made_of[at], begun[at] = run.made_of, past.begun
    return UnderWay(runs[0], made_of, begun) if runs else None


def _past(committed: TopicPartition, at: Partition) -> LogProgress | None:
    if committed.offset < 0 or not committed.metadata:
        return None
    return decode(committed.metadata, LogProgress, str(at))
