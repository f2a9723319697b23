"""The load of the latency benchmark, a process of its own: records at a steady rate.

A record holds the time when it was due, not when it was sent, so delays of the producer and broker
count.  All records of a user are in one partition, so the latest one has made the row.
"""

import random
import subprocess
import sys
import time

from confluent_kafka import Producer

USERS = 10_000
PARTITIONS = 4
_STEP_S = 0.002


def started(broker: str, topic: str, rate: int, seconds: float) -> subprocess.Popen[bytes]:
    """Start the load and return its process."""
    arguments = (broker, topic, str(rate), str(seconds))
    return subprocess.Popen([sys.executable, "-m", "bench.latency.load", *arguments])


def main() -> None:
    """Produce: BROKER TOPIC RATE SECONDS."""
    broker, topic, rate, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    producer = Producer(
        {
            "bootstrap.servers": broker,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    draw = random.Random(1).randrange
    begun_us = time.time_ns() // 1000
    sent, total = 0, int(rate * seconds)
    while sent < total:
        due = min(total, (time.time_ns() // 1000 - begun_us) * rate // 1_000_000)
        for n in range(sent, due):
            due_us = begun_us + n * 1_000_000 // rate
            user = draw(USERS)
            value = b'{"user":"u%d","at":%d,"due_us":%d}' % (user, due_us // 1000, due_us)
            producer.produce(topic, value, partition=user % PARTITIONS)
        sent = due
        producer.poll(0)
        time.sleep(_STEP_S)
    assert producer.flush(60) == 0, "records could not be sent"


if __name__ == "__main__":
    main()
