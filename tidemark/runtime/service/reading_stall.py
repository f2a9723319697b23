"""Names what a process waits for that reads nothing although its partitions have records.

Two ends tell the causes apart: the end of the records that are committed, and the end that counts
open transactions (docs/operations.md, "Health").
"""

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, ask_offsets

_log = logging.getLogger("tidemark")

_QUIET_S, _ASK_S, _SAY_S = 15.0, 5.0, 30.0

_Ends = Mapping[Partition, int]


class ReadingStall:
    """Asks for the ends of partitions while nothing is read for some time."""

    def __init__(self, admin: AdminClient, name: str, now_s: float) -> None:
        """``admin`` must live as long as this; ``name``: of the process, for the log."""
        self._admin, self._name = admin, name
        self._read_s = self._asked_s = now_s
        self._said_s: float | None = None
        self._asked: list[dict[Partition, Future[Any]]] = []
        self._reason: str | None = None

    def read(self, now_s: float) -> None:
        """Note that records have come."""
        self._read_s, self._reason = now_s, None
        if self._said_s is not None:
            _log.info("%s reads again", self._name)
        self._said_s = None

    def poll(self, now_s: float, positions: Mapping[Partition, int]) -> str | None:
        """Return why nothing is read, None if there is nothing to read.

        ``positions``: next offsets of the partitions that are not paused.
        """
        if now_s - self._read_s < _QUIET_S or not positions:
            return None
        if self._asked:
            self._take_answer(now_s, positions)
        elif now_s - self._asked_s >= _ASK_S:
            self._asked_s = now_s
            self._asked = [
                ask_offsets(self._admin, positions, LATEST, isolation)
                for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            ]
        return self._reason

    def _take_answer(self, now_s: float, positions: Mapping[Partition, int]) -> None:
        if not all(future.done() for futures in self._asked for future in futures.values()):
            return
        asked, self._asked = self._asked, []
        if any(future.exception() for futures in asked for future in futures.values()):
            return  # no broker answers: another reason says so
        committed, written = ({at: f.result().offset for at, f in each.items()} for each in asked)
        self._reason = _reason(now_s - self._read_s, positions, committed, written)
        if self._reason is None:
            self._said_s = None
        elif self._said_s is None or now_s - self._said_s >= _SAY_S:
            self._said_s = now_s
            _log.warning("%s: %s", self._name, self._reason)


def _reason(
    quiet_s: float, positions: Mapping[Partition, int], committed: _Ends, written: _Ends
) -> str | None:
    unsent = [at for at, offset in positions.items() if committed.get(at, 0) > offset]
    if unsent:
        return (
            f"no broker has sent a record for {quiet_s:.0f} s, though there are some in "
            f"{_names(unsent)}"
        )
    held = [at for at, offset in positions.items() if written.get(at, 0) > offset]
    return f"waiting for an open transaction of a writer of {_names(held)}" if held else None


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
