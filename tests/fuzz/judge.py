"""What must become of each raw record, judged one by one with Python's own json: slow and plain.

It shares no code with ingest.  docs/semantics.md, "Raw records", "Event time" and "Watermarks" are
its only source; where the two differ, one of the three is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tests.fuzz.documents import (
    MAX_RECORD_BYTES,
    DeadError,
    Members,
    Values,
    conform,
    parsed,
    size_bytes,
)
from tests.fuzz.records import Raw

NEVER_MS = -(2**63)
YEARS_MS = (-62_135_596_800_000, 253_402_300_799_999)
WINDOW_MS = 3_600_000
"""The windows of the fuzzed pipelines: their bounds must be in the years, too."""


@dataclass(frozen=True)
class Fate:
    """What a record becomes: "passed" with rows, "filtered", "dead" at a stage, "blank"."""

    kind: str
    rows: Sequence[tuple[Any, ...]] = ()
    stage: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Rules:
    """A shape as the judge knows it.

    ``when`` and ``candidate`` give ms, or None for none; they and ``rows`` may raise DeadError.
    ``time_columns`` are all that the first two look at.  ``columns``: of the record.  ``read``:
    makes the columns ``names`` of an object, if they are not those of the record.  ``is_lenient``:
    NaN and Infinity are read as texts.
    """

    columns: Mapping[str, pl.DataType]
    time_columns: Sequence[str]
    when: Callable[[Values, Raw], int | None]
    rows: Callable[[Values, Raw, int], Sequence[tuple[Any, ...]]]
    candidate: Callable[[Values, Raw, int | None], int | None] | None = None
    delay_ms: int = 0
    min_ms: int = YEARS_MS[0]
    max_future_ms: int | None = None
    read: Callable[[Any, Sequence[str]], Values] | None = None
    names: Sequence[str] = ()
    is_lenient: bool = False

    @property
    def width(self) -> int:
        """Return the number of columns of a row as it is read."""
        return len(self.names or self.columns)

    def values(self, document: Any, names: Sequence[str]) -> Values:
        """Return the values of some columns of an object."""
        if self.read is not None:
            return self.read(document, names)
        return conform(document, {name: self.columns[name] for name in names})


@dataclass
class Judge:
    """The records of one partition in order; remembers the largest watermark candidate."""

    rules: Rules
    largest_ms: int = NEVER_MS
    offset: int = 0

    def judge(self, raw: Raw) -> Fate:
        """Return what becomes of the next record."""
        self.offset += 1
        if raw.value is None or not raw.value.removeprefix(b"\xef\xbb\xbf").strip():
            return Fate("blank")
        try:
            return self._row(raw, raw.value.removeprefix(b"\xef\xbb\xbf"))
        except DeadError as dead:
            return Fate("dead", stage=dead.stage, reason=dead.reason)

    def _row(self, raw: Raw, text: bytes) -> Fate:
        documents: Sequence[Any] = (Members(),)
        try:
            document = parsed(text, self.rules.is_lenient)
            several = isinstance(document, list) and not isinstance(document, Members)
            documents = _not_empty(document) if several else (document,)
            elements = [
                self._conformed(each, f"element {n}: " if several else "")
                for n, each in enumerate(documents)
            ]
        except DeadError:
            self._move(raw, documents)
            raise
        if 8 * len(elements) * self.rules.width > MAX_RECORD_BYTES:
            raise DeadError("parse", "rows of")
        before_ms = self.largest_ms
        times_ms = self._timed(raw, elements)
        watermark_ms = NEVER_MS if before_ms == NEVER_MS else before_ms - self.rules.delay_ms
        rows = [
            (at_ms, row)
            for at_ms, made in zip(times_ms, self._made(raw, elements), strict=True)
            for row in made
        ]
        if not rows:
            return Fate("filtered")
        if sum(size_bytes(row) for _, row in rows) > MAX_RECORD_BYTES:
            raise DeadError("log", "rows of")
        return Fate("passed", [(n, at, watermark_ms, *row) for n, (at, row) in enumerate(rows)])

    def _made(self, raw: Raw, elements: Sequence[Values]) -> list[Sequence[tuple[Any, ...]]]:
        """Return the rows of each element; the record dies of the first operator that fails."""
        rows, faults = [], []
        for values in elements:
            try:
                rows.append(self.rules.rows(values, raw, self.offset - 1))
            except DeadError as dead:
                faults.append(dead)
        if faults:
            same = all(each.args == faults[0].args for each in faults)
            raise faults[0] if same else DeadError("")
        return rows

    def _conformed(self, document: Any, lead: str) -> Values:
        try:
            return self.rules.values(document, self.rules.names or list(self.rules.columns))
        except DeadError as dead:
            raise DeadError(dead.stage, lead + dead.reason) from None

    def _move(self, raw: Raw, documents: Sequence[Any]) -> None:
        """Let a record move time that is dead only in a column which time does not look at."""
        times = self.rules.time_columns
        try:
            self._timed(raw, [self.rules.values(d, times) if times else {} for d in documents])
        except DeadError:
            return

    def _timed(self, raw: Raw, elements: Sequence[Values]) -> list[int]:
        """Return the event times of a record's elements, if it moves time, after it has."""
        rules = self.rules
        found_ms = [rules.when(values, raw) for values in elements]
        first_ms, last_ms = YEARS_MS[0] + WINDOW_MS, YEARS_MS[1] - WINDOW_MS
        times_ms = [
            None if at_ms is None or not max(first_ms, rules.min_ms) <= at_ms <= last_ms else at_ms
            for at_ms in found_ms
        ]
        candidates_ms = [
            at_ms if rules.candidate is None else self._candidate(values, raw, at_ms)
            for values, at_ms in zip(elements, times_ms, strict=True)
        ]
        for n, at_ms in enumerate(times_ms):
            if at_ms is None:
                raise DeadError("event time", f"element {n}: event time" if n else "")
        known_ms = [each for each in times_ms if each is not None]
        moved_ms = [each for each in candidates_ms if each is not None]
        if self._is_future(raw, max([*known_ms, *moved_ms])):
            raise DeadError("event time", "future timestamp")
        self.largest_ms = max([self.largest_ms, *moved_ms])
        return known_ms

    def _candidate(self, values: Values, raw: Raw, at_ms: int | None) -> int | None:
        rules = self.rules
        assert rules.candidate is not None
        candidate_ms = rules.candidate(values, raw, at_ms)
        if candidate_ms is None or max(YEARS_MS[0], rules.min_ms) <= candidate_ms <= YEARS_MS[1]:
            return candidate_ms
        raise DeadError("watermark", "watermark: ")

    def _is_future(self, raw: Raw, latest_ms: int) -> bool:
        ahead_ms = self.rules.max_future_ms
        if ahead_ms is None:
            return False
        if raw.timestamp_ms >= 0:
            return latest_ms > raw.timestamp_ms + ahead_ms
        return self.largest_ms != NEVER_MS and latest_ms > self.largest_ms + ahead_ms


def _not_empty(documents: Sequence[Any]) -> Sequence[Any]:
    if not documents:
        raise DeadError("parse", "expected an object, got an empty array")
    return documents
