"""Event times in ms, read from texts and floats in another way than the package does."""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo, available_timezones

_FRACTION = r"(?:[.,]([0-9]{1,12}))?"
_EXTENDED = re.compile(
    rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[Tt ]([0-9]{{2}}:[0-9]{{2}})(?::([0-9]{{2}}){_FRACTION})?"
    r"([^0-9.,:].*)?"
)
_BASIC = re.compile(rf"([0-9]{{8}})[Tt]([0-9]{{4}})(?:([0-9]{{2}}){_FRACTION})?([Zz]|[+-][0-9:]+)?")
_OFFSET = re.compile(r"([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?")
_BESIDE_OFFSET = re.compile(r"(?: [A-Z]{2,5})?(?:\[[^\[\]]*\])*$")


def text_ms(text: str | None, zone: str | None) -> int | None:
    """Return the instant that an ISO 8601 text names."""
    found = None if text is None else _EXTENDED.fullmatch(text) or _BASIC.fullmatch(text)
    if found is None:
        return None
    day, minute, second, fraction, rest = found.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{minute}{':' * (':' in minute)}{second or '00'}")
    except ValueError:
        return None
    ms = (local - datetime(1970, 1, 1)) // timedelta(milliseconds=1)  # noqa: DTZ001
    ms += int((fraction or "").ljust(3, "0")[:3])
    if not rest:
        return None if zone is None else _local_ms(local, ms, ZoneInfo(zone))
    return _with_rest(local, ms, rest)


def _with_rest(local: datetime, ms: int, rest: str) -> int | None:
    """Return the instant of a local time with an offset or a zone after it."""
    tail = rest.removeprefix(" ")
    offset = _OFFSET.match(tail)
    if offset is not None and _BESIDE_OFFSET.match(tail, offset.end()):
        _, sign, hours, minutes = offset.groups()
        if sign is None:
            return ms
        if int(hours) > 23 or int(minutes or 0) > 59:
            return None
        ahead_ms = (int(hours) * 60 + int(minutes or 0)) * 60_000
        return ms + ahead_ms if sign == "-" else ms - ahead_ms
    if rest.startswith("[") and rest.endswith("]"):
        tail = rest[1:-1]
    if tail.lower() in ("utc", "gmt", "ut", "z"):
        return ms
    if "/" in tail and tail in available_timezones():
        return _local_ms(local, ms, ZoneInfo(tail))
    return None


def _local_ms(local: datetime, ms: int, zone: ZoneInfo) -> int | None:
    """Return the one instant at which clocks of the zone show ``local``."""
    offsets = {local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
    instants = {local - offset for offset in offsets if offset is not None}
    if len(instants) != 1 or None in offsets:
        return None
    (offset,) = (each for each in offsets if each is not None)
    shown = (local - offset).replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    return ms - offset // timedelta(milliseconds=1) if shown == local else None


def float_ms(seconds: float | None) -> int | None:
    """Return seconds read to the microsecond, floored to ms."""
    return None if seconds is None else round(Fraction(seconds) * 10**6) // 1000
