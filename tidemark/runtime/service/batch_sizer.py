"""How many messages to take at once, so that a transaction stays far below its timeout.

The broker aborts a transaction that is open for too long, and fences its process.  If the process
then took as many messages again, on a machine as busy as before, it would never make progress.  So
the first batches are small, and later ones as large as their processing time allows.
"""

_BATCHES_PER_TIMEOUT = 10
_FIRST = 64  # the first batch is this part of the largest


class BatchSizer:
    """The number of messages that a turn of the loop may take: ``size``."""

    def __init__(self, most: int, transaction_timeout_ms: int) -> None:
        """Start with a small batch; ``most``: the largest batch, in messages."""
        self._most = most
        self._longest_s = transaction_timeout_ms / 1000 / _BATCHES_PER_TIMEOUT
        self.size = max(1, most // _FIRST)

    def took(self, count: int, seconds: float) -> None:
        """Note how long ``count`` messages took: double the size if that was short, else cut it."""
        if seconds > self._longest_s:
            self.size = max(1, int(count * self._longest_s / seconds))
        elif count >= self.size:
            self.size = min(2 * self.size, self._most)
