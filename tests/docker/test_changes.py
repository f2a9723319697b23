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
from itertools import chain
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

    def deploy(self, program: Program, *, new_topics: bool = False) -> None:
        """Stop the services, replace the module, and start the services."""
        self._replace(program)
        self.stack(*(("up", "--detach") if new_topics else ("start", *DEPLOYED)))

    def deploy_refused(self, program: Program, service: str, *options: str) -> None:
        """Deploy a program that a service refuses, by the command that the service names.

        ``options``: those that the command must begin with.
        """
        self._replace(program)
        self.stack("start", service)
        words = shlex.split(self._await_advice(service))
        self.stack("stop", service)
        assert words[:3] == ["tidemark", "reset", "shop"]
        assert words[3 : 3 + len(options)] == list(options)
        self.stack("run", "--rm", "--no-deps", "-T", service, *words, "--yes")
        self.stack("start", *DEPLOYED)

    def _replace(self, program: Program) -> None:
        self.stack("stop", *DEPLOYED)
        self.write(program)
        self._since = datetime.now(UTC).isoformat()

    def _await_advice(self, service: str) -> str:
        def advice() -> list[str]:
            return ADVICE.findall(self._said(service))

        wait_until(lambda: bool(advice()), f"the advice of {service}")
        return advice()[-1]

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
    sales, big = Output("sales"), Output("big-sales", minutes=2)
    cities = Output("by-city", key=("city",))
    refunds = Output("refunds", topic=REFUNDS)

    deployments.write(Program((sales,)))
    deployments.stack.up()  # also sessions, which has no operators
    deployments.shop.open(SALES)
    deployments.shop.begin()
    deployments.await_agreement()  # so windows have closed before the first change

    deployments.deploy(Program((sales, big)))  # 1: a new output with the same key
    deployments.await_agreement()

    deployments.deploy(Program((cities, sales, big)))  # 2: a new output with a new key
    deployments.stack.crash("ingest")
    deployments.await_agreement()

    deployments.deploy(program := Program((sales, big, cities), columns=("tip",)))  # 3: a column
    deployments.await_agreement()

    sales = replace(sales, sums=("amount", "tip"))  # 4: a new aggregate, of the new column
    program = replace(program, outputs=(sales, big, cities))
    deployments.deploy_refused(program, "ingest", "--operator", "sales")
    deployments.await_agreement()

    big = replace(big, minutes=3)  # 5: another window
    program = replace(program, outputs=(sales, big, cities))
    deployments.deploy_refused(program, "windowing", "--operator", "big-sales")
    deployments.stack.crash("windowing")
    deployments.await_agreement()

    cities = replace(cities, key=("city", "user"))  # 6: another key
    program = replace(program, outputs=(sales, big, cities))
    deployments.deploy_refused(program, "windowing", "--operator", "by-city")
    deployments.await_agreement()

    big = replace(big, least=10)  # 7: another filter
    program = replace(program, outputs=(sales, big, cities))
    deployments.deploy_refused(program, "ingest", "--operator", "big-sales")
    deployments.await_agreement()

    sales = replace(sales, name="turnover")  # 8: another name; and a source, to remove it
    program = replace(program, outputs=(sales, big, cities, refunds))
    deployments.deploy(program, new_topics=True)
    deployments.shop.open(REFUNDS)
    time.sleep(3)
    deployments.await_agreement()

    deployments.deploy(program := replace(program, outputs=(sales, big, cities)))  # 9: it is gone
    deployments.await_agreement()

    program = replace(program, delay_s=30)  # 10: another watermark
    deployments.deploy_refused(program, "ingest", "--bootstrap-server", "kafka:9092")
    deployments.await_agreement()
