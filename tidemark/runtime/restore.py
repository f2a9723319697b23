"""Restoring keyed state: changelogs read back to where the committed offset says they stand.

The order matters.  ``committed`` has answered, so the offset is that of a finished transaction;
only then the changelogs' ends are asked for, uncommitted ones.  What is between a committed end
and those is either the commit itself, whose end is not visible yet, or a transaction still open:
reading waits for both.  The names of commits prove that the state is that of the offset.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from tidemark.runtime.changelog import Journal
from tidemark.runtime.config import Config
from tidemark.runtime.group import EARLIEST, LATEST, Partition, offsets
from tidemark.runtime.reading import RangeReader

_log = logging.getLogger("tidemark")

_STEP_S = 0.5
_READ_S = 0.05
_SHOW_S = 2.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A changelog to read for a log partition."""

    log: Partition
    changelog: Partition


class Restore:
    """The changelogs of newly assigned log partitions, read step by step."""

    def __init__(self, config: Config, admin: AdminClient, wanted: Sequence[Wanted]) -> None:
        """Take the ends at once: everything committed before is below them."""
        self.wanted = list(wanted)
        self.journals = {want.changelog: Journal(str(want.changelog)) for want in wanted}
        ends = offsets(admin, self.journals, LATEST)
        begins = offsets(admin, self.journals, EARLIEST)
        self._total = sum(ends[at] - begins[at] for at in self.journals)
        self._reader = RangeReader(config, {at: (begins[at], ends[at]) for at in self.journals})
        self._begun_s = self._shown_s = time.monotonic()

    @property
    def done(self) -> bool:
        """Whether everything was read."""
        return self._reader.left == 0

    def step(self) -> None:
        """Read for a while."""
        stop_s = time.monotonic() + _STEP_S
        while not self.done and time.monotonic() < stop_s:
            for message in self._reader.read(_READ_S):
                at = Partition(message.topic() or "", message.partition() or 0)
                self.journals[at].add(message.key() or b"", message.value())
        self._show()

    def _show(self) -> None:
        now_s = time.monotonic()
        if self.done and self._total:
            took_s = now_s - self._begun_s
            _log.info("restored %d changelogs in %.1f s", len(self.journals), took_s)
        elif now_s - self._shown_s > _SHOW_S:
            self._shown_s = now_s
            read = self._total - self._reader.left
            _log.info("restoring: %d of %d offsets", read, self._total)

    def drop(self, log: Partition) -> None:
        """Leave out a log partition that went to another owner meanwhile."""
        self.wanted = [want for want in self.wanted if want.log != log]

    def close(self) -> None:
        """Let go of the broker."""
        self._reader.close()
