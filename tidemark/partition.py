"""A topic partition: how every layer above the core names a place in Kafka."""

from typing import NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"
