"""Ends a process whose call into the Kafka client does not return although brokers answer.

Some calls of the client ignore their timeout: ``send_offsets_to_transaction`` waits forever for a
group coordinator that the client has dropped in the meantime.  Such a call cannot be interrupted,
so the process ends, and restarts from its last commit (docs/decisions/0010).  While no broker
answers, waiting is right.
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
    """Watches the client calls of one thread from another thread."""

    def __init__(self, answers: Callable[[], bool], end: Callable[[float], object]) -> None:
        """``answers``: whether a broker answers now.  ``end``: called with the call's seconds."""
        self._answers = answers
        self._end = end
        self._begun_s: float | None = None
        self._answered: tuple[float, float] | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Return a context in which a call is watched."""
        self._begun_s = time.monotonic()
        try:
            yield
        finally:
            self._begun_s = None

    def look(self, now_s: float) -> None:
        """End the process if a call is overdue although brokers have answered for 30 seconds."""
        begun_s = self._begun_s
        if begun_s is None or now_s - begun_s < _OVERDUE_S or not self._answers():
            self._answered = None
            return
        if self._answered is None or self._answered[0] != begun_s:
            self._answered = begun_s, now_s
        if now_s - self._answered[1] >= _ANSWERED_S:
            self._end(now_s - begun_s)

    def start(self) -> None:
        """Look every two seconds until the process ends."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            self.look(time.monotonic())


def watchdog(service: str, answers: Callable[[], bool]) -> Watchdog:
    """Return a running watchdog that ends the process with status FAILED."""

    def end(lasted_s: float) -> None:
        _log.error("%s: a commit has hung for %.0f s although brokers answer", service, lasted_s)
        os._exit(FAILED)

    watching = Watchdog(answers, end)
    watching.start()
    return watching
