"""Hurts the broker of a run, and lets it be well again after as long as the schedule says."""

import os
import signal
import time
from collections.abc import Callable

from tests.chaos.supervising import Supervisor
from tests.kafka.support.stack import Stack
from tidemark.embedded.broker import Broker

STILL_S = 12.0
"""In so long a broker ends every transaction: after their timeout of 10 s it looks each second."""


class Outages:
    """The broker, which is away now or not; ``tick`` must be called many times a second."""

    def __init__(
        self, broker: Broker, stack: Stack, supervisor: Supervisor, note: Callable[[str], None]
    ) -> None:
        """``note`` is told when it is back."""
        self._broker, self._stack, self._supervisor, self._note = broker, stack, supervisor, note
        self._until_s: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether the broker is away."""
        return self._until_s is not None

    def begin(self, kind: str, for_s: float) -> bool:
        """Stop, kill or freeze it; return whether it was there."""
        if self.lasts or self._broker.pid is None:
            return False
        if kind == "broker freeze":
            os.kill(self._broker.pid, signal.SIGSTOP)
        else:
            if kind == "broker kill":
                self._kill(self._broker.pid)
            self._broker.stop()
        # It is away from now on: a clean stop takes its time, and the next act may come late.
        self._until_s = time.monotonic() + for_s
        return True

    def tick(self, now_s: float) -> None:
        """Bring it back if it is time."""
        if self._until_s is not None and self._until_s <= now_s:
            if self._broker.pid is None:
                self._broker.start()
            self.thaw()
            self._note("the broker is back")

    def thaw(self) -> None:
        """Let it go on if it stands still."""
        self._until_s = None
        if self._broker.pid is not None:
            os.kill(self._broker.pid, signal.SIGCONT)

    def _kill(self, pid: int) -> None:
        """Kill it when the services have stood still for so long that no transaction is open.

        A lone broker that is killed with transactions may never end them (decision 0004).
        """
        running = [process for process in self._stack.processes.values() if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGSTOP)
        time.sleep(STILL_S)
        os.kill(pid, signal.SIGKILL)
        for replica, process in self._stack.processes.items():
            if process in running and not self._supervisor.is_frozen(replica):
                process.send_signal(signal.SIGCONT)
