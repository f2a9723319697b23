"""Durations as users write them: ``"500ms"``, ``"2s"``, ``"1m"``, ``"1h"``, ``"1d"``.

A duration has a unit, so that no number of seconds is read as milliseconds.
"""

import re
from datetime import timedelta

from tidemark.errors import PipelineError

Duration = str | int | timedelta
"""A duration: text with a unit, or a ``timedelta``; of the numbers only 0, which needs no unit."""

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"(-?[0-9]{1,18})(ms|s|m|h|d)")
_LONGEST_MS = 2**53  # 285,000 years: the sum of a few durations and an event time fits int64


def duration_ms(value: Duration, what: str) -> int:
    """Return a duration in milliseconds; ``what`` names it in the error.

    Raises:
        PipelineError: ``value`` is not a duration of whole milliseconds, or is too long.
    """
    ms = _parsed_ms(value)
    if ms is None and _is_number(value):
        raise PipelineError(
            f"{what}: {value!r} has no unit; write '{value}ms' for milliseconds or '{value}s' for "
            "seconds"
        )
    if ms is None:
        raise PipelineError(
            f"{what}: {value!r} is not a duration; write text such as '500ms', '2s', '1m', '1h' or "
            "'1d', or a timedelta of whole milliseconds"
        )
    if abs(ms) > _LONGEST_MS:
        raise PipelineError(f"{what}: {value!r} is longer than {_LONGEST_MS} ms")
    return ms


def positive_ms(value: Duration, what: str) -> int:
    """Return a duration in milliseconds; ``what`` names it in the error.

    Raises:
        PipelineError: as of ``duration_ms``, or ``value`` is not longer than 0.
    """
    ms = duration_ms(value, what)
    if ms <= 0:
        raise PipelineError(f"{what}: {value!r} is not longer than 0")
    return ms


def is_duration(text: str) -> bool:
    """Return whether text is a duration."""
    return _parsed_ms(text) is not None


def _parsed_ms(value: object) -> int | None:
    if _is_number(value):
        return 0 if value == 0 else None
    if isinstance(value, timedelta):
        ms, rest = divmod(value, timedelta(milliseconds=1))
        return None if rest else ms
    if isinstance(value, str) and (found := _TEXT.fullmatch(value.strip())):
        return int(found[1]) * _UNIT_MS[found[2]]
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def duration_text(ms: int) -> str:
    """Return the shortest text that ``duration_ms`` parses as ``ms``."""
    for unit, unit_ms in reversed(_UNIT_MS.items()):
        if ms % unit_ms == 0 and ms != 0:
            return f"{ms // unit_ms}{unit}"
    return "0s"


def span_text(ms: int) -> str:
    """Return a computed time of at least 0 ms in all its units, for readers: ``"11m 2s"``."""
    parts = []
    for unit, unit_ms in reversed(_UNIT_MS.items()):
        count, ms = divmod(ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"
