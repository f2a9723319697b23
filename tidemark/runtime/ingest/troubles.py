"""Sources in trouble: raw partitions that ingest cannot read, while it goes on with the others.

Such a source is assigned and paused.  Nothing is committed for it, and `/health/ready` names it.
See docs/operations.md, "Reset".
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, LATEST, Start, offsets

_REPORT_EVERY_MS = 60_000

_log = logging.getLogger("tidemark")


class Troubles:
    """The sources in trouble of a process, each with what is wrong and what helps."""

    def __init__(self) -> None:
        """Start without any."""
        self.texts: dict[Partition, str] = {}
        self._reported_ms = 0

    def add(self, at: Partition, text: str) -> None:
        """Note the trouble of a source; the next report names it."""
        self.texts[at] = text
        self._reported_ms = 0

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that were revoked."""
        for at in partitions:
            self.texts.pop(at, None)

    def report(self, now_ms: int) -> None:
        """Log the troubles, at most once a minute; ``now_ms``: wall clock."""
        if self.texts and now_ms - self._reported_ms >= _REPORT_EVERY_MS:
            self._reported_ms = now_ms
            for text in self.texts.values():
                _log.error("%s. The other sources go on", text)

    def kept(self, admin: AdminClient, starts: Sequence[Start]) -> list[Start]:
        """Return starts that the topics have; note the sources whose next records are gone."""
        partitions = [start.partition for start in starts]
        low = offsets(admin, partitions, EARLIEST)
        high = offsets(admin, partitions, LATEST)
        return [self._kept(each, low[each.partition], high[each.partition]) for each in starts]

    def _kept(self, start: Start, low: int, high: int) -> Start:
        at = start.partition
        if low <= start.offset <= high:
            return start
        self.add(
            at,
            f"{at}: the committed offset {start.offset} is outside of the topic's {low} to {high}: "
            f"records are gone. 'tidemark reset PIPELINE --source {at.topic}' goes on with those "
            "that are there",
        )
        return replace(start, offset=low)
