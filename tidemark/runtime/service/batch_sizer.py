"""How many messages to take at once: so few that a transaction stays far below its timeout.

The broker aborts a transaction that is open for too long, and fences its process.  One that takes
as much again after its restart, on a machine as busy, would never get anywhere.  So the first
portions are small, and later ones as large as the time that they take allows.
"""

_BATCHES_PER_TIMEOUT = 10
_FIRST = 64  # the first batch is such a part of the largest


class BatchSizer:
    """The number of messages that a turn may take."""

    def __init__(self, most: int, transaction_timeout_ms: int) -> None:
        """Take ``most`` messages where nothing speaks against it."""
        self._most = most
        self._longest_s = transaction_timeout_ms / 1000 / _BATCHES_PER_TIMEOUT
        self.size = max(1, most // _FIRST)

    def took(self, count: int, seconds: float) -> None:
        """Learn how long ``count`` messages took: grow while it is short, else shrink to fit."""
        if seconds > self._longest_s:
            self.size = max(1, int(count * self._longest_s / seconds))
        elif count >= self.size:
            self.size = min(2 * self.size, self._most)
