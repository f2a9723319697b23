"""Raw topics that come and go, and the panes of the pipeline ``regions``."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin import NewTopic

from tests.kafka.support.stack import Stack, wait_until
from tidemark.runtime.client.topics import partition_counts

T = 1_700_000_000_000


def created(stack: Stack, topic: str, partitions: int = 1) -> None:
    stack.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    wait_until(lambda: partition_counts(stack.admin).get(topic) == partitions, topic)


def deleted(stack: Stack, topic: str) -> None:
    stack.admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in partition_counts(stack.admin), f"the end of {topic}")


def send(stack: Stack, topic: str, seconds: Iterable[float], partition: int = 0) -> None:
    stack.produce(
        (
            (partition, None, json.dumps({"k": "a", "ts": T + int(at * 1_000), "v": 1}).encode())
            for at in seconds
        ),
        topic,
    )


def counted(stack: Stack, output: str = "by-topic", key: str = "topic") -> dict[Any, int]:
    """Return the final panes by key and start in seconds; none may come twice."""
    found = [(p[key], (p["start"] - T) // 1_000, p["n"]) for p in stack.results(output)]
    assert max(Counter(each[:2] for each in found).values(), default=1) == 1
    return {(name.rpartition(".")[2], start): n for name, start, n in found}


def await_panes(stack: Stack, wanted: dict[Any, int], output: str = "by-topic", key: str = "topic"):
    wait_until(lambda: counted(stack, output, key) == wanted, f"{output} of {stack.name}")
