"""Event times that no unit reads, as expressions: dates and clocks apart, lists, lines of text.

docs/time.md, "Anything else".
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
import polars as pl

from tidemark.infer.event_time import TimePlace, values_as
from tidemark.infer.observed import INT, TEXT, Path, value_at
from tidemark.infer.schema import Column, column_path, quoted, type_at
from tidemark.infer.time_texts import reading_of

_SHARE = 0.8
_NET = r"^/Date\(([0-9]{9,14})"
_CLOCKS = (
    (r"^[0-9]{1,2}:[0-9]{2}:[0-9]{2}$", "%H:%M:%S"),
    (r"^[0-9]{1,2}:[0-9]{2}:[0-9]{2}[.][0-9]+$", "%H:%M:%S%.f"),
    (r"^[0-9]{1,2}:[0-9]{2}$", "%H:%M"),
    (r"^[0-9]{1,2}:[0-9]{2}:[0-9]{2} [AP]M$", "%I:%M:%S %p"),
    (r"^[0-9]{1,2}:[0-9]{2} [AP]M$", "%I:%M %p"),
)
_DAY, _CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_LINES = (
    (rf"({_DAY}T{_CLOCK}(?:[.][0-9]+)?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}}))", "%+"),
    (rf"({_DAY}[T]{_CLOCK}(?:[.][0-9]+)?[+-][0-9]{{4}})", "%Y-%m-%dT%H:%M:%S%.f%z"),
    (rf"({_DAY} {_CLOCK}(?:[.][0-9]+)?(?:Z| ?[+-][0-9:]{{4,6}}))", "%Y-%m-%d %H:%M:%S%.f%#z"),
    (rf"([0-9]{{2}}/[A-Z][a-z]{{2}}/[0-9]{{4}}:{_CLOCK} [+-][0-9]{{4}})", "%d/%b/%Y:%H:%M:%S %z"),
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


def expression_places(
    records: Sequence[object], columns: tuple[Column, ...], paths: Iterable[Path]
) -> Iterator[TimePlace]:
    """Yield places of times that need an expression."""
    texts = [path for path in paths if type_at(columns, path).text == TEXT]
    groups: dict[Path, list[tuple[Path, pl.Series]]] = defaultdict(list)
    for path in texts:
        column = values_as([value_at(each, path) for each in records], pl.String(), is_lenient=True)
        groups[path[:-1]].append((path, column))
        yield from _net_dates(columns, path, column)
    for siblings in groups.values():
        yield from _dates_and_clocks(columns, siblings)
    for each in columns:
        if each.type.before == "list[" and each.type.text == INT and not each.type.json:
            yield from _lists(records, each)


def line_places(lines: pl.Series, path: Path) -> Iterator[TimePlace]:
    """Yield the place of a time in lines of text, of the column that is the last of ``path``."""
    for pattern, form in _LINES:
        found = lines.str.extract(pattern)
        if found.null_count() <= (1 - _SHARE) * len(lines):
            times = found.str.to_datetime(form, time_unit="ms", time_zone="UTC", strict=False)
            expression = (
                f"col({quoted(path[-1])})",
                f'.str.extract(r"{pattern}")',
                f'.str.to_datetime("{form}", time_zone="UTC")',
            )
            has_offset = form.endswith(("z", "+"))
            yield _made(path, times.dt.epoch("ms"), expression, None if has_offset else "UTC")
            return


def _made(
    path: Path, ms: pl.Series, expression: tuple[str, ...], zone: str | None = None
) -> TimePlace:
    known = ms.is_not_null().to_numpy()
    values = ms.fill_null(0).cast(pl.Int64).to_numpy()
    score = 6.0 + 4.0 * float(known.mean())
    return TimePlace(path, (), zone, values, np.asarray(known), score, expression=expression)


def _net_dates(columns: tuple[Column, ...], path: Path, column: pl.Series) -> Iterator[TimePlace]:
    found = column.str.extract(_NET)
    if found.null_count() <= (1 - _SHARE) * len(column):
        expression = (_of(columns, path), f'.str.extract(r"{_NET}")', ".cast(pl.Int64)")
        yield _made(path, found.cast(pl.Int64), expression)


def _dates_and_clocks(
    columns: tuple[Column, ...], siblings: Sequence[tuple[Path, pl.Series]]
) -> Iterator[TimePlace]:
    """Yield the first date and the first clock of the same object."""
    dates = (
        (path, column, reading)
        for path, column in siblings
        if (reading := reading_of(column.drop_nulls())) is not None and reading.is_date
    )
    date = next(dates, None)
    clocks = (
        (path, column, form)
        for path, column in siblings
        for pattern, form in _CLOCKS
        if column.str.contains(pattern).sum() >= _SHARE * len(column)
    )
    clock = next(clocks, None)
    if date is None or clock is None or len(date[2].units) > 1:
        return
    form = f"{date[2].units[0]} {clock[2]}"
    expression = (
        f'({_of(columns, date[0])} + " " + {_of(columns, clock[0])})',
        f'.str.to_datetime("{form}", time_zone="UTC")',
    )
    joined = date[1] + pl.Series([" "]) + clock[1]
    times = joined.str.to_datetime(form, time_unit="ms", time_zone="UTC", strict=False)
    yield _made(date[0], times.dt.epoch("ms"), expression, "UTC")


def _lists(records: Sequence[object], column: Column) -> Iterator[TimePlace]:
    """Yield a place of lists of year, month, day, hour, minute and perhaps second."""
    values = [value_at(each, (column.member,)) for each in records]
    ms = pl.Series([_list_ms(value) for value in values], dtype=pl.Int64())
    if ms.null_count() <= (1 - _SHARE) * len(ms):
        items = f"col({quoted(column.name)}).list.get(n, null_on_oob=True).fill_null(0)"
        expression = ("pl.datetime(", f"*({items} for n in range(6)),", ' time_zone="UTC")')
        yield _made((column.member,), ms, expression, "UTC")


def _list_ms(value: object) -> int | None:
    if not isinstance(value, list) or not 5 <= len(value) <= 7:
        return None
    year, month, day, hour, minute, second = [*value, 0][:6]
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return int(moment.timestamp() * 1000) if 1990 <= year <= 2100 else None


def _of(columns: tuple[Column, ...], path: Path) -> str:
    """Return the expression of the column of a place."""
    name = column_path(columns, path)
    assert name is not None
    return f"{'field' if '.' in name else 'col'}({quoted(name)})"
