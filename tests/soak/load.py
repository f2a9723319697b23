"""A steady stream of moves: players come and go, some records are late, some too late."""

import random
import threading
import time

from confluent_kafka import Producer

from tests.soak.life import BEST, BOUND_MS, LATENESS_MS

PLAYERS = 5_000
ARRIVING_PER_S = 50
"""So a player stays for PLAYERS / ARRIVING_PER_S seconds, and the set of keys never ends."""

_STEP_S = 0.05


class Load(threading.Thread):
    """Produces ``rate`` records per second until told to end; event time is the wall clock."""

    def __init__(self, broker: str, topic: str, partitions: int, rate: int, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.produced = self.best = 0
        self.behind_s = 0.0
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self._draw = random.Random(seed)
        self._ended = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": broker,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def run(self) -> None:
        begun_s = time.monotonic()
        while not self._ended.wait(_STEP_S):
            due = int((time.monotonic() - begun_s) * self._rate) - self.produced
            self._step(due)
            self.behind_s = time.monotonic() - begun_s - self.produced / self._rate
        self._producer.flush(60)

    def _step(self, count: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        oldest = now_ms * ARRIVING_PER_S // 1000 % 1_000_000_000
        produce, topic, partitions, draw = (
            *(self._producer.produce, self._topic, self._partitions),
            self._draw.random,
        )
        for n in range(count):
            chance = draw()
            at_ms = now_ms - int(chance * BOUND_MS * 0.9)
            if chance > 0.99:  # late, half of them for every window
                at_ms -= BOUND_MS + int(draw() * 2 * LATENESS_MS)
            player = oldest + int(draw() * draw() * PLAYERS)
            value = b'{"player":"p%d","at":%d,"score":%d}' % (player, at_ms, n % 100)
            produce(topic, value, partition=n % partitions)
        self._producer.poll(0)
        self.produced += count
        self.best += (count + 99 - BEST) // 100

    def end(self) -> None:
        """Stop producing; every record is at the broker afterwards."""
        self._ended.set()
        self.join()
        now_ms = time.time_ns() // 1_000_000
        for partition in range(self._partitions):
            at_ms = now_ms + 3_600_000
            value = b'{"player":"end","at":%d,"score":0}' % at_ms
            self._producer.produce(self._topic, value, partition=partition)
        self.produced += self._partitions
        assert self._producer.flush(60) == 0
