"""Units of event time: how a column is read, as numbers since 1970 or as dates and times in text.

A unit is the name of a unit of numbers, the name of a form of text, or a pattern with directives.
``auto`` stands for a set of units in which no text has two readings.  See docs/time.md.
"""

import re
from collections.abc import Sequence

from tidemark.core.time.time_pattern import OFFSET, ZONE, TimePattern, time_pattern
from tidemark.errors import PipelineError

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""How many of each unit of numbers make a second."""

NUMBER_UNITS = tuple(PER_SECOND)
"""Units of numbers since 1970."""

EPOCH = "epoch"
"""The unit of numbers, also in text, that are from 2000 to 2100 in one of NUMBER_UNITS."""

AUTO = "auto"
"""The unit that stands for EPOCH, all named forms of text and UNAMBIGUOUS."""

DAYS = "days"
"""The unit of dates as numbers of days since 1970-01-01; not a unit of event time."""

_DATE = "(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
_BASIC_DATE = "(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})"
_FRACTION = "(?:[.,](?P<fraction>[0-9]{1,12}))?"
_SECOND = f"(?P<second>[0-9]{{2}}){_FRACTION}"
_HOUR, _MINUTE = "(?P<hour>[0-9]{2})", "(?P<minute>[0-9]{2})"
_ISO = f"^{_DATE}[Tt ]{_HOUR}:{_MINUTE}(?::{_SECOND})?"
_BASIC = f"^{_BASIC_DATE}[Tt]{_HOUR}{_MINUTE}(?:{_SECOND})?"
_AFTER_OFFSET = r"(?: [A-Z]{2,5})?(?:\[[^\[\]]*\])*"
_SOME_ZONE = f"(?: (?:{OFFSET}|{ZONE}))?"
_COMMENT = r"(?: \([^()]*\))?$"

_ISO_8601 = (
    TimePattern(f"{_ISO}{OFFSET}?$"),
    TimePattern(f"{_ISO} ?(?:{OFFSET}{_AFTER_OFFSET}|{ZONE})$"),
    TimePattern(rf"{_ISO}\[{ZONE}\]$"),
    TimePattern(f"{_BASIC}{OFFSET}?$"),
)

_RFC_2822 = (
    "%a, %d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M:%S",
    "%a, %d %b %Y %H:%M",
    "%d %b %Y %H:%M",
)

UNAMBIGUOUS = (
    "%d/%b/%Y:%H:%M:%S",
    "%Y/%m/%d %H:%M:%S%.f",
    "%a %b %d %H:%M:%S %Y",
    "%a %b %d %H:%M:%S %z %Y",
    "%a %b %d %H:%M:%S %Z %Y",
    "%a %b %d %Y %H:%M:%S GMT%z",
    "%d %b %Y %H:%M:%S%.f",
    "%d-%b-%Y %H:%M:%S%.f",
    "%b %d, %Y %I:%M:%S %p",
    "%b %d, %Y, %I:%M:%S %p",
    "%b %d, %Y %H:%M:%S",
)
"""Patterns of ``auto``: the year has four digits and comes first, or the month has a name."""


def _ending_in_zone(text: str) -> TimePattern:
    """Return a pattern whose texts may end in a zone, if it has no zone, and in a comment."""
    pattern = time_pattern(text)
    zone = "" if {"sign", "zone"} & {*pattern.parts} else _SOME_ZONE
    return TimePattern(f"{pattern.regex.removesuffix('$')}{zone}{_COMMENT}")


_FORMS = {
    "iso8601": _ISO_8601,
    "rfc2822": tuple(map(_ending_in_zone, _RFC_2822)),
}
_AUTO = (*_ISO_8601, *map(_ending_in_zone, (*_RFC_2822, *UNAMBIGUOUS)))

TEXT_UNITS = (*_FORMS, EPOCH, AUTO)
"""Units of text with a name."""

UNITS = (*NUMBER_UNITS, *TEXT_UNITS)
"""Units with a name."""


def text_patterns(unit: str) -> tuple[TimePattern, ...]:
    """Return the patterns of a unit of dates and times in text, in the order to try them.

    Raises:
        PipelineError: the unit is a pattern with a mistake.
    """
    if unit == AUTO:
        return _AUTO
    if unit == EPOCH:
        return ()
    return _FORMS[unit] if unit in _FORMS else (time_pattern(unit),)


def likely_first(patterns: Sequence[TimePattern], text: str) -> list[TimePattern]:
    """Return patterns with those first that ``text`` is in: its neighbours are often in the same.

    The order makes no difference to the times, because no text has two readings in the patterns.
    """
    return sorted(patterns, key=lambda pattern: re.match(pattern.regex, text) is None)


def is_text_unit(unit: str) -> bool:
    """Return whether a unit reads dates and times in text."""
    return unit in _FORMS or unit == AUTO or "%" in unit


def require_units(units: Sequence[object], what: str) -> None:
    """Raise PipelineError if ``units`` are not units that one column may have; ``what``: of."""
    if not units:
        raise PipelineError(f"{what}: no unit")
    for unit in units:
        if not isinstance(unit, str) or not (unit in UNITS or "%" in unit):
            raise PipelineError(
                f"{what}: unit {unit!r} is not one of {', '.join(UNITS)}, or a pattern such as "
                "'%d.%m.%Y %H:%M:%S'"
            )
        if "%" in unit:
            try:
                time_pattern(unit)
            except PipelineError as error:
                raise PipelineError(f"{what}: unit {error}") from None
    numbers = [unit for unit in units if unit in NUMBER_UNITS]
    if numbers and len(units) > 1:
        raise PipelineError(
            f"{what}: unit {numbers[0]!r} goes with no other; numbers in several units are of unit "
            f"{EPOCH!r}"
        )
