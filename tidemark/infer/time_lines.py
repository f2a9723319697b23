"""Event times in lines of text, as expressions; and times that lack a year or a date.

docs/time.md, "Anything else".
"""

from collections.abc import Iterator

import polars as pl

from tidemark.infer.event_time import TimePlace
from tidemark.infer.observed import Path
from tidemark.infer.schema import quoted
from tidemark.infer.time_expressions import expression_place

_SHARE = 0.8
_SOME = 0.5
_DAY, _CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_FIX = rf"(?:^|[|^\x01])52=([0-9]{{8}}-{_CLOCK}(?:[.][0-9]+)?)"
_LINES = (
    (rf"({_DAY}T{_CLOCK}(?:[.][0-9]+)?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}}))", "%+"),
    (rf"({_DAY}[T]{_CLOCK}(?:[.][0-9]+)?[+-][0-9]{{4}})", "%Y-%m-%dT%H:%M:%S%.f%z"),
    (rf"({_DAY} {_CLOCK}(?:[.][0-9]+)?(?:Z| ?[+-][0-9:]{{4,6}}))", "%Y-%m-%d %H:%M:%S%.f%#z"),
    (rf"([0-9]{{2}}/[A-Z][a-z]{{2}}/[0-9]{{4}}:{_CLOCK} [+-][0-9]{{4}})", "%d/%b/%Y:%H:%M:%S %z"),
    (rf"([0-9]{{2}}/[A-Z][a-z]{{2}}/[0-9]{{4}}:{_CLOCK}(?:[.][0-9]+)?)", "%d/%b/%Y:%H:%M:%S%.f"),
    (_FIX, "%Y%m%d-%H:%M:%S%.f"),
    (rf"({_DAY} {_CLOCK},[0-9]{{3}})", "%Y-%m-%d %H:%M:%S,%3f"),
    (rf"({_DAY} {_CLOCK}(?:[.][0-9]+)?)", "%Y-%m-%d %H:%M:%S%.f"),
    (rf"({_DAY}T{_CLOCK}(?:[.][0-9]+)?)", "%Y-%m-%dT%H:%M:%S%.f"),
    (rf"([0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}} {_CLOCK})", "%Y/%m/%d %H:%M:%S"),
    (
        rf"([A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK}(?:[.][0-9]+)? [0-9]{{4}})",
        "%a %b %d %H:%M:%S%.f %Y",
    ),
)
"""Patterns of times in lines, with their formats; the first one that is in most lines is chosen."""

_SECONDS = r"\b(1[0-9]{9}[.][0-9]{3})\b"
"""Pattern of seconds since 1970 with ms, as Squid and the audit system of Linux write them."""

_POINTS = ((19, " // 1_000_000"), (16, " // 1_000"), (13, ""), (10, " * 1_000"))
"""Precisions of InfluxDB's lines: digits of the time at the end, and what makes ms of it."""

_NMEA_CLOCK, _NMEA_DATE = (
    r"^[$]..RMC,([0-9]{6})",
    r"^[$]..RMC,(?:[^,]*,){8}([0-9]{6})",
)
"""Patterns of the time and of the date in sentences RMC of NMEA 0183."""

_UNDATED = (
    (rf"^[IWEF][0-9]{{4}} {_CLOCK}(?:[.][0-9]+)?", "no year"),
    (rf"^(?:<[0-9]+>)?[A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK}", "no year"),
    (r"^[$]..(?:GGA|GLL|GNS|GST|RMC),[0-9]{0,6}", "no date (only RMC has one)"),
    (rf"^{_CLOCK}(?:[.,][0-9]+)?\b", "no date"),
)
"""Patterns of times that are no instants, and what they lack: klog, syslog, NMEA, clocks."""


def line_places(lines: pl.Series, path: Path) -> Iterator[TimePlace]:
    """Yield the places of times in lines of text, of the column that is the last of ``path``."""
    column = f"col({quoted(path[-1])})"
    for pattern, form in _LINES:
        found = lines.str.extract(pattern)
        if found.null_count() <= (1 - _SHARE) * len(lines):
            times = found.str.to_datetime(form, time_unit="ms", time_zone="UTC", strict=False)
            expression = (
                column,
                f'.str.extract(r"{pattern}")',
                f'.str.to_datetime("{form}", time_zone="UTC")',
            )
            is_known = form.endswith(("z", "+")) or pattern == _FIX
            yield expression_place(
                path, times.dt.epoch("ms"), expression, None if is_known else "UTC"
            )
            return
    yield from _numbers(lines, path, column)
    yield from _sentences(lines, path, column)


def _numbers(lines: pl.Series, path: Path, column: str) -> Iterator[TimePlace]:
    """Yield the place of numbers since 1970."""
    found = lines.str.extract(_SECONDS)
    if found.null_count() <= (1 - _SHARE) * len(lines):
        parts = (
            column,
            f'.str.extract(r"{_SECONDS}")',
            '.str.replace(".", "", literal=True)',
            ".cast(pl.Int64)",
        )
        ms = found.str.replace(".", "", literal=True).cast(pl.Int64)
        yield expression_place(path, ms, parts)
        return
    for digits, scale in _POINTS:
        pattern = rf"^[^ ].* [^ =]+=.* (1[0-9]{{{digits - 1}}})$"
        found = lines.str.extract(pattern).cast(pl.Int64)
        if found.null_count() <= (1 - _SHARE) * len(lines):
            ms = found * 10 ** (13 - digits) if digits < 13 else found // 10 ** (digits - 13)
            parts = (column, f'.str.extract(r"{pattern}")', ".cast(pl.Int64)", scale)
            yield expression_place(path, ms, parts)
            return


def _sentences(lines: pl.Series, path: Path, column: str) -> Iterator[TimePlace]:
    """Yield the place of times in sentences of NMEA, if at least half of them have a date."""
    clock, date = lines.str.extract(_NMEA_CLOCK), lines.str.extract(_NMEA_DATE)
    if date.null_count() > (1 - _SOME) * len(lines):
        return
    form = "%d%m%y %H%M%S"
    times = (date + " " + clock).str.to_datetime(form, time_unit="ms", strict=False)
    expression = (
        "(",
        f'{column}.str.extract(r"{_NMEA_DATE}")',
        ' + " "',
        f' + {column}.str.extract(r"{_NMEA_CLOCK}")',
        f').str.to_datetime("{form}", time_zone="UTC")',
    )
    yield expression_place(path, times.dt.epoch("ms"), expression)


def undated(lines: pl.Series) -> str | None:
    """Return why the times that begin most lines are no event times; None without such times."""
    for pattern, lack in _UNDATED:
        found = lines.str.extract(f"({pattern})").drop_nulls()
        if len(found) >= _SHARE * len(lines) > 0:
            return f"Times such as {found[0]!r} have {lack}: infer guesses none."
    return None
