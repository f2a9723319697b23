"""Stops a process on a signal (docs/operations.md, "Shutdown").

* The first SIGTERM or SIGINT asks the loop to commit, leave its group and end.  Before the loop
  runs there is nothing to commit, and the signal ends the process.
* A second signal, or GRACE_S seconds, end the process at once.

A thread waits for signals: the main thread may be inside the Kafka client, where no handler runs.
"""

import logging
import os
import select
import signal
import threading
from types import FrameType

_log = logging.getLogger("tidemark")

GRACE_S = 8.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopAskedError(Exception):
    """Ends a wait after a stop signal."""


class Stop:
    """Whether a stop signal came, and what follows from it."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._works = False

    @property
    def asked(self) -> bool:
        """Whether a stop signal came."""
        return self._asked.is_set()

    def listen(self) -> None:
        """Handle stop signals from now on."""
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        signal.set_wakeup_fd(writes, warn_on_full_buffer=False)  # before: else one is lost
        for number in STOP_SIGNALS:
            signal.signal(number, _noted)
        # A program that started again holds them back (serve.py).
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        threading.Thread(target=self._watch, args=(reads,), name="stop", daemon=True).start()

    def work(self) -> None:
        """Note that the loop runs: from now on it ends the process itself."""
        self._works = True

    def check(self) -> None:
        """Raise if a stop signal came.

        Raises:
            StopAskedError: to end a wait.
        """
        if self.asked:
            raise StopAskedError

    def _watch(self, reads: int) -> None:
        _next(reads)
        self._asked.set()
        if not self._works:
            _log.info("stopped by a signal before the work began")
            os._exit(0)
        if select.select([reads], [], [], GRACE_S)[0]:
            os._exit(128 + _next(reads))
        _log.warning("stopped without a last commit: it took longer than %.0f s", GRACE_S)
        os._exit(0)


def _next(reads: int) -> int:
    """Return the next stop signal; waits for it."""
    while True:
        for number in os.read(reads, 1):
            if number in STOP_SIGNALS:
                return number


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: with any handler, the interpreter writes the signal to the pipe."""
