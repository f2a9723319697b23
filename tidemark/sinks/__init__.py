"""Sinks: deliver results from their topics to other systems; a user can implement one.

May import: runtime and everything below.
Start with: sink.py (the protocol), then task.py (the service) and table.py (what is delivered).
"""

from tidemark.sinks.sink import (
    Batch,
    Move,
    OvertakenError,
    Position,
    RefusedError,
    Reload,
    Sink,
    TablesStoppedError,
    UnavailableError,
)
from tidemark.sinks.table import Table

__all__ = [
    "Batch",
    "Move",
    "OvertakenError",
    "Position",
    "RefusedError",
    "Reload",
    "Sink",
    "Table",
    "TablesStoppedError",
    "UnavailableError",
]
