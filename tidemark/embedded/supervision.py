"""Starts, supervises and stops processes together, by supervisord.

The control socket is in a temporary folder with a short path: the path of a socket has at most 107
bytes, less than the paths of many project folders.  The working folder has settings and logs.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import SupervisorTransport

from tidemark.embedded.processes import die_with_parent, last_words
from tidemark.errors import ConfigurationError

_START_S = 120
_STOP_S = 60
_POLL_S = 0.05

_SUPERVISOR = """\
[unix_http_server]
file={socket}

[supervisord]
nodaemon=true
logfile=/dev/null
logfile_maxbytes=0
pidfile={folder}/supervisor.pid

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""

# A process that has run for two seconds is restarted at once.  One that ended earlier is restarted
# after a pause that grows by a second each time.  After status 2 a restart changes nothing.
_PROGRAM = """
[program:{name}]
command={command}
environment={environment}
directory={directory}
priority={priority}
autostart=false
autorestart=unexpected
exitcodes=2
startsecs=2
startretries=10
stopwaitsecs=20
stopasgroup=true
killasgroup=true
redirect_stderr=true
stdout_logfile={folder}/{name}.log
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=1
"""


@dataclass(frozen=True)
class Program:
    """A process to supervise; lower priorities start first and stop last."""

    name: str
    command: Sequence[str]
    priority: int
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessStatus:
    """The state of a process; `state` has supervisord's words."""

    name: str
    state: str
    pid: int
    log: Path


class Supervision:
    """Controls the programs of one supervisord, through its socket."""

    def __init__(self, socket: Path, pid: int) -> None:
        self.socket = socket
        self.pid = pid

    @classmethod
    def begin(
        cls,
        folder: Path,
        programs: Sequence[Program],
        environment: Mapping[str, str],
        dies_with_us: bool,
    ) -> "Supervision":
        """Start a supervisord that knows the programs; no program is started yet.

        Raises:
            ConfigurationError: it did not start; shows the end of its log.
        """
        socket = Path(tempfile.mkdtemp(prefix="tidemark-")) / "control"
        settings = folder / "supervisor.conf"
        settings.write_text(_settings(folder, socket, programs))
        log = folder / "supervisor.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "supervisor.supervisord", "-c", str(settings)],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_parent if dies_with_us else None,
            )
        supervision = cls(socket, process.pid)
        deadline = time.monotonic() + _START_S
        while not supervision.alive():
            if process.poll() is not None or time.monotonic() > deadline:
                supervision.end()
                raise ConfigurationError(f"supervisord did not start: {last_words(log)}")
            time.sleep(_POLL_S)
        process.returncode = 0  # no warning if it outlives this process
        return supervision

    def alive(self) -> bool:
        """Return whether supervisord answers on its socket."""
        try:
            return bool(self._call("getPID") == self.pid)
        except (OSError, Fault):  # not running, or ending
            return False

    def start(self, *names: str) -> None:
        """Start programs together and wait until each has run for two seconds.

        Raises:
            ConfigurationError: one did not start; shows the end of its log.
        """
        self.launch(*names)
        deadline = time.monotonic() + _START_S
        while waiting := [each for each in map(self._status, names) if each.state != "RUNNING"]:
            first = waiting[0]
            if first.state in {"BACKOFF", "FATAL"} or time.monotonic() > deadline:
                raise ConfigurationError(f"{first.name} did not start: {last_words(first.log)}")
            time.sleep(_POLL_S)

    def launch(self, *names: str) -> None:
        """Start programs that do not run; do not wait for them."""
        states = {each.name: each.state for each in self.status()}
        for name in names:
            if states[name] == "BACKOFF":  # it waits for its next try; start it now
                self._call("stopProcess", name)
            if states[name] not in ("STARTING", "RUNNING"):
                self._call("startProcess", name, False)

    def stop(self, *names: str) -> None:
        """Stop programs and wait until they have ended; those that do not run stay as they are."""
        states = {each.name: each.state for each in self.status()}
        running = [name for name in names if states[name] in ("STARTING", "RUNNING", "BACKOFF")]
        for name in running:
            self._call("stopProcess", name, False)
        deadline = time.monotonic() + _STOP_S
        while any(self._status(name).state in ("STOPPING", "RUNNING") for name in running):
            if time.monotonic() > deadline:
                raise ConfigurationError(f"still running after {_STOP_S} s: {', '.join(running)}")
            time.sleep(_POLL_S)

    def status(self) -> list[ProcessStatus]:
        """Return the state of each program."""
        known = cast(list[dict[str, Any]], self._call("getAllProcessInfo"))
        return [
            ProcessStatus(
                each["name"], each["statename"], each["pid"], Path(each["stdout_logfile"])
            )
            for each in known
        ]

    def runs(self, name: str) -> bool:
        """Return whether a program runs now."""
        return self._status(name).state == "RUNNING"

    def log(self, name: str) -> Path:
        """Return the log file of a program."""
        return self._status(name).log

    def end(self) -> None:
        """Stop all programs, highest priority number first, then supervisord."""
        if self.alive():
            self._call("shutdown")
            self._wait_for_end()
        shutil.rmtree(self.socket.parent, ignore_errors=True)

    def _call(self, method: str, *arguments: str | bool) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        with ServerProxy("http://localhost", transport=transport) as server:
            return getattr(server.supervisor, method)(*arguments)

    def _status(self, name: str) -> ProcessStatus:
        return next(status for status in self.status() if status.name == name)

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + _STOP_S
        while _exists(self.pid):
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(_POLL_S)


def _settings(folder: Path, socket: Path, programs: Sequence[Program]) -> str:
    sections = [
        _PROGRAM.format(
            name=program.name,
            command=_escaped(shlex.join(program.command)),
            environment=",".join(f'{k}="{_escaped(v)}"' for k, v in program.environment.items()),
            directory=_escaped(str(Path.cwd())),
            priority=program.priority,
            folder=_escaped(str(folder)),
        )
        for program in programs
    ]
    return _SUPERVISOR.format(socket=socket, folder=_escaped(str(folder))) + "".join(sections)


def _escaped(value: str) -> str:
    return value.replace("%", "%%")


def _exists(pid: int) -> bool:
    try:
        ended, _ = os.waitpid(pid, os.WNOHANG)  # it may be a child of this process
    except ChildProcessError:
        ended = 0
    if ended:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
