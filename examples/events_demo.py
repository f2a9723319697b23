"""The generated events of an example on a real Kafka: ``make demo PIPELINE=examples.fire``.

Each result that event time decides must come as one process computes it.  The results of silence
come with the wall clock, and only their number is shown.
"""

import io
import json
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer
from rich.console import Console

from examples.events import EXAMPLES, RawValues, raw_values
from tidemark import load_pipeline
from tidemark.core.windows.pane import END_OF_INPUT
from tidemark.embedded import stack
from tidemark.errors import ConfigurationError
from tidemark.local.run import LocalRun
from tidemark.local.view import write_results
from tidemark.plan.physical import Plan

EVENTS = 2_000
WAIT_S = 60.0

Results = Counter[tuple[str, str]]
"""How often each result was published: its topic, and its value as JSON with sorted names."""

console = Console(highlight=False, soft_wrap=True)


def run(folder: Path, pipeline: str) -> int:
    """Start everything, send the events, and compare the results; return the exit status."""
    example = pipeline.removeprefix("examples.")
    if example not in EXAMPLES:
        raise ConfigurationError(f"{pipeline}: events are made for {', '.join(EXAMPLES)} only")
    plan = load_pipeline(pipeline).plan()
    values = raw_values(example, plan.named_topics, EVENTS)
    expected = in_one_process(plan, values)
    with console.status("starting Kafka, the services and a sink into SQLite ..."):
        running = stack.up(folder, pipeline, raw_partitions=1, dies_with_us=True)
    processes = ", ".join(f"{each.name} {each.pid}" for each in stack.status(folder))
    console.print(f"up at {running.address}: {processes}")
    producer = Producer({"bootstrap.servers": running.address})
    for topic, some in values.items():
        for value in some:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        console.print(f"sent {len(some):,} records to {topic}")
    return verdict(plan, expected, published(plan, running.address, expected))


def in_one_process(plan: Plan, values: RawValues) -> Results:
    """Return what event time decides in one process, without Kafka."""
    local, out = LocalRun(plan), io.BytesIO()
    for _ in local.run(values):
        pass
    write_results(local, out, every_pane=True)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    return Counter(
        (line["topic"], json.dumps(line["value"], sort_keys=True))
        for line in lines
        if END_OF_INPUT not in line["value"] and line["topic"] != plan.dead_letters
    )


def published(plan: Plan, address: str, expected: Results) -> Results:
    """Read the topics of results until all that are expected have come, at most ``WAIT_S``."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "demo",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic for each in plan.operators for topic in each.topics])
    found: Results = Counter()
    deadline = time.monotonic() + WAIT_S
    while expected - found and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            value = message.value()
            if message.error() is None and value is not None:
                text = json.dumps(json.loads(value), sort_keys=True)
                found[str(message.topic()), text] += 1
    consumer.close()
    return found


def verdict(plan: Plan, expected: Results, found: Results) -> int:
    """Show one result of each topic, and whether all have come once; return the exit status."""
    for topic in (topic for each in plan.operators for topic in each.topics):
        values = [text for name, text in expected if name == topic]
        silent = sum(count for (name, _), count in (found - expected).items() if name == topic)
        after = f", and {silent} after silence" if silent else ""
        console.print(f"[bold]{topic}[/]: {len(values):,} results{after}")
        for text in values[:1]:
            console.print(f"  [green]{text[:200]}[/]")
    missing = expected - found
    twice = [key for key, count in found.items() if count > max(expected[key], 1)]
    if not missing and not twice:
        console.print("[bold green]Right:[/] Kafka has each result of one process, once.")
        return 0
    console.print(f"[bold red]Wrong:[/] {missing.total()} are missing, {len(twice)} came twice")
    return 1
