"""The event time of observed records: which place, in which unit, and how far out of order."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.column_times import column_times
from tidemark.core.time.event_time import NO_ZONE, EventTimes, code
from tidemark.core.time.text_times import Times
from tidemark.core.time.time_units import AUTO, EPOCH, NUMBER_UNITS, UNAMBIGUOUS
from tidemark.infer.observed import BOOL, FLOAT, INT, TEXT, Observed, Path, value_at

_SHARE = 0.5
_HEAD = 500
_GROWS = 0.9
_NAMES = (
    re.compile(r"(event|occurred|log)_?(time|at|ts|timestamp|date)", re.IGNORECASE),
    re.compile(r"@?timestamp|time|ts|t|at|date_?time|when", re.IGNORECASE),
    re.compile(
        r"(tpep_)?(created|sent|measured|occurred|pickup|started?|order(ed)?|date)_?"
        r"(time|at|ts|on|date.*)?",
        re.IGNORECASE,
    ),
    re.compile(
        r".*(time|date|_at|_ts|_ms|timestamp).*|.*[a-z](At|On|Ts)|ts.*|modified|updated|published",
        re.IGNORECASE,
    ),
)
"""Names of times, the most likely ones first."""

_ID = re.compile(
    r"(.*_)?(id|key|number|code|phone|version)(_?str)?|.*[a-z](Id|ID|Key|Number|Code|Phone)"
)
_DIGITS = r"[0-9][^0-9]+[0-9]{2}|[0-9]{9}"  # every time has them, most texts do not
_LATER = re.compile(
    r".*(updated|modified|ingest|received|processed|expire|drop_?off|finish|complet).*"
    r"|(.*_)?end(_.*|ed.*)?|.*End.*"
)
_TEXT_UNITS = (
    "iso8601",
    "rfc2822",
    EPOCH,
    "%d/%b/%Y:%H:%M:%S %z",
    *UNAMBIGUOUS,
    AUTO,
    "%m/%d/%Y %I:%M:%S %p",
    "%d.%m.%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%Y%m%d%H%M%S",
)
"""Units to try on texts; the first one that reads most of them is chosen."""

_DELAYS_MS = tuple(
    unit * number
    for unit, numbers in (
        (1_000, (1, 2, 5, 10, 30)),
        (60_000, (1, 2, 5, 10, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 7, 30)),
    )
    for number in numbers
)
_SIZES_MS = (1_000, 10_000, 60_000, 300_000, 3_600_000, 86_400_000)
_WINDOWS = 50


@dataclass(frozen=True)
class TimePlace:
    """A place of the records that may be their event time.

    ``unit``, ``zone``: how it is read.  ``ms``: the times of the records, in order; ``known``: a
    mask of the records that have one.
    """

    path: Path
    unit: str
    zone: str | None
    ms: Times
    known: np.ndarray
    score: float

    @property
    def share(self) -> float:
        """The share of the records that have a time there."""
        return float(self.known.mean())


def time_places(
    records: Sequence[object], places: Iterable[tuple[Path, Observed]]
) -> list[TimePlace]:
    """Return the places that read as times in most records, the most likely one first."""
    found = (_place(records, path, seen) for path, seen in places)
    return sorted(filter(None, found), key=lambda place: -place.score)


def _place(records: Sequence[object], path: Path, seen: Observed) -> TimePlace | None:
    values = [value_at(record, path) for record in records]
    texts, numbers = seen.types[TEXT], seen.types[INT] + seen.types[FLOAT]
    if texts + numbers < _SHARE * len(records):
        return None
    # The types of columns: `infer.schema`.  Units of text read a lenient column of any type.
    if texts or seen.types[BOOL]:
        words = [str(value) if type(value) in (str, int, float) else None for value in values]
        return _text_place(path, pl.Series(words, dtype=pl.String()))
    found = [value if type(value) in (int, float) else None for value in values]
    dtype = pl.Float64() if seen.types[FLOAT] else pl.Int64()
    return _number_place(path, pl.Series(found, dtype=dtype, strict=False))


def _text_place(path: Path, column: pl.Series) -> TimePlace | None:
    """Return a place of texts, if one unit reads most of them."""
    head = column.drop_nulls().head(_HEAD)
    if head.str.contains(_DIGITS).sum() < _SHARE * len(head):
        return None
    for unit in _TEXT_UNITS:
        times = column_times(ColumnTime("", unit), head)
        zone = "UTC" if (times.reason == code(NO_ZONE)).mean() > _SHARE else None
        if zone is not None:
            times = column_times(ColumnTime("", unit, zone), head)
        if times.known.mean() > _SHARE:
            return _made(path, unit, zone, column_times(ColumnTime("", unit, zone), column))
    return None


def _number_place(path: Path, column: pl.Series) -> TimePlace | None:
    """Return a place of numbers, if they are from 2000 to 2100 in one unit."""
    times = column_times(ColumnTime("", EPOCH), column)
    if times.known.mean() < _SHARE:
        return None
    for unit in ("s",) if column.dtype.is_float() else NUMBER_UNITS:
        in_unit = column_times(ColumnTime("", unit), column)
        if (in_unit.known & (in_unit.ms == times.ms))[times.known].all():
            return _made(path, unit, None, in_unit)
    return _made(path, EPOCH, None, times)


def _made(path: Path, unit: str, zone: str | None, times: EventTimes) -> TimePlace | None:
    """Return a place with the times that a unit reads; None if it is not likely a time."""
    share = float(times.known.mean())
    if share < _SHARE:
        return None
    named = [bool(name.fullmatch(path[-1])) for name in _NAMES]
    score = 4.0 - named.index(True) if any(named) else 0.0
    ordered = _ordered(times.ms[times.known])
    if not score and unit in (EPOCH, *NUMBER_UNITS):
        # A number with another name may be anything; one that grows is likely a time.
        if _ID.fullmatch(path[-1]) or ordered < _GROWS:
            return None
        score = -2.0
    score -= 2.0 * bool(_LATER.fullmatch(path[-1])) + 0.5 * (len(path) - 1)
    score += 2.0 * ordered + 4.0 * share
    return TimePlace(path, unit, zone, times.ms, times.known, score)


def _ordered(ms: Times) -> float:
    """Return the share of times that are not before the one before them."""
    steps = np.diff(ms)
    return float((steps >= 0).mean()) if len(steps) else 0.0


@dataclass(frozen=True)
class Disorder:
    """How far records are behind the latest one before them in their partition.

    ``delay_ms``: a bound that holds for all but one of a thousand, rounded up.  ``beyond``: the
    number of records further behind.
    """

    delay_ms: int
    most_ms: int
    beyond: int


def disorder(place: TimePlace, partitions: Sequence[int]) -> Disorder:
    """Return the disorder of the records in each partition."""
    behind = [np.zeros(0, np.int64)]
    at = np.asarray(partitions)[place.known]
    ms = place.ms[place.known]
    for partition in np.unique(at):
        own = ms[at == partition]
        behind.append(np.maximum.accumulate(own) - own)
    lags = np.concatenate(behind)
    bound = float(np.quantile(lags, 0.999, method="higher")) if len(lags) else 0.0
    delay_ms = _rounded_up(bound, _DELAYS_MS)
    return Disorder(delay_ms, int(lags.max(initial=0)), int((lags > delay_ms).sum()))


def window_ms(place: TimePlace) -> int:
    """Return a size of windows that cuts the time of the records in some dozens."""
    ms = place.ms[place.known]
    return _rounded_up((int(ms.max()) - int(ms.min())) / _WINDOWS, _SIZES_MS)


def _rounded_up(ms: float, choices: Iterable[int]) -> int:
    listed = tuple(choices)
    return next((each for each in listed if each >= ms), listed[-1])
