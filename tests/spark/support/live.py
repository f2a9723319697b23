"""The examples as live pipelines."""

import json
import random
from collections.abc import Iterator
from itertools import islice

from examples.events import EXAMPLES
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.pipelines import example
from tidemark.partition import Partition
from tidemark.runtime.client import topics
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.spark.read.live_position import committed_offsets
from tidemark.spark.read.ranges import log_partitions

RECORDS = 400


def events(name: str, count: int) -> Iterator[bytes]:
    """Yield events of an example."""
    for record in islice(EXAMPLES[name](random.Random(7)), count):
        yield json.dumps(record).encode()


class Example(Stack):
    """An example on a broker, with two partitions of its raw topic."""

    def __init__(self, broker: str, name: str) -> None:
        super().__init__(broker, name, 2, module=example)

    def play(self, count: int) -> None:
        """Let the services work on events that are kept in two partitions, to their end."""
        self.start()
        self.produce((n % 2, None, event) for n, event in enumerate(events(self.name, count)))
        caught_up(self)
        assert set(self.stop().values()) == {0}


def caught_up(stack: Stack, *services: str) -> None:
    """Wait until all that was produced has passed these services, by default every one."""
    counts = topics.require_raw(stack.admin, stack.plan)
    raw = [Partition(topic, n) for topic, count in counts.items() for n in range(count)]
    _await_group(stack, "ingest", offsets(stack.admin, raw, LATEST))
    logs = offsets(stack.admin, log_partitions(stack.admin, stack.plan), LATEST)
    for service in (services or stack.plan.services())[1:]:
        read = {each.log for each in stack.plan.of_service(service)}
        _await_group(stack, service, {at: end for at, end in logs.items() if at.topic in read})


def _await_group(stack: Stack, service: str, ends: dict[Partition, int]) -> None:
    group = stack.plan.group(service)

    def there() -> bool:
        committed = committed_offsets(stack.config, group, list(ends))
        return all(committed[at] >= end for at, end in ends.items())

    wait_until(there, f"{service} of {stack.name}")
