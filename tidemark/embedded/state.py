"""What is known of a folder's stack: the file that `up` writes and every other command reads."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tidemark.embedded.supervision import Supervision

_FILE = "stack.json"


@dataclass(frozen=True)
class Stack:
    """A stack: the address of its broker, its pipeline, and how to reach its supervisor.

    ``health``: the port at which each service tells its health.  ``results``: the SQLite file that
    its sink writes; empty where TIDEMARK_SINK says another place.
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
    """Return the folder of the stack that commands mean: $TIDEMARK_STATE, else var/ here."""
    return Path(os.environ.get("TIDEMARK_STATE") or "var")


def running_stack(folder: Path) -> Stack | None:
    """Return the stack of this folder if it is up."""
    stack = last_stack(folder)
    return stack if stack is not None and stack.supervision().alive() else None


def last_stack(folder: Path) -> Stack | None:
    """Return what was last started in this folder, up or not."""
    try:
        return Stack(**json.loads((folder / _FILE).read_text()))
    except FileNotFoundError:
        return None


def save_stack(folder: Path, stack: Stack) -> None:
    """Write it for the commands to come."""
    (folder / _FILE).write_text(json.dumps(asdict(stack), indent=1) + "\n")
