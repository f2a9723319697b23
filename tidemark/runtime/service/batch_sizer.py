"""How many messages to take at once: a batch takes limited time and limited memory.

The broker aborts a transaction that is open for too long, and fences its process.  If the process
then took as many messages again, on a machine as busy as before, it would never make progress.  So
the first batches are small, and later ones as large as their processing time allows.

How much memory a batch takes is known only as it is read.  So it is read in portions, each as large
as the largest message so far allows.
"""

from collections.abc import Sequence

from tidemark.runtime.messages.received import ReceivedMessage, sizes_bytes

_BATCHES_PER_TIMEOUT = 10
_FIRST = 64  # the first batch is this part of the largest


class BatchSizer:
    """The number of messages that a turn of the loop may take: ``size``."""

    def __init__(self, most: int, transaction_timeout_ms: int) -> None:
        """Start with a small batch; ``most``: the largest batch, in messages."""
        self._most = most
        self._longest_s = transaction_timeout_ms / 1000 / _BATCHES_PER_TIMEOUT
        self.size = max(1, most // _FIRST)

    def limit(self, most: int) -> None:
        """Change the largest batch: the process has gained or lost partitions."""
        self._most = most
        self.size = min(self.size, most)

    def took(self, count: int, seconds: float) -> None:
        """Note how long ``count`` messages took: double the size if that was short, else cut it."""
        if seconds > self._longest_s:
            self.size = max(1, int(count * self._longest_s / seconds))
        elif count >= self.size:
            self.size = min(2 * self.size, self._most)


_GROWTH = 4  # a portion is at most this many times what was read before
_MOST_READ = 1_000


class BatchRoom:
    """The room that is left in a batch while it is read."""

    def __init__(self, most: int, most_bytes: int) -> None:
        """Start empty; ``most``, ``most_bytes``: of the messages of the batch."""
        self._most, self._left_bytes = most, most_bytes
        self._read = self._largest_bytes = 0
        self.read_bytes = 0

    def add(self, messages: Sequence[ReceivedMessage]) -> None:
        """Note messages that were read."""
        size_bytes, self._largest_bytes = sizes_bytes(messages)
        self._read += len(messages)
        self._left_bytes -= size_bytes
        self.read_bytes += size_bytes

    @property
    def messages(self) -> int:
        """The number of messages to read next, 0 if the batch is full."""
        by_bytes = max(0, self._left_bytes) // max(1, self._largest_bytes)
        return min(self._most - self._read, by_bytes, _GROWTH * self._read, _MOST_READ)
