"""The services of a program as processes: deploys a program, follows the advice of a refusal."""

import os
import random
import re
import shlex
import time
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.changes.program import Program
from tests.forked import Files, Forked, Process, tidemark
from tests.patience import PATIENCE_S
from tidemark.runtime.service.command import MODULE

SERVICES = ("ingest", "windowing", "sink")
_ADVICE = re.compile(r"'(tidemark (?:reset|replay) [^']*)'")
_REFUSED = 2
ROOT = Path(__file__).parents[3]
_PLACEHOLDER = re.compile(r"\bPIPELINE\b")


class Deployment:
    """A pipeline's processes; each start of a service has a log of its own."""

    def __init__(self, broker: str, folder: Path) -> None:
        """``folder``: for modules, logs and the table."""
        self.folder = folder
        self.database = folder / "sink.db"
        self.advice: list[str] = []
        self._module = ""
        self._deployed = 0
        self._starts = 0
        self._processes: dict[str, Process] = {}
        self._logs: dict[str, Path] = {}
        self._env = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": broker,
            "KAFKA_SESSION_TIMEOUT_MS": "6000",
            "KAFKA_HEARTBEAT_INTERVAL_MS": "500",
            "TIDEMARK_TRANSACTION_TIMEOUT_MS": "10000",
            "TIDEMARK_SINK": f"sqlite:///{self.database}",
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            "POLARS_MAX_THREADS": "1",
        }

    def deploy(self, program: Program) -> None:
        """Replace the program, and start all services."""
        self.stop()
        self._deployed += 1
        self._module = f"program{self._deployed}"
        (self.folder / f"{self._module}.py").write_text(program.text())
        self.run("topics", self._module)
        self.start(SERVICES)

    def start(self, services: Iterable[str]) -> None:
        """Start services."""
        for service in services:
            self._starts += 1
            log = self.folder / f"{self._starts:03d}-{service}.log"
            env = {**self._env, "PIPELINE": self._module, "TIDEMARK_SLOT": "0"}
            self._processes[service] = Forked((MODULE, service), env, Files(log))
            self._logs[service] = log

    def run(self, *command: str) -> str:
        """Run a command of the product; return what it prints.

        Raises:
            AssertionError: it does not end with 0.
        """
        done = tidemark(*command, env=self._env)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, f"tidemark {shlex.join(command)}: {done.returncode}: {said}"
        return said

    def tend(self) -> None:
        """Start what has ended with status 1; follow the advice of a service that refuses."""
        for service, process in list(self._processes.items()):
            status = process.poll()
            said = self._logs[service].read_text()
            advice = _ADVICE.findall(said)
            if status is not None and status != _REFUSED:
                self.start([service])
            elif status == _REFUSED or advice:
                assert advice, f"{service} ended with 2: {said[-2000:]}"
                self._follow(advice[-1])
                return

    def _follow(self, advice: str) -> None:
        """Run the command that a service advises, with all services stopped."""
        self.advice.append(advice)
        self.stop()
        words = shlex.split(_PLACEHOLDER.sub(self._module, advice))[1:]
        self.run(*words, *(["--yes"] if words[0] == "reset" else []))
        self.start(SERVICES)

    def reset(self, options: Iterable[str]) -> None:
        """Reset the pipeline, one service or one operator."""
        self.stop()
        self.run("reset", self._module, *options, "--yes")
        self.start(SERVICES)

    def kill(self, draw: random.Random) -> str:
        """Kill a service, and start it again; return its name."""
        service = draw.choice(sorted(self._processes))
        self._processes[service].kill()
        self._processes[service].wait()
        self.start([service])
        return service

    def stop(self) -> None:
        """Stop all services."""
        for process in self._processes.values():
            process.terminate()
        deadline_s = time.monotonic() + PATIENCE_S
        for process in self._processes.values():
            process.wait(max(1.0, deadline_s - time.monotonic()))
        self._processes.clear()

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def words(self) -> str:
        """Return the ends of all present logs."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-1500:]}" for path in self._logs.values()
        )
