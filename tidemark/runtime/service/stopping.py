"""Being told to stop (docs/operations.md, "Shutdown").

The first SIGTERM or SIGINT asks the loop to commit, leave its group and end; before there is a loop
it ends the process, which holds nothing yet.  The second ends it at once, and so does time.

A thread listens, since the main one may be inside the Kafka client, where no handler runs.
"""

import logging
import os
import select
import signal
import threading
from types import FrameType

_log = logging.getLogger("tidemark")

GRACE_S = 8.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopAskedError(Exception):
    """Raised out of a wait that is not worth its end any more."""


class Stop:
    """Whether this process was told to stop."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._works = False

    @property
    def asked(self) -> bool:
        """Whether a signal came."""
        return self._asked.is_set()

    def listen(self) -> None:
        """Take signals from now on."""
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        signal.set_wakeup_fd(writes, warn_on_full_buffer=False)  # before: else one is lost
        for number in _SIGNALS:
            signal.signal(number, _noted)
        threading.Thread(target=self._watch, args=(reads,), name="stop", daemon=True).start()

    def work(self) -> None:
        """Let the loop end by itself from now on."""
        self._works = True

    def check(self) -> None:
        """End a wait if a signal came."""
        if self.asked:
            raise StopAskedError

    def _watch(self, reads: int) -> None:
        _next(reads)
        self._asked.set()
        if not self._works:
            _log.info("told to stop before there was work to do")
            os._exit(0)
        if select.select([reads], [], [], GRACE_S)[0]:
            os._exit(128 + _next(reads))
        _log.warning("stopped without a last commit, which the broker did not take in time")
        os._exit(0)


def _next(reads: int) -> int:
    """Wait for a signal to stop."""
    while True:
        for number in os.read(reads, 1):
            if number in _SIGNALS:
                return number


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: that there is a handler makes the interpreter write to the pipe."""
