"""Calls of a user's code: what it returned, or what it raised."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemark.core.rows.expression import error_text
from tidemark.core.rows.probe import FAILURES


@dataclass(frozen=True, slots=True)
class Failure:
    """What a user's code raised.  ``reason``: what was called, the exception's type and text."""

    reason: str


def attempt(what: str, call: Callable[[], Any]) -> Any | Failure:
    """Call a user's code; return what it returns, or what it raised.

    Raises:
        MemoryError: the process has no memory left, which says nothing about the rows.
    """
    try:
        return call()
    except MemoryError:
        raise
    except FAILURES as error:  # whatever a user's function may raise
        return Failure(f"{what}: {error_text(error)}")
