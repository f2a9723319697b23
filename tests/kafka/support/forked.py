"""Services as forks of a process that has imported what they all need.

To start Python and import polars, pydantic and the rest takes a second of CPU, more than most tests
here need of their services otherwise.  After the fork all is as after ``tidemark run NAME``:
environment, arguments, the service's entry point, its pipeline, a log in place of stderr.  The
command itself is what local stacks and containers start.

Nothing is computed before the fork, so polars has no pool of threads yet that a fork would lack.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tests.patience import PATIENCE_S
from tidemark.embedded.processes import die_with_parent
from tidemark.runtime.service.command import MODULE

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(
    [
        MODULE,
        "tidemark.runtime.ingest.task",
        "tidemark.runtime.keyed.task",
        "tidemark.sinks.task",
    ]
)


class Process(Protocol):
    """A process of a service: as much of ``subprocess.Popen`` as tests use."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Forked:
    """A ``Process`` that is a fork."""

    def __init__(
        self,
        service: str,
        env: Mapping[str, str],
        log: Path,
        before: Callable[[], None] = die_with_parent,
    ) -> None:
        """Start it; it ends with this process, at the latest.

        ``before``: a function of a module, called in the new process.
        """
        self._service = service
        log.touch()
        self._process = _server.Process(
            target=_run, args=(service, dict(env), log, before), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = PATIENCE_S) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(self._service, timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def stands_still(pid: int) -> bool:
    """Whether a process was stopped by a signal."""
    return "State:\tT" in Path(f"/proc/{pid}/status").read_text()


def _run(service: str, env: Mapping[str, str], log: Path, before: Callable[[], None]) -> None:
    """Become a service, in a process that was just forked."""
    before()
    os.environ.clear()
    os.environ.update(env)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    sys.argv = ["-m", service]
    sys.orig_argv = [sys.executable, "-m", MODULE, service]
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
