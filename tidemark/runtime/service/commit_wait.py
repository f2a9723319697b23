"""A commit that waits: what it waits for, and an end where waiting leads nowhere."""

import logging
import time

from tidemark.errors import InfrastructureError
from tidemark.runtime.client.broker_probe import BrokerProbe
from tidemark.runtime.service.health import Health

_log = logging.getLogger("tidemark")

_SAY_AFTER_S, _SAY_EVERY_S = 5.0, 10.0
_MARGIN_S = 30.0


class CommitStuckError(InfrastructureError):
    """A commit did not end although brokers answer; a restart goes on from the last commit."""


class CommitWait:
    """Notes the waits of commits; a wait while no broker answers has no limit here."""

    def __init__(self, name: str, health: Health, probe: BrokerProbe, timeout_ms: int) -> None:
        """``timeout_ms``: of a transaction; later the broker has ended it, and it cannot succeed.

        ``name``: of the process, for the log.
        """
        self._name, self._health, self._probe = name, health, probe
        self._limit_s = timeout_ms / 1000 + _MARGIN_S
        self._since_s: float | None = None
        self._answered_since_s = self._said_s = 0.0

    def over(self) -> None:
        """Note that the commit has ended."""
        if self._since_s is not None and self._said_s > self._since_s:
            waited_s = time.monotonic() - self._since_s
            _log.info("%s goes on: a commit has ended after %.0f s", self._name, waited_s)
        self._since_s = None

    def waits(self, reason: str) -> None:
        """Note why a commit waits, in health and log.

        Raises:
            CommitStuckError: it has waited for too long, and brokers answer.
        """
        now_s = time.monotonic()
        gone = self._probe.poll(now_s)
        if self._since_s is None:
            self._since_s = self._answered_since_s = self._said_s = now_s
        if gone is not None:
            self._answered_since_s = now_s
        waited_s = now_s - self._since_s
        shown = f"a commit waits: {gone or reason}"
        self._health.waiting(shown)
        quiet_s = _SAY_AFTER_S if self._said_s == self._since_s else _SAY_EVERY_S
        if now_s - self._said_s >= quiet_s:
            self._said_s = now_s
            _log.warning("%s: %s (%.0f s so far)", self._name, shown, waited_s)
        if now_s - self._answered_since_s > self._limit_s:
            raise CommitStuckError(
                f"a commit has waited for {waited_s:.0f} s though brokers answer: {reason}"
            )
