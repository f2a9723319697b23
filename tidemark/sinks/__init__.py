"""Sinks: where results go from their topics, and what a user implements to write one."""

from tidemark.sinks.sink import (
    Batch,
    Move,
    OvertakenError,
    Position,
    RefusedError,
    Sink,
    UnavailableError,
)
from tidemark.sinks.table import Table

__all__ = [
    "Batch",
    "Move",
    "OvertakenError",
    "Position",
    "RefusedError",
    "Sink",
    "Table",
    "UnavailableError",
]
