"""Tries an unavailable sink again, after growing pauses."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from tidemark.runtime.retry import retry
from tidemark.sinks.sink import UnavailableError

_log = logging.getLogger("tidemark")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_PATIENCE_S = 240.0  # below max.poll.interval.ms

Answer = TypeVar("Answer")


class Backoff:
    """When to try an unavailable sink again: after pauses that grow from 0.5 to 30 s."""

    def __init__(self) -> None:
        self.reason = ""
        self._pause_s = _FIRST_PAUSE_S
        self._until_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._until_s - time.monotonic())

    def failed(self, reason: str) -> None:
        """Note a failed try; logs a new reason once."""
        if reason != self.reason:
            _log.warning("%s: trying again until it is back", reason)
        self.reason = reason
        self._until_s = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def succeeded(self) -> None:
        """Note a successful try."""
        if self.reason:
            _log.info("back again, after: %s", self.reason)
        self.reason, self._pause_s, self._until_s = "", _FIRST_PAUSE_S, 0.0


def when_available(call: Callable[[], Answer], on_wait: Callable[[str], None]) -> Answer:
    """Return the result of ``call``, repeated while the sink is unavailable.

    ``on_wait`` is called with the reason every half second; it may raise to end the wait.

    Raises:
        UnavailableError: still unavailable after 240 s, before the group would drop this member.
    """
    backoff = Backoff()

    def wait(error: Exception) -> None:
        backoff.failed(str(error))
        while backoff.left_s:
            on_wait(backoff.reason)
            time.sleep(min(backoff.left_s, _FIRST_PAUSE_S))

    answer = retry(call, _is_away, for_s=_PATIENCE_S, on_wait=wait)
    backoff.succeeded()
    return answer


def _is_away(error: Exception) -> bool:
    return isinstance(error, UnavailableError)
