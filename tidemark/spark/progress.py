"""The progress of a replay: tasks send it while they run, and the driver shows it.

Spark reports a task only when it ends, which may be hours later.  So each task sends a few small
datagrams to the address of the driver, which Spark's own traffic uses too.  They serve only the
display: a lost datagram changes no result.
"""

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from pyspark.sql import SparkSession

from tidemark.core.time.segment import NEVER_MS
from tidemark.partition import Partition
from tidemark.spark.read.ranges import Ranges

CUTTING = -1
"""The slice number of a task that cuts a log partition into key-group slices."""


_EVERY_S = 0.5
_SHOWN_EVERY_S = 1.0
_DATAGRAM_BYTES = 4096
_YEAR_10000_MS = 253_402_300_800_000


class Address(NamedTuple):
    """The address at which the driver listens.  Each datagram of its own tasks has ``token``."""

    host: str
    port: int
    token: str


class TaskProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a task in a log partition, or in a key-group slice of it.

    ``offset``: of the last segment.  ``rows``: processed so far.  ``clock_ms``: the lowest clock.
    """

    token: str
    topic: str
    partition: int
    slice: int
    offset: int
    rows: int
    clock_ms: int


class ProgressSender:
    """Sends the progress of a task to the driver."""

    def __init__(self, address: Address | None) -> None:
        """Send nothing if ``address`` is None."""
        self._address = address
        self._due_s = 0.0

    def send(self, log: Partition, slice_: int, offset: int, rows: int, clock_ms: int) -> None:
        """Send the progress, at most every half second."""
        now_s = time.monotonic()
        if self._address is None or now_s < self._due_s:
            return
        self._due_s = now_s + _EVERY_S
        host, port, token = self._address
        data = msgspec.msgpack.encode(TaskProgress(token, *log, slice_, offset, rows, clock_ms))
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as socket_:
                socket_.sendto(data, (host, port))
        except OSError:
            self._address = None  # the driver cannot be reached: send nothing more


@dataclass
class Progress:
    """The progress of all tasks of a replay, as the driver knows it.

    ``ranges``: what they read.  ``slices``: key-group slices per log partition.  ``began_s``: start
    on the monotonic clock.
    """

    ranges: Ranges
    slices: int
    began_s: float
    _tasks: dict[tuple[Partition, int], TaskProgress] = field(default_factory=dict)

    def take(self, task: TaskProgress) -> None:
        """Store the last progress of a task; a task that runs again starts again."""
        self._tasks[Partition(task.topic, task.partition), task.slice] = task

    def line(self, now_s: float) -> str:
        """Return as text: share of the offsets, rows per second, event time, and time left."""
        share, working = self._share(), self._working()
        took_s = max(now_s - self.began_s, 1e-3)
        parts = [f"{share:.0%} of {self.ranges.length:,} offsets"]
        if working:
            parts.append(f"{sum(task.rows for task in working) / took_s:,.0f} rows/s")
            parts.append(f"event time {event_time(min(task.clock_ms for task in working))}")
        if share > 0:
            parts.append(f"{_duration(took_s / share * (1 - share))} left")
        return ", ".join(parts)

    def _working(self) -> list[TaskProgress]:
        return [task for (_, slice_), task in self._tasks.items() if slice_ != CUTTING]

    def done(self) -> dict[Partition, float]:
        """Return the offsets that are done of each log partition; cutting counts half."""
        cuts = any(slice_ == CUTTING for _, slice_ in self._tasks)
        done = dict.fromkeys(self.ranges.partitions, 0.0)
        for (log, slice_), task in self._tasks.items():
            read = task.offset + 1 - self.ranges.begins.get(log, 0)
            share = 1.0 if slice_ == CUTTING else 1 / self.slices
            done[log] = done.get(log, 0.0) + read * share / (2 if cuts else 1)
        return done

    def _share(self) -> float:
        """Return the share of offsets that is done."""
        return min(1.0, sum(self.done().values()) / max(1, self.ranges.length))


OnProgress = Callable[[Progress], None]
"""Called with the progress about once a second, in a thread of its own."""


@contextmanager
def progress_listener(
    spark: SparkSession, progress: Progress, on_progress: OnProgress
) -> Iterator[Address]:
    """Receive the progress of tasks and pass it to ``on_progress`` while the context is open."""
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((conf.get("spark.driver.bindAddress") or host, 0))
    receiver.settimeout(_SHOWN_EVERY_S)
    token, ended = secrets.token_hex(8), threading.Event()
    listener = threading.Thread(
        target=_listen, args=(receiver, token, progress, on_progress, ended), daemon=True
    )
    listener.start()
    try:
        yield Address(host, receiver.getsockname()[1], token)
    finally:
        ended.set()
        listener.join()
        receiver.close()


def _listen(
    receiver: socket.socket,
    token: str,
    progress: Progress,
    on_progress: OnProgress,
    ended: threading.Event,
) -> None:
    shown_s = time.monotonic()
    while not ended.is_set():
        task = _receive(receiver, token)
        if task is not None:
            progress.take(task)
        now_s = time.monotonic()
        if now_s - shown_s >= _SHOWN_EVERY_S:
            shown_s = now_s
            on_progress(progress)


def _receive(receiver: socket.socket, token: str) -> TaskProgress | None:
    try:
        task = msgspec.msgpack.decode(receiver.recv(_DATAGRAM_BYTES), type=TaskProgress)
    except (TimeoutError, msgspec.DecodeError):
        return None
    return task if task.token == token else None


def event_time(at_ms: int) -> str:
    """Return an event time as ISO text, ``-`` for a clock without one, or the plain number."""
    if not 0 <= at_ms < _YEAR_10000_MS:
        return "-" if at_ms == NEVER_MS else str(at_ms)
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
