"""Stops the driver of micro-batches on a signal.

A micro-batch may last longer than the time in which a service must stop
(runtime/service/stopping.py).  So the first signal lets the micro-batch end, and interrupts only
the start of Spark.  A second signal ends the process at once.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tidemark.runtime.service.stopping import STOP_SIGNALS, StopAskedError

_early: list[int] = []


def note_early_signals() -> None:
    """Note stop signals until there is a StopSignal: the imports of a driver take seconds."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda number, _frame: _early.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


class StopSignal:
    """Whether a stop signal came."""

    def __init__(self) -> None:
        """Note stop signals from now on, and one that was noted before."""
        self.asked = False
        self._interrupts = False
        for number in STOP_SIGNALS:
            signal.signal(number, self._note)
        if _early:
            self._note(_early.pop(), None)

    def check(self) -> None:
        """Raise if a stop signal came.

        Raises:
            StopAskedError: to end a wait.
        """
        if self.asked:
            raise StopAskedError

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Return a context that a stop signal ends, with StopAskedError, even if it came before."""
        self._interrupts = True
        try:
            self.check()
            yield
        finally:
            self._interrupts = False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(number, signal.SIG_DFL)
        if self._interrupts:
            raise StopAskedError
