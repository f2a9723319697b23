"""Services and commands as forks of a process that has imported what they all need.

Starting Python and importing polars, pydantic and the rest takes one to two seconds of CPU.  Most
tests need less than that from services and commands otherwise.  After the fork all is as after
``tidemark run NAME`` or ``tidemark COMMAND``: a process with its own environment, arguments, entry
point, folder and files in place of stdin, stdout and stderr.  Local stacks, containers and
``test_plan_prints_services_and_topics`` start the commands themselves.

Nothing is computed before the fork, so polars has no pool of threads yet that a fork would lack.
"""

import multiprocessing
import os
import runpy
import signal
import site
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

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
        "tidemark.commands.cli",
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


class Files(NamedTuple):
    """The files in place of the standard ones; None: those of the tests."""

    err: Path
    out: Path | None = None
    given: Path | None = None


class Forked:
    """A ``Process`` that is a fork and runs as ``python -m MODULE ARGUMENTS``."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        files: Files,
        before: Callable[[], None] = die_with_parent,
        folder: Path | None = None,
    ) -> None:
        """Start it; it ends with this process, at the latest.

        ``words``: the module and its arguments.  ``before``: a function of a module, called in the
        new process.  ``folder``: where it runs, by default here.
        """
        self._words = words
        files.err.touch()
        self._process = _server.Process(
            target=_run,
            args=(words, dict(env), files, before, folder or Path.cwd()),
            daemon=True,
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
            raise subprocess.TimeoutExpired(self._words, timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def tidemark(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: bytes = b"",
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command line with these arguments to its end."""
    return run(("tidemark", *arguments), os.environ if env is None else env, folder, stdin)


def run(
    words: Sequence[str], env: Mapping[str, str], folder: Path | None = None, stdin: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Run a module with its arguments to its end."""
    with TemporaryDirectory() as kept:
        files = Files(*(Path(kept) / name for name in ("err", "out", "in")))
        assert files.out is not None
        assert files.given is not None
        files.given.write_bytes(stdin)
        process = Forked(words, env, files, folder=folder)
        try:
            status = process.wait()
        finally:
            process.kill()
        out, err = files.out.read_bytes(), files.err.read_bytes()
    return subprocess.CompletedProcess(words, status, out, err)


def as_text(done: "subprocess.CompletedProcess[bytes]") -> "subprocess.CompletedProcess[str]":
    """Return how a command has ended, with what it has printed as text."""
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def stands_still(pid: int) -> bool:
    """Whether a process was stopped by a signal."""
    return "State:\tT" in Path(f"/proc/{pid}/status").read_text()


def _run(
    words: Sequence[str],
    env: Mapping[str, str],
    files: Files,
    before: Callable[[], None],
    folder: Path,
) -> None:
    """Become ``python -m`` with these words, in a process that was just forked."""
    before()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for path in env.get("PYTHONPATH", "").split(os.pathsep):
        site.addsitedir(path or str(folder))
    _replace(2, files.err)
    if files.out is not None:
        _replace(1, files.out)
    if files.given is not None:
        with files.given.open("rb") as file:
            os.dup2(file.fileno(), 0)
        sys.stdin = os.fdopen(0)  # that of a fork of multiprocessing is empty
    module, *arguments = words
    sys.argv = ["-m", *arguments]
    sys.orig_argv = [sys.executable, "-m", module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _replace(number: int, path: Path) -> None:
    with path.open("ab") as file:
        os.dup2(file.fileno(), number)
