"""Records that wrap a list of the real ones: the way to the list.

Such are CloudTrail's ``Records``, GeoJSON's ``features``, OpenTelemetry's ``resourceSpans`` and the
answers of many APIs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.infer.event_time import time_places
from tidemark.infer.observed import Observed, Path, value_at
from tidemark.infer.schema import Column, column_path

_SHARE = 0.8
_ITEMS = 5_000
_DEEPEST = 4


@dataclass(frozen=True)
class Wrapped:
    """A list inside records whose items have a time: the way to it, and the number of its items."""

    path: Path
    number: int


def wrapped(
    records: Sequence[Any], columns: tuple[Column, ...], observed: Observed
) -> Wrapped | None:
    """Return the list with the most items that have a time; None if no list has one."""
    found = _wrapped(records, columns, observed, (), 1)
    return max(found, key=lambda each: each.number, default=None)


def _wrapped(
    level: Sequence[Any],
    columns: tuple[Column, ...],
    observed: Observed,
    at: Path,
    depth: int,
) -> Iterator[Wrapped]:
    for path, column, inside in _lists(columns, observed, ()):
        lists = [found for each in level if isinstance(found := value_at(each, path), list)]
        items = [item for each in lists for item in each if isinstance(item, dict)][:_ITEMS]
        members = column.type.members
        paths = [each for each, _ in inside.scalars() if column_path(members, each) is not None]
        if any(each.share >= _SHARE for each in time_places(items, members, paths)):
            yield Wrapped((*at, *path), len(items))
        elif items and depth < _DEEPEST:
            yield from _wrapped(items, members, inside, (*at, *path), depth + 1)


def _lists(
    columns: tuple[Column, ...], observed: Observed, at: Path
) -> Iterator[tuple[Path, Column, Observed]]:
    """Yield the places of lists of objects that are in no other list."""
    for each in columns:
        seen = observed.members[each.member]
        if each.type.json or not each.type.members:
            continue
        if each.type.before == "list[" and seen.items is not None:
            yield (*at, each.member), each, seen.items
        elif not each.type.before:
            yield from _lists(each.type.members, seen, (*at, each.member))
