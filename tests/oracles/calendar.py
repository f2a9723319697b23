"""Calendar windows as slow Python: the standard library's zones, quarter hour by quarter hour."""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
DAY = timedelta(days=1)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Periods(NamedTuple):
    """Periods of a zone's calendar and how they are published."""

    period: str
    zone: str
    week_start: str
    allowed_lateness_ms: int
    on_final: bool

    def ends(self, at_ms: int) -> list[int]:
        """Return the end of the window that a time is in."""
        day = datetime.fromtimestamp(at_ms // 1000, UTC).date() - 3 * DAY
        while True:
            day += DAY
            if self.begins(day) and first_instant(day, self.zone) > at_ms:
                return [first_instant(day, self.zone)]

    def start(self, end_ms: int) -> int:
        """Return the start of the window that ends then."""
        day = datetime.fromtimestamp(end_ms // 1000, UTC).date() + 3 * DAY
        while not (self.begins(day) and first_instant(day, self.zone) < end_ms):
            day -= DAY
        return first_instant(day, self.zone)

    def begins(self, day: date) -> bool:
        if self.period == "week":
            return day.weekday() == WEEKDAYS.index(self.week_start)
        return self.period == "day" or day.day == 1


@cache
def first_instant(day: date, zone: str) -> int:
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) - 2 * DAY
    while at.astimezone(ZoneInfo(zone)).date() < day:
        at += QUARTER
    return (at - EPOCH) // timedelta(milliseconds=1)
