"""The record of a folder's stack: `up` writes it, all other commands read it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tidemark.embedded.supervision import Supervision

_FILE = "stack.json"


@dataclass(frozen=True)
class Stack:
    """A stack: its broker's address, its pipeline, and the socket and pid of its supervisor.

    ``health``: the HTTP port of each service.  ``results``: the SQLite file of the sink; empty if
    TIDEMARK_SINK names another sink.
    """

    address: str
    pipeline: str
    socket: str
    pid: int
    health: Mapping[str, int] = field(default_factory=dict)
    results: str = ""

    def supervision(self) -> Supervision:
        """Return the control of its processes."""
        return Supervision(Path(self.socket), self.pid)


def state_folder() -> Path:
    """Return the folder of the stack: $TIDEMARK_STATE, by default var/ in the current folder."""
    return Path(os.environ.get("TIDEMARK_STATE") or "var")


def running_stack(folder: Path) -> Stack | None:
    """Return the stack of a folder, None if it is not running."""
    stack = last_stack(folder)
    return stack if stack is not None and stack.supervision().alive() else None


def last_stack(folder: Path) -> Stack | None:
    """Return the stack that was last started in a folder, None without such a stack."""
    try:
        return Stack(**json.loads((folder / _FILE).read_text()))
    except FileNotFoundError:
        return None


def save_stack(folder: Path, stack: Stack) -> None:
    """Write the record of a stack."""
    (folder / _FILE).write_text(json.dumps(asdict(stack), indent=1) + "\n")
