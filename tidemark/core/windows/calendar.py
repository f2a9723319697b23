"""Calendar windows: the days, weeks or months of a time zone, with clock changes.

See docs/semantics.md, "Calendar".  A period begins at the first instant at which local time has
reached its first midnight.  So periods touch and never overlap at any clock change:

* a day with a clock change has 23 or 25 hours;
* if the clocks skip midnight, the day begins at the skip; if they repeat it, at the first of both;
* a date that a zone left out is not a window.

The zone's rules are those of the time zone database that polars is built with.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.rows.options import require_zone
from tidemark.core.windows.window import Times
from tidemark.errors import PipelineError

PERIODS = ("day", "week", "month")

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

Days = npt.NDArray[np.int64]
"""Dates as days since 1970-01-01."""

_DAY_MS = 86_400_000

# Watermarks may be far outside the range of event times; polars' calendar has this range.
_FIRST_MS, _LAST_MS = -100_000 * 366 * _DAY_MS, 100_000 * 366 * _DAY_MS

# A local date differs from the UTC date by at most this many days, also in a zone that crossed the
# date line.
_APART = 2

_EPOCH_WEEKDAY = WEEKDAYS.index("thursday")


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows that are the periods of ``zone``: PERIODS; weeks begin on ``week_start``."""

    period: str
    zone: str
    week_start: str = "monday"

    def __post_init__(self) -> None:
        """Raise PipelineError if period, zone or week_start is unknown."""
        if self.period not in PERIODS:
            raise PipelineError(f"calendar: {self.period!r} is not one of {', '.join(PERIODS)}")
        if self.week_start not in WEEKDAYS:
            raise PipelineError(
                f"calendar: week_start {self.week_start!r} is not one of {', '.join(WEEKDAYS)}"
            )
        require_zone(self.zone, "calendar")

    def __repr__(self) -> str:
        start = f', week_start="{self.week_start}"' if self.week_start != "monday" else ""
        return f'calendar("{self.period}", "{self.zone}"{start})'

    @property
    def label(self) -> str:
        """The windows in plans, without quotes."""
        start = f", from {self.week_start}" if self.period == "week" else ""
        return f"calendar({self.period}, {self.zone}{start})"

    @property
    def longest_ms(self) -> int:
        """The maximum length of a window; a zone that crosses the date line may repeat a day."""
        return {"day": 2, "week": 8, "month": 32}[self.period] * _DAY_MS

    def slice_start(self, at_ms: Times) -> Times:
        """Return the start of the window that contains each time."""
        return self._bounds(at_ms)[0]

    def end_until(self, at_ms: Times) -> Times:
        """Return the last window end at or before each time: windows touch."""
        return self._bounds(at_ms)[0]

    def last_end(self, at_ms: Times) -> Times:
        """Return the end of the window that contains each time."""
        return self._bounds(at_ms)[1]

    def ends_of(self, slice_start_ms: Times) -> Times:
        """Return the end of each slice's window: one column, as a window is one time slice."""
        return self.last_end(slice_start_ms)[:, None]

    def start_of(self, end_ms: Times) -> Times:
        """Return the starts of windows by their ends."""
        return self.slice_start(end_ms - 1)

    def first_slice(self, end_ms: Times) -> Times:
        """Return the starts of the first time slices of windows: their starts."""
        return self.start_of(end_ms)

    def _bounds(self, at_ms: Times) -> tuple[Times, Times]:
        """Return the start and end of the window that contains each time.

        The rules of the zone are evaluated only for the dates around the times.
        """
        at_ms = np.clip(at_ms, _FIRST_MS, _LAST_MS)
        near = np.arange(-_APART, _APART + 1)
        days = np.unique(np.unique(at_ms // _DAY_MS)[:, None] + near)
        first = self._first_day(days)
        dates = np.unique(np.concatenate((first, self._next_first_day(first))))
        starts = np.unique(_midnights(dates, self.zone))
        after = np.searchsorted(starts, at_ms, "right")
        return starts[after - 1], starts[after]

    def _first_day(self, days: Days) -> Days:
        """Return the first day of the period of each date."""
        if self.period == "week":
            return days - (days + _EPOCH_WEEKDAY - WEEKDAYS.index(self.week_start)) % 7
        if self.period == "month":
            return _days_of(days.astype("datetime64[D]").astype("datetime64[M]"))
        return days

    def _next_first_day(self, first: Days) -> Days:
        """Return the first day of the next period."""
        if self.period == "month":
            months = first.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
            return _days_of((months + 1).astype("datetime64[M]"))
        return first + (7 if self.period == "week" else 1)


def _days_of(months: npt.NDArray[np.datetime64]) -> Days:
    return months.astype("datetime64[D]").astype(np.int64)


def _local(at_ms: Times, zone: str) -> Times:
    """Return local times, as ms since 1970-01-01 local time."""
    instants = pl.Series(at_ms).cast(pl.Datetime("ms", "UTC"))
    local = instants.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return local.cast(pl.Int64).to_numpy()


def _midnights(days: Days, zone: str) -> Times:
    """Return the first instant at which local time has reached each date."""
    local = days * _DAY_MS
    found = (
        pl.Series(local)
        .cast(pl.Datetime("ms"))
        .dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        .cast(pl.Int64)
    )
    instants: Times = found.fill_null(0).to_numpy().copy()
    skipped = found.is_null().to_numpy()
    if skipped.any():
        instants[skipped] = _skips(local[skipped], zone)
    return instants


def _skips(local: Times, zone: str) -> Times:
    """Return the instants at which the clocks skipped local times, found by bisection."""
    before, after = local - _APART * _DAY_MS, local + _APART * _DAY_MS
    while (after - before > 1).any():
        middle = (before + after) // 2
        reached = _local(middle, zone) >= local
        before, after = np.where(reached, before, middle), np.where(reached, middle, after)
    return after
