"""Ends a process whose call into the Kafka client does not return though brokers answer.

The client's calls have a timeout, which some of them forget: ``send_offsets_to_transaction`` waits
without end for a group coordinator that the client has dropped meanwhile.  Nothing can call it
back, so the process ends and is started again from its last commit (docs/decisions/0010).
While no broker answers, waiting is right.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidemark.runtime.faults import FAILED

_log = logging.getLogger("tidemark")

_LOOK_S = 2.0
_OVERDUE_S = 6.0  # longer than the timeout of a call
_ANSWERED_S = 30.0


class Watchdog:
    """Watches the calls of one thread from another."""

    def __init__(self, answers: Callable[[], bool], end: Callable[[float], object]) -> None:
        """``answers``: whether a broker answers now; ``end`` is given the seconds of the call."""
        self._answers = answers
        self._end = end
        self._begun_s: float | None = None
        self._answered: tuple[float, float] | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Watch a call while it lasts."""
        self._begun_s = time.monotonic()
        try:
            yield
        finally:
            self._begun_s = None

    def look(self, now_s: float) -> None:
        """End the process if one call was overdue for long, with brokers that answered."""
        begun_s = self._begun_s
        if begun_s is None or now_s - begun_s < _OVERDUE_S or not self._answers():
            self._answered = None
            return
        if self._answered is None or self._answered[0] != begun_s:
            self._answered = begun_s, now_s
        if now_s - self._answered[1] >= _ANSWERED_S:
            self._end(now_s - begun_s)

    def start(self) -> None:
        """Look from now on, until the process ends."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            self.look(time.monotonic())


def watchdog(service: str, answers: Callable[[], bool]) -> Watchdog:
    """Return a watchdog that is awake."""

    def end(lasted_s: float) -> None:
        _log.error("%s: a commit hangs for %.0f s though brokers answer", service, lasted_s)
        os._exit(FAILED)

    watching = Watchdog(answers, end)
    watching.start()
    return watching
