"""A broker, the services and the page of a pipeline; a saved change computes all again."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from confluent_kafka.admin import AdminClient
from rich.console import Console

from tidemark.commands.dev.watched import WatchedFiles
from tidemark.commands.peek import PassingRows
from tidemark.embedded import stack
from tidemark.embedded.state import Stack, running_stack, state_folder
from tidemark.errors import ConfigurationError, InfrastructureError, TidemarkError
from tidemark.language.load import load_pipeline
from tidemark.language.mistake import mistake
from tidemark.local.view import named_inputs, open_inputs, source_formats
from tidemark.plan.physical import Plan
from tidemark.plan.topics import raw_topics
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.producer import Failures, flush, send
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.client.topics import ensure_raw
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.fresh_start import Scope, partitions_of
from tidemark.runtime.keyed.reset import Reset

MONITOR = "monitor"

RAW_PARTITIONS = 1
"""One partition, so that no silent one holds back the clock."""

_FLUSH_S = 10.0


def run(pipeline: str, inputs: Sequence[str], port: int | None) -> None:
    """Run a pipeline until Ctrl-C: print what passes, and compute all again after a change.

    ``inputs``: files to send, as of `try`.  ``port``: of the broker.

    Raises:
        TidemarkError: the pipeline, an input or the start of the broker fails.
    """
    console = Console(highlight=False, soft_wrap=True, markup=False)
    watched = WatchedFiles(pipeline)
    session = Session(pipeline, state_folder(), console)
    try:
        session.start(port)
        session.send(inputs)
        while True:
            session.show()
            if watched.have_changed():
                session.reload(watched)
    finally:
        session.close()


class Session:
    """The stack of one pipeline, and what passes through it."""

    def __init__(self, pipeline: str, folder: Path, console: Console) -> None:
        """``folder``: of the stack's state and data.

        Raises:
            ConfigurationError: a stack runs there already.
        """
        if running_stack(folder) is not None:
            raise ConfigurationError(
                f"{folder} runs a stack already: stop it first (Ctrl-C there, or make down)"
            )
        self._pipeline, self._folder, self._console = pipeline, folder, console
        self._extra = (MONITOR,) if find_spec("faust") is not None else ()
        self._port: int | None = None
        self._passing: PassingRows | None = None

    def start(self, port: int | None = None) -> None:
        """Start the broker and the services, and say where they are, or why one does not run."""
        down: Sequence[str] = ()
        with self._console.status(f"starting Kafka and the services of {self._pipeline} ..."):
            try:
                stack.up(
                    self._folder,
                    self._pipeline,
                    port,
                    raw_partitions=RAW_PARTITIONS,
                    extra=self._extra,
                    dies_with_us=True,
                )
            except stack.ServicesDownError as error:
                down = error.lines
        running = self._running()
        self._port = int(running.address.rpartition(":")[2])
        self._console.print(f"Kafka    {running.address}")
        if running.results:
            self._console.print(f"results  {os.path.relpath(running.results)}, a SQLite file")
        self._console.print(_page(running))
        for line in down:
            self._console.print(line)
        if self._passing is None:
            self._follow(*self._reached())

    def send(self, inputs: Sequence[str]) -> None:
        """Send the records of files to raw topics that are empty.

        Raises:
            ConfigurationError: a file cannot be read, or its topic is unclear.
        """
        config, admin, plan = self._reached()
        formats = source_formats(plan)
        paths = named_inputs(inputs, list(formats))
        ends = offsets(admin, partitions_of(admin, paths), LATEST)
        full = {at.topic for at, end in ends.items() if end}
        failures = Failures()
        producer = clients.idempotent_producer(config, failures)
        with open_inputs(paths, formats) as records:
            for topic in [each for each in paths if each not in full]:
                # One partition keeps the order of the file, as `tidemark try` does.
                values = list(records[topic])
                send(producer, topic, 0, [None] * len(values), values)
        flush(producer, failures, _FLUSH_S, self._console.print)
        for topic in sorted(full):
            self._console.print(f"{topic} has records already: nothing was sent")

    def show(self) -> None:
        """Print what has passed since the last time; wait a moment if nothing has."""
        assert self._passing is not None
        for line in self._passing.lines():
            self._console.print(line)

    def reload(self, watched: WatchedFiles) -> None:
        """Compute all results again with the changed pipeline; report a mistake in it."""
        try:
            watched.load_again()
            config, admin, plan = self._reached()
        except TidemarkError as error:
            self._console.print(f"not loaded: {mistake(error)}")
            return
        self._console.print("the pipeline has changed: all results are computed again")
        self.stop_showing()
        stack.stop(self._folder)
        ensure_raw(admin, raw_topics(plan, RAW_PARTITIONS), config.replication_factor)
        # Earlier results stay in their topics; sinks take only results since the reset.
        Reset(config, admin, Scope(plan)).run()
        self._follow(config, admin, plan)
        if {*plan.services()} - self._running().health.keys():  # the supervision does not know them
            stack.down(self._folder)
        self.start(self._port)

    def _follow(self, config: Config, admin: AdminClient, plan: Plan) -> None:
        """Show what passes from now on."""
        self._passing = PassingRows(config, admin, placed_plan(config, admin, plan))

    def stop_showing(self) -> None:
        """End the reading of what passes."""
        if self._passing is not None:
            self._passing.close()
            self._passing = None

    def close(self) -> None:
        """End all processes; the data stays."""
        self.stop_showing()
        with self._console.status("stopping ..."):
            stack.down(self._folder)

    def _reached(self) -> tuple[Config, AdminClient, Plan]:
        """Return settings and a client of the broker, and the plan as its file is now."""
        config = Config.from_env().model_copy(update={"bootstrap_servers": self._running().address})
        return config, clients.admin(config), load_pipeline(self._pipeline).plan()

    def _running(self) -> Stack:
        running = running_stack(self._folder)
        if running is None:
            raise InfrastructureError(f"the stack in {self._folder} has ended; start it again")
        return running


def _page(running: Stack) -> str:
    port = running.health.get(MONITOR)
    if port is None:
        return "page     none: pip install 'tidemark-streams[monitor]'"
    return f"page     http://127.0.0.1:{port}/"
