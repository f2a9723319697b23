"""Operators that lag read their log partition again, while the others go on.

See docs/operations.md, "Operators that catch up".  The segments come through a consumer outside of
the group, in bounded portions.  The normal commits of the log partition contain the results and the
changelogs.  At the position of the others, the operators join them.
"""

import logging
import time
from collections.abc import Iterator

from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.range_reader import RangeReader
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.log_partition import LogPartition, segments_of

_log = logging.getLogger("tidemark")

_READ_S = 0.02


class CatchUp:
    """The operators of a log partition that lag, and the reader of their segments."""

    def __init__(self, config: Config, log: LogPartition, position: int, batch: int) -> None:
        """``position``: the next offset of the other operators; ``batch``: segments at a time."""
        self.log = log
        self._batch = batch
        begin = min(each.task.next_offset for each in log.lagging)
        self._reader = RangeReader(config, {log.at: (begin, position)})

    @property
    def left(self) -> int:
        """The number of offsets still to read."""
        return self._reader.left

    def step(self, position: int, outbox: Outbox, for_s: float) -> Iterator[None]:
        """Process segments below ``position`` for some time.

        Yields where ``checkpoint`` may be called, and if an operator has joined the others.
        """
        until_s = time.monotonic() + for_s
        self._reader.extend(self.log.at, position)
        while self._reader.left and self.log.lagging and time.monotonic() < until_s:
            messages = self._reader.read(_READ_S, self._batch)
            for segments in segments_of(self.log.at, messages):
                for each in self.log.lagging:
                    yield from each.take(segments, outbox)
        if not self._reader.left:
            for each in self.log.lagging:
                each.task.next_offset = max(each.task.next_offset, position)
                each.is_behind = False
                _log.info("%s has caught up at offset %d", each.where, position)
                yield

    def close(self) -> None:
        """Close the consumer."""
        self._reader.close()
