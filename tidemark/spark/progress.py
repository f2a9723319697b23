"""How far a replay is: on_progress by its tasks while they work, shown by the driver.

Spark hears of a task when it ends, which may be hours later.  So each task sends datagrams to the
driver, whose address it can reach, as Spark itself does: few, small, and for show alone.  One that
is lost changes nothing.
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
"""In place of a slice: a task that cuts a log partition into slices."""

OnProgress = Callable[[str], None]
"""Is given a line about the progress, about once a second."""

_EVERY_S = 0.5
_SHOWN_EVERY_S = 1.0
_DATAGRAM_BYTES = 4096
_YEAR_10000_MS = 253_402_300_800_000


class Address(NamedTuple):
    """Where the driver listens; ``token`` tells its own tasks from others."""

    host: str
    port: int
    token: str


class TaskProgress(msgspec.Struct, frozen=True, array_like=True):
    """How far a task is in a log partition, or in a slice of it."""

    token: str
    topic: str
    partition: int
    slice: int
    offset: int
    rows: int
    clock_ms: int


class ProgressSender:
    """The side of a task."""

    def __init__(self, address: Address | None) -> None:
        """Without an address, say nothing."""
        self._address = address
        self._due_s = 0.0

    def send(self, log: Partition, slice_: int, offset: int, rows: int, clock_ms: int) -> None:
        """Tell how far the task is, unless it has just done so."""
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
            self._address = None  # no way to the driver: nothing is shown


@dataclass
class Progress:
    """What the driver knows of tasks that work on ranges, each cut into slices."""

    ranges: Ranges
    slices: int
    began_s: float
    _beats: dict[tuple[Partition, int], TaskProgress] = field(default_factory=dict)

    def take(self, beat: TaskProgress) -> None:
        """Note how far a task is; one that runs again starts again."""
        self._beats[Partition(beat.topic, beat.partition), beat.slice] = beat

    def line(self, now_s: float) -> str:
        """Say how much is done, how fast, where in event time, and when it will be over."""
        share, working = self._share(), self._working()
        took_s = max(now_s - self.began_s, 1e-3)
        parts = [f"{share:.0%} of {self.ranges.length:,} offsets"]
        if working:
            parts.append(f"{sum(beat.rows for beat in working) / took_s:,.0f} rows/s")
            parts.append(f"event time {event_time(min(beat.clock_ms for beat in working))}")
        if share > 0:
            parts.append(f"{_duration(took_s / share * (1 - share))} left")
        return ", ".join(parts)

    def _working(self) -> list[TaskProgress]:
        return [beat for (_, slice_), beat in self._beats.items() if slice_ != CUTTING]

    def _share(self) -> float:
        """Return how much of all offsets is done; where slices are cut, that is half of it."""
        done = {True: 0.0, False: 0.0}
        for (log, slice_), beat in self._beats.items():
            read = beat.offset + 1 - self.ranges.begins.get(log, 0)
            done[slice_ == CUTTING] += read if slice_ == CUTTING else read / self.slices
        cuts = any(slice_ == CUTTING for _, slice_ in self._beats)
        total = max(1, self.ranges.length) * (2 if cuts else 1)
        return min(1.0, sum(done.values()) / total)


@contextmanager
def progress_listener(
    spark: SparkSession, progress: Progress, on_progress: OnProgress
) -> Iterator[Address]:
    """Listen to tasks while they work, and pass on what they say."""
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
        beat = _receive(receiver, token)
        if beat is not None:
            progress.take(beat)
        now_s = time.monotonic()
        if now_s - shown_s >= _SHOWN_EVERY_S:
            shown_s = now_s
            on_progress(progress.line(now_s))


def _receive(receiver: socket.socket, token: str) -> TaskProgress | None:
    try:
        beat = msgspec.msgpack.decode(receiver.recv(_DATAGRAM_BYTES), type=TaskProgress)
    except (TimeoutError, msgspec.DecodeError):
        return None
    return beat if beat.token == token else None


def event_time(at_ms: int) -> str:
    """Show an event time, or a clock that has none yet."""
    if not 0 <= at_ms < _YEAR_10000_MS:
        return "-" if at_ms == NEVER_MS else str(at_ms)
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
