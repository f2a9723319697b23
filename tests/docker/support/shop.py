"""A shop whose pipeline changes: its modules as text, its events, and its results in plain Python.

The reference knows nothing of Tidemark: a dict per output, from the events of each partition in
their order.
"""

import json
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

T = 1_700_000_040_000  # the beginning of a minute
PARTITIONS = 2
SALES, REFUNDS = "shop-sales", "shop-refunds"
_PAUSE_S = 0.05
_STEP_MS = 2_000  # of event time between two events of a partition

Event = dict[str, Any]
Panes = dict[tuple[Any, ...], tuple[Any, ...]]
"""Values by key columns and start of the window."""
Late = set[tuple[str, int, int]]
"""Topic, partition and offset of late events."""


@dataclass(frozen=True)
class Output:
    """An output: its key columns, its window, its sums, the least amount, and its raw topic."""

    name: str
    key: tuple[str, ...] = ("user",)
    minutes: int = 1
    sums: tuple[str, ...] = ("amount",)
    least: int = 0
    topic: str = SALES

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the aggregates."""
        return ("n", *(f"total_{column}" for column in self.sums))


@dataclass(frozen=True)
class Program:
    """What is deployed: outputs, columns of the sales beyond the first ones, and the delay."""

    outputs: tuple[Output, ...]
    columns: tuple[str, ...] = ()
    delay_s: int = 20

    def text(self) -> str:
        """Return the module of the pipeline."""
        lines = [
            "import tidemark as td",
            f'pipeline = td.Pipeline("shop", partitions={PARTITIONS})',
        ]
        for topic in dict.fromkeys(output.topic for output in self.outputs):
            columns = {"user": "str", "city": "str", "at": "int", "amount": "int"}
            columns |= dict.fromkeys(self.columns if topic == SALES else (), "int")
            schema = ", ".join(f'"{name}": {kind}' for name, kind in columns.items())
            lines += [
                f'{_name(topic)} = pipeline.source("{topic}", schema={{{schema}}},',
                f'    event_time="at", watermark=td.bounded("{self.delay_s}s"),',
                '    when_silent="wait", idle_after="1h")',
            ]
        for each in self.outputs:
            rows = f'{_name(each.topic)}.filter(td.col("amount") >= {each.least})'
            sums = ", ".join(f'total_{column}=td.sum("{column}")' for column in each.sums)
            lines.append(
                f"{rows if each.least else _name(each.topic)}.key_by{each.key!r}"
                f'.window(td.tumbling("{each.minutes}m"))'
                f'.aggregate(n=td.count(), {sums}).to("{each.name}")'
            )
        return "\n".join(lines).replace(",)", ")") + "\n"


def _name(topic: str) -> str:
    return topic.replace("-", "_")


class Shop:
    """Writes events without pause, and keeps what it has written, by topic and partition."""

    def __init__(self, address: str) -> None:
        """``address``: of the broker, which need not be there yet."""
        self._address = address
        self._draw = random.Random(14)
        self._events: dict[str, list[list[Event]]] = {}
        self._written = 0
        self._lock, self._ends = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def open(self, topic: str) -> None:
        """Write events of a topic, too, from now on."""
        with self._lock:
            self._events[topic] = [[] for _ in range(PARTITIONS)]

    def begin(self) -> None:
        """Begin to write."""
        # Idempotent, or a batch that is sent again may come twice, and offsets are others.
        settings = {"bootstrap.servers": self._address, "enable.idempotence": True}
        self._producer = Producer(settings)
        self._thread.start()

    def end(self) -> None:
        """Write no more."""
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join()

    def events(self, topic: str) -> list[list[Event]]:
        """Return the events of a topic so far, by partition in order."""
        with self._lock:
            assert self._producer.flush(30) == 0
            return [list(events) for events in self._events[topic]]

    def _run(self) -> None:
        while not self._ends.wait(_PAUSE_S):
            with self._lock:
                self._written += 1
                for topic, partitions in self._events.items():
                    for number, events in enumerate(partitions):
                        event = self._event()
                        events.append(event)
                        self._producer.produce(topic, json.dumps(event), partition=number)
                self._producer.poll(0)

    def _event(self) -> Event:
        """Return the next event: one in ten is up to 40 s old, one in fifty some minutes."""
        draw = self._draw
        age_s = draw.choice((0,) * 44 + (5, 10, 20, 40, 40, 500))
        event: Event = {
            "user": f"u{draw.randrange(4)}",
            "city": draw.choice(("Rom", "Köln", "Łódź")),
            "at": T + self._written * _STEP_MS - age_s * 1_000,
            "amount": draw.randrange(25),
        }
        return event | ({"tip": draw.randrange(5)} if draw.random() < 0.5 else {})


@dataclass(frozen=True)
class Expected:
    """The panes of windows that end at ``until_ms`` or before, and the late events.

    ``ends``: the number of events of each partition.
    """

    panes: Panes
    late: Late
    until_ms: int
    ends: tuple[int, ...]


def expected(output: Output, events: Sequence[Sequence[Event]], delay_s: int) -> Expected:
    """Return what an output has to publish of these events, by partition in order."""
    size_ms = output.minutes * 60_000
    rows: dict[tuple[Any, ...], list[Event]] = {}
    late: Late = set()
    watermarks = []
    for number, partition in enumerate(events):
        watermark_ms = 0
        for offset, event in enumerate(partition):
            start_ms = event["at"] // size_ms * size_ms
            if event["amount"] >= output.least:
                if start_ms + size_ms <= watermark_ms:
                    late.add((output.topic, number, offset))
                else:
                    at = (*(event[name] for name in output.key), start_ms)
                    rows.setdefault(at, []).append(event)
            watermark_ms = max(watermark_ms, event["at"] - delay_s * 1_000)
        watermarks.append(watermark_ms)
    until_ms = min(watermarks)
    panes = {
        at: (len(found), *(_sum(column, found) for column in output.sums))
        for at, found in rows.items()
        if at[-1] + size_ms <= until_ms
    }
    return Expected(panes, late, until_ms, tuple(map(len, events)))


def _sum(column: str, events: Sequence[Event]) -> int | None:
    values = [event[column] for event in events if column in event]
    return sum(values) if values else None


def differences(wanted: Panes, found: Panes) -> Iterator[str]:
    """Yield a line for each pane that is not as expected."""
    for at in wanted.keys() | found.keys():
        if wanted.get(at) != found.get(at):
            yield f"{at} is {found.get(at)}, not {wanted.get(at)}"
