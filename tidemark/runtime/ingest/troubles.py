"""Sources in trouble: raw partitions that ingest cannot read, while it goes on with the others.

Such a source is assigned and paused.  Nothing is committed for it, and `/health/ready` names it.
See docs/operations.md, "Reset".
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, LATEST, Start, offsets
from tidemark.runtime.config import Config
from tidemark.runtime.faults import as_typed
from tidemark.runtime.service.trouble_log import TroubleLog


class Troubles:
    """The sources in trouble of a process, each with what is wrong and what helps."""

    def __init__(self, config: Config) -> None:
        """Start without sources in trouble."""
        self._where = config.pipeline, "ingest", config.bootstrap_servers
        self.texts: dict[Partition, str] = {}
        self._log = TroubleLog()

    def add(self, at: Partition, text: str) -> None:
        """Note the trouble of a source; the next report names it, with commands to be typed."""
        self.texts[at] = as_typed(text, *self._where)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that were revoked."""
        for at in partitions:
            self.texts.pop(at, None)

    def report(self, now_s: float) -> None:
        """Log the troubles when they change, and once a minute; ``now_s``: monotonic."""
        self._log.report(
            [f"{text}. The other sources go on" for text in self.texts.values()], now_s
        )

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
