"""Reads the panes as they come: how long each took, and how many moves they hold together."""

import json
import threading
import time
from collections import Counter

from confluent_kafka import TopicPartition

from tests.soak.life import BOUND_MS, LATENESS_MS
from tidemark.runtime.client.clients import plain_consumer
from tidemark.runtime.config import Config

_FORGOTTEN_MS = 180_000
"""Panes of windows so old are final: only their sum is remembered."""


class Panes(threading.Thread):
    """A read_committed consumer of the results of the windows.

    The latency of an on-time pane is counted from the moment at which the wall clock, which event
    time follows, has passed its end by the watermark's bound: then a record came that made it due.
    """

    def __init__(self, config: Config, topic: str, partitions: int) -> None:
        super().__init__(name="panes", daemon=True)
        self.latencies_ms: list[float] = []
        self.count = self.twice = 0
        self._consumer = plain_consumer(config)
        self._consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
        self._moves: dict[tuple[str, int], tuple[int, int]] = {}
        self._forgotten = 0
        self._newest_ms = 0
        self._windows: Counter[int] = Counter()  # how many keys have a pane, by start
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            messages = self._consumer.consume(5_000, 0.2)
            now_ms = time.time_ns() / 1e6
            for message in messages:
                pane = {} if message.error() else json.loads(message.value() or b"")
                if pane and pane["player"] != "end":
                    self._take(pane, now_ms)
            if len(self._moves) > 500_000:
                self._forget()
        self._consumer.close()

    def _take(self, pane: dict[str, object], now_ms: float) -> None:
        self.count += 1
        start, end = int(str(pane["start"])), int(str(pane["end"]))
        window, revision = (str(pane["player"]), start), int(str(pane["revision"]))
        self._windows[start] += window not in self._moves
        before, _ = self._moves.get(window, (0, 0))
        self.twice += revision <= before
        self._moves[window] = (revision, int(str(pane["moves"])))
        if pane["timing"] == "on_time":
            self.latencies_ms.append(now_ms - end - BOUND_MS)
            self._newest_ms = max(self._newest_ms, start)

    def _forget(self) -> None:
        oldest_ms = self._newest_ms - _FORGOTTEN_MS
        for window in [window for window in self._moves if window[1] < oldest_ms]:
            self._forgotten += self._moves.pop(window)[1]

    @property
    def open(self) -> int:
        """How many of the windows published may still change: state has them, and those to come."""
        starts = list(self._windows.items())
        return sum(n for start, n in starts if start > self._newest_ms - LATENESS_MS)

    @property
    def moves(self) -> int:
        """How many moves the last panes of all windows hold together."""
        return self._forgotten + sum(moves for _, moves in self._moves.values())

    def end(self) -> None:
        self._ended.set()
        self.join()
