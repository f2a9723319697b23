"""One run: a broker of its own, a program that changes, kills, and a comparison after each step."""

import json
import random
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.changes.deployment import Deployment
from tests.chaos.changes.program import (
    CHANGES,
    MARK,
    NAME,
    RAW,
    Output,
    Panes,
    Program,
    Record,
    T,
    draw_records,
)
from tests.kafka.support.changes import present
from tests.patience import PATIENCE_S
from tidemark.embedded.broker import Broker, free_port
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config

PARTITIONS = 2
STEP_MS = 600_000  # event time of a step; both window sizes divide it
RECORDS = 300
RESETS: dict[str, tuple[str, ...]] = {
    "reset": (),
    "reset, results deleted": ("--delete-results",),
    "reset of windowing, results deleted": ("--service", "windowing", "--delete-results"),
    "reset of an operator": ("--operator", "OUTPUT"),
}
STEPS = sorted([*CHANGES, *RESETS])
_PAUSE_S = 0.5


class Run:
    """A run of some steps; ``differences``: what does not agree with the reference."""

    def __init__(self, seed: int, changes: Sequence[str] = ()) -> None:
        """``changes``: names in STEPS, in order; drawn if empty."""
        self.seed = seed
        self.changes = changes
        self.timeline: list[str] = []
        self._draw = random.Random(seed)
        self._records: list[Record] = []
        self._until_ms = T

    def run(self, steps: int) -> list[str]:
        """Return the differences; stops at the first step that has some."""
        names = self.changes or ["nothing", *self._draw.choices(STEPS, k=steps - 1)]
        with (
            TemporaryDirectory(prefix="changes-") as folder,
            Broker(Path(folder) / "broker", free_port()) as broker,
            closing(Deployment(broker.address, Path(folder))) as deployment,
        ):
            self._config = Config(bootstrap_servers=broker.address)
            self._admin = clients.admin(self._config)
            _create(self._admin)
            try:
                return self._steps(names, deployment)
            except AssertionError as error:
                return [f"{error}", deployment.words()]

    def _steps(self, names: Sequence[str], deployment: Deployment) -> list[str]:
        program = Program()
        for name in names:
            self._feed()  # a part before the change, and a part after it
            self._note(name)
            if name in RESETS:
                output = program.outputs[-1].name
                deployment.reset([output if w == "OUTPUT" else w for w in RESETS[name]])
            else:
                program = CHANGES[name](program)
                self._note(f"  {program}")
                deployment.deploy(program)
            self._feed()
            if self._draw.random() < 0.7:
                time.sleep(self._draw.uniform(0, 4))
                self._note(f"kill {deployment.kill(self._draw)}")
            differences = self._await_agreement(program, deployment)
            if differences:
                return [*differences, deployment.words()]
        return []

    def _note(self, what: str) -> None:
        self.timeline.append(f"{time.strftime('%H:%M:%S')} {what}")

    def _feed(self) -> None:
        """Write records of the next span of event time, and a mark in each partition."""
        begin_ms, end_ms = self._until_ms, self._until_ms + STEP_MS
        records = draw_records(self._draw, RECORDS, begin_ms, end_ms)
        # Without idempotence, a batch that is sent again may come twice.
        settings = {
            "bootstrap.servers": self._config.bootstrap_servers,
            "enable.idempotence": True,
        }
        producer = Producer(settings)
        for n, record in enumerate(records):
            producer.produce(RAW, json.dumps(record), partition=n % PARTITIONS)
        for number in range(PARTITIONS):
            mark = {"user": MARK, "city": MARK, "at": end_ms + 20_001, "amount": 1_000}
            producer.produce(RAW, json.dumps(mark), partition=number)
        assert producer.flush(30) == 0, "the broker does not take records"
        self._records += records
        self._until_ms = end_ms

    def _await_agreement(self, program: Program, deployment: Deployment) -> list[str]:
        deadline_s = time.monotonic() + PATIENCE_S
        followed = len(deployment.advice)
        while True:
            deployment.tend()
            for advice in deployment.advice[followed:]:
                self._note(f"followed {advice}")
            followed = len(deployment.advice)
            differences = [
                difference
                for output in program.outputs
                for difference in self._differences(program, output, deployment)
            ]
            if not differences or time.monotonic() > deadline_s:
                return differences
            time.sleep(_PAUSE_S)

    def _differences(self, program: Program, output: Output, deployment: Deployment) -> list[str]:
        wanted = output.panes(self._records, self._until_ms)
        found = {
            "topic": self._topic(output),
            "table": _table(deployment.database, output),
        }
        return [
            f"{output.name}, {place}: {line}"
            for place, panes in found.items()
            for line in _compared(panes, wanted, self._until_ms, output)
        ]

    def _topic(self, output: Output) -> Panes:
        """Return the newest panes of the newest generation in the topic of an output."""
        values = present(self._config, self._admin, NAME, output.name).values()
        panes: dict[tuple[str, int], dict[str, Any]] = {}
        for pane in map(json.loads, chain.from_iterable(values)):
            window = pane.get(output.key), pane["start"]
            if window not in panes or pane["revision"] >= panes[window]["revision"]:
                panes[window] = pane
        return {
            window: tuple(pane.get(name) for name in output.values)
            for window, pane in panes.items()
        }


def _table(database: Path, output: Output) -> Panes:
    name = output.name.replace("-", "_")
    query = (
        f"SELECT {output.key}, CAST(unixepoch(window_start) AS INTEGER) * 1000, "
        f"{', '.join(output.values)} FROM {name}"
    )
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return {(row[0], row[1]): row[2:] for row in connection.execute(query)}
    except sqlite3.Error:
        return {}  # not made yet, or not yet of the present program


def _compared(found: Panes, wanted: Panes, until_ms: int, output: Output) -> list[str]:
    size_ms = output.minutes * 60_000
    ended = {
        at: values for at, values in found.items() if at[0] != MARK and at[1] + size_ms <= until_ms
    }
    lines = [
        f"{at} is {ended.get(at)}, not {values}"
        for at, values in wanted.items()
        if ended.get(at) != values
    ]
    lines += [f"{at} should not be there" for at in ended.keys() - wanted.keys()]
    return [*lines[:5], f"{len(lines)} in all"] if lines else []


def _create(admin: AdminClient) -> None:
    topic = NewTopic(RAW, PARTITIONS, 1, config={"retention.ms": "-1"})
    for future in admin.create_topics([topic]).values():
        future.result()
