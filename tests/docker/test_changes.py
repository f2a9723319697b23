"""Changes deployed one after another to a pipeline in compose that runs: docs/operations.md.

Events come without pause.  After each change, the topics and the tables of all outputs are those of
a reference in plain Python.  Where a service refuses the change, the test runs the command that the
service names.
"""

import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, pairwise
from json import loads
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from psycopg.errors import UndefinedColumn, UndefinedTable

from tests.docker.support.compose import Compose
from tests.docker.support.shop import (
    REFUNDS,
    SALES,
    Expected,
    Late,
    Output,
    Panes,
    Program,
    Shop,
    differences,
    expected,
)
from tests.kafka.support.changes import present
from tests.kafka.support.stack import wait_until
from tests.patience import PATIENCE_S
from tidemark.project.new_project import new_project
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config

DEPLOYED = ("ingest", "windowing", "sink")
ADVICE = re.compile(r"'(tidemark reset [^']*)'")


class Deployments:
    """A project that `tidemark init` wrote, with the shop's pipeline."""

    def __init__(self, stack: Compose, folder: Path) -> None:
        self.stack, self._folder = stack, folder
        self._config = Config(bootstrap_servers=f"localhost:{stack.kafka_port}")
        self.shop = Shop(self._config.bootstrap_servers)
        self.program = Program(())
        self._since = ""

    def write(self, program: Program) -> None:
        """Replace the module of the pipeline."""
        self.program = program
        (self._folder / "shop.py").write_text(program.text())

    def deploy(self, program: Program) -> None:
        """Stop the services, replace the module, make new topics, and start the services."""
        self._replace(program)
        self.stack("up", "--detach")

    def deploy_refused(self, program: Program, service: str, *operators: str) -> None:
        """Deploy a program that a service refuses, by the commands that the service names.

        ``operators``: those that the commands start afresh, all of them where none are named.
        """
        self._replace(program)
        self.stack("start", service)

        def is_told() -> bool:
            found = self._advice(service)
            named = {name for words in found for name in _after("--operator", words)}
            return bool(found) and named == {*operators}

        wait_until(is_told, f"the advice of {service}")
        commands = self._advice(service)
        self.stack("stop", service)
        for words in commands:
            assert words[:3] == ["tidemark", "reset", "shop"]
            assert _after("--bootstrap-server", words) == ["kafka:9092"]
            self.stack("run", "--rm", "--no-deps", "-T", service, *words, "--yes")
        self.stack("start", *DEPLOYED)

    def _replace(self, program: Program) -> None:
        self.stack("stop", *DEPLOYED)
        self.write(program)
        self._since = datetime.now(UTC).isoformat()

    def _advice(self, service: str) -> list[list[str]]:
        """Return the commands that a service names, each once."""
        return [shlex.split(each) for each in dict.fromkeys(ADVICE.findall(self._said(service)))]

    def _said(self, service: str) -> str:
        return self.stack.log(service, "--since", self._since)

    def await_agreement(self) -> None:
        """Wait until topics and tables agree with the reference over all events so far."""
        wait_until(lambda: all(each.panes for each in self._wanted().values()), "closed windows")
        wanted = self._wanted()
        deadline_s = time.monotonic() + PATIENCE_S
        while lines := list(chain.from_iterable(map(self._wrong, wanted, wanted.values()))):
            said = "\n".join(self._said(service)[-1_000:] for service in DEPLOYED)
            assert time.monotonic() < deadline_s, "\n".join([*lines[:10], said])
            time.sleep(0.5)

    def _wanted(self) -> dict[Output, Expected]:
        return {
            each: expected(each, self.shop.events(each.topic), self.program.delay_s)
            for each in self.program.outputs
        }

    def _wrong(self, output: Output, wanted: Expected) -> Iterator[str]:
        for place, found in ("table", self._table), ("topic", self._topic):
            closed = {
                at: values
                for at, values in found(output).items()
                if at[-1] + output.minutes * 60_000 <= wanted.until_ms
            }
            for line in differences(wanted.panes, closed):
                yield f"{place} {output.name}: {line}"
        late = {at for at in self._late(output) if at[2] < wanted.ends[at[1]]}
        for at in sorted(late ^ wanted.late)[:5]:
            yield f"late rows of {output.name}: {at} is{'' if at in late else ' not'} in the table"

    def _table(self, output: Output) -> Panes:
        columns = ", ".join(f'"{name}"' for name in (*output.key, "window_start", *output.values))
        rows = self._rows(f"SELECT {columns} FROM {_table(output)}")
        keys = len(output.key)
        return {
            (*row[:keys], round(row[keys].timestamp() * 1_000)): tuple(row[keys + 1 :])
            for row in rows
        }

    def _topic(self, output: Output) -> Panes:
        values = present(self._config, self._admin, "shop", output.name).values()
        panes = map(loads, chain.from_iterable(values))
        return {
            (*(pane[name] for name in output.key), pane["start"]): tuple(
                pane[name] for name in output.values
            )
            for pane in panes
        }

    @cached_property
    def _admin(self) -> AdminClient:
        return clients.admin(self._config)

    def _late(self, output: Output) -> Late:
        rows = self._rows(f"SELECT raw_topic, raw_partition, raw_offset FROM {_table(output)}_late")
        return {(row[0], row[1], row[2]) for row in rows}

    def _rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a table; none while the sink has not made it for this program."""
        try:
            return self.stack.rows(statement)
        except (UndefinedTable, UndefinedColumn):
            return []


def _after(option: str, words: Sequence[str]) -> list[str]:
    """Return the values of an option of a command."""
    return [value for name, value in pairwise(words) if name == option]


def _table(output: Output) -> str:
    return output.name.replace("-", "_")


@pytest.fixture
def deployments(image, tmp_path) -> Iterator[Deployments]:
    folder = tmp_path / "shop"
    new_project(folder)
    file = str(folder / "docker-compose.yml")
    project = f"tidemark-changes-{os.getpid()}"
    with Compose(project, image, image, COMPOSE_FILE=file, PIPELINE="shop") as stack:
        made = Deployments(stack, folder)
        yield made
        made.shop.end()


def test_ten_changes_of_a_running_pipeline(deployments):
    """Changes share deployments, which take a minute each; the results show every change."""
    sales, big = Output("sales"), Output("big-sales", minutes=2)
    cities = Output("by-city", key=("city",))
    refunds = Output("refunds", topic=REFUNDS)

    deployments.write(Program((sales,)))
    deployments.stack.up()  # also sessions, which has no operators
    deployments.shop.open(SALES)
    deployments.shop.begin()
    deployments.await_agreement()  # so windows have closed before the first change

    # A new output with the same key, one with a new key, a column, and a source.
    program = Program((cities, sales, big, refunds), columns=("tip",))
    deployments.deploy(program)
    deployments.shop.open(REFUNDS)
    deployments.stack.crash("ingest")
    deployments.await_agreement()

    # A new aggregate, of the new column, and another filter.
    sales, big = replace(sales, sums=("amount", "tip")), replace(big, least=10)
    program = replace(program, outputs=(sales, big, cities, refunds))
    deployments.deploy_refused(program, "ingest", "sales", "big-sales")
    deployments.await_agreement()

    # Another window, another key, another name, and the source is gone.
    big, cities = replace(big, minutes=3), replace(cities, key=("city", "user"))
    program = replace(program, outputs=(replace(sales, name="turnover"), big, cities))
    deployments.deploy_refused(program, "windowing", "big-sales", "by-city")
    deployments.stack.crash("windowing")
    deployments.await_agreement()

    # Another watermark.
    program = replace(program, delay_s=30)
    deployments.deploy_refused(program, "ingest")
    deployments.await_agreement()
