"""What became of each record of a partition, told twice and compared: by the judge and by ingest.

Per record a code of its fate and the sum of its rows' hashes: a million records are a few arrays.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tests.fuzz.judge import Fate
from tidemark.core.time.segment import OFFSET, SOURCE, Segment

BLANK, FILTERED, PASSED, DEAD = range(4)
KINDS = ("blank", "filtered", "passed", "dead")
_MASK = 2**61 - 1


@dataclass
class Account:
    """Fates of the records of one source; ``rows`` sums the hashes of what a record passed on."""

    kinds: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    stages: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, fate: Fate, times: bool) -> None:
        """Note what the judge says of the next record."""
        if fate.kind == "dead":
            self.stages[len(self.kinds)] = (fate.stage, fate.reason)
        self.kinds.append(KINDS.index(fate.kind))
        self.rows.append(sum(row_hash(row, times) for row in fate.rows) & _MASK)

    def counts(self) -> dict[str, int]:
        """Count the records by fate."""
        return dict(zip(KINDS, np.bincount(self.kinds, minlength=4).tolist(), strict=True))


@dataclass
class Books:
    """What ingest wrote of every source: rows in segments, and letters.

    ``clocked``: how the names of topics end whose rows are dated by a clock nobody holds.
    """

    clocked: tuple[str, ...] = ()
    rows: dict[str, dict[int, int]] = field(default_factory=dict)
    letters: dict[str, dict[int, tuple[str, str]]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    _next: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def segment(self, log: str, partition: int, segment: Segment) -> None:
        """Note the rows of a segment; its ranges must go on where the last ones ended."""
        for mark in segment.sources:
            at = (log, partition, mark.source)
            if self._next.setdefault(at, mark.first_offset) != mark.first_offset:
                self.faults.append(f"{at}: a gap before offset {mark.first_offset}")
            self._next[at] = mark.next_offset
        for frame in segment.streams.values():
            for source, rows in _by_source(frame):
                name = segment.sources[source].source
                self._add(name, rows)

    def _add(self, source: str, rows: pl.DataFrame) -> None:
        known = self.rows.setdefault(source, {})
        times = not source.rpartition("/")[0].endswith(self.clocked)
        for offset, row in zip(rows[OFFSET], rows.drop(SOURCE, OFFSET).iter_rows(), strict=True):
            known[offset] = (known.get(offset, 0) + row_hash(row, times)) & _MASK

    def letter(self, source: str, offset: int, stage: str, reason: str) -> None:
        """Note a dead letter; a record has one at most."""
        letters = self.letters.setdefault(source, {})
        if offset in letters:
            self.faults.append(f"{source}: two letters of offset {offset}")
        if not reason or not stage:
            self.faults.append(f"{source}: a letter of offset {offset} without reason or stage")
        letters[offset] = (stage, reason)


def _by_source(frame: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    for (source,), rows in frame.partition_by(SOURCE, as_dict=True).items():
        yield int(source), rows


def row_hash(row: tuple[Any, ...], times: bool) -> int:
    """Hash (sub_row, event time, watermark, values...); ``times`` unless they are a clock's."""
    sub_row, at_ms, watermark_ms, *values = row
    when = (at_ms, watermark_ms) if times else ()
    return hash((sub_row, *when, *map(_frozen, values)))


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return tuple(map(_frozen, value.values())) if isinstance(value, dict) else value


def differences(source: str, account: Account, books: Books) -> Iterator[tuple[int, str]]:
    """Yield the offset and the fault of each record that became what it should not."""
    rows, letters = books.rows.get(source, {}), books.letters.get(source, {})
    for offset, kind in enumerate(account.kinds):
        got = (offset in rows, offset in letters)
        if got != (kind == PASSED, kind == DEAD):
            should = f"{KINDS[kind]} {account.stages.get(offset, '')}"
            yield offset, f"should be {should}, rows and letter: {got} {letters.get(offset, '')}"
        elif kind == PASSED and rows[offset] != account.rows[offset]:
            yield offset, "has other rows than it should"
        elif kind == DEAD and not _fits(account.stages[offset], letters[offset]):
            yield offset, f"died of {letters[offset]}, should of {account.stages[offset]}"
    for offset in sorted({*rows, *letters}):
        if offset >= len(account.kinds):
            yield offset, "was never sent"


def _fits(wanted: tuple[str, str], got: tuple[str, str]) -> bool:
    return all(text.startswith(begin) for begin, text in zip(wanted, got, strict=True))
