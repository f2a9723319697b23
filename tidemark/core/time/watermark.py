"""Watermarks: the progress of event time in a raw partition, before each of its records.

Every kind is a running maximum of *candidates*.  Its state is one int: the largest candidate so
far, NEVER_MS before the first.

* bounded: the candidate of a record is its event time; the watermark is the largest less the delay;
* punctuated: only marked records have a candidate, their event time;
* from an expression: the candidate is the value of the expression; null is no candidate.

A record too far in the future is quarantined: it becomes no row and does not move time.  Its event
time is compared with its Kafka timestamp, which is recorded, so a replay decides the same.  Without
a timestamp it is compared with the partition's largest candidate.

See docs/semantics.md, "Watermarks".
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

import numpy as np
import polars as pl

from tidemark.core.time.duration import duration_ms, duration_text
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.time.text_times import Mask, Times
from tidemark.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Bounded:
    """Records of a raw partition are at most ``delay_ms`` of event time out of order."""

    delay_ms: int

    def __post_init__(self) -> None:
        if self.delay_ms < 0:
            raise PipelineError(f"watermark bounded({self.delay_ms}ms): the delay is negative")

    @property
    def written(self) -> str:
        """The watermark as a user writes it."""
        return f'bounded("{duration_text(self.delay_ms)}")'


@dataclass(frozen=True, slots=True, eq=False)
class Punctuated:
    """The watermark is the largest event time of the records for which ``when`` is true."""

    when: pl.Expr

    def __repr__(self) -> str:
        return f"Punctuated({self.when})"

    @property
    def written(self) -> str:
        """The watermark as a user writes it."""
        return f"punctuated(when={self.when})"


@dataclass(frozen=True, slots=True, eq=False)
class FromExpression:
    """The watermark is the largest value of an expression: Int64 ms, or a Datetime with a zone."""

    candidate: pl.Expr

    def __repr__(self) -> str:
        return f"FromExpression({self.candidate})"

    @property
    def written(self) -> str:
        """The watermark as a user writes it."""
        return f"from_expression({self.candidate})"


Watermark: TypeAlias = Bounded | Punctuated | FromExpression


def bounded(delay: str | int | timedelta) -> Bounded:
    """Assume that each raw partition is at most ``delay`` out of order: ``bounded("2s")``."""
    return Bounded(duration_ms(delay, "watermark bounded()"))


def monotonic() -> Bounded:
    """Assume that each raw partition is in order of event time."""
    return Bounded(0)


def punctuated(when: pl.Expr) -> Punctuated:
    """Move time only at marked records, to their event time: ``punctuated(when=col("end"))``.

    ``when``: a Boolean of one record, true if no earlier record follows it; null is not true.
    """
    return Punctuated(when)


def from_expression(candidate: pl.Expr) -> FromExpression:
    """Take the watermark from the records themselves: ``from_expression(col("complete_to"))``.

    ``candidate``: of one record, Int64 ms or a Datetime with a zone; null is no candidate.  The
    watermark is the largest candidate so far, so it never goes back.
    """
    return FromExpression(candidate)


def delay_ms(watermark: Watermark) -> int:
    """Return the delay of the watermark behind the largest candidate."""
    return watermark.delay_ms if isinstance(watermark, Bounded) else 0


def watermark_of(largest_ms: int, delay_ms: int) -> int:
    """Return the watermark after a largest candidate; NEVER_MS stays NEVER_MS."""
    return NEVER_MS if largest_ms == NEVER_MS else largest_ms - delay_ms


def largest_of(watermark_ms: int, delay_ms: int) -> int:
    """Return the largest candidate behind a watermark: the inverse of ``watermark_of``."""
    return NEVER_MS if watermark_ms == NEVER_MS else watermark_ms + delay_ms


def watermarks_before(
    candidates: Times, counts: Mask, largest_ms: int, delay_ms: int
) -> tuple[Times, int]:
    """Return the watermark before each record, and the largest candidate after all records.

    ``counts``: a mask of the records that have a candidate.  ``largest_ms``: the largest candidate
    before these records.
    """
    largest = running_largest(candidates, counts, largest_ms)
    earlier = largest[:-1]
    return np.where(earlier == NEVER_MS, NEVER_MS, earlier - delay_ms), int(largest[-1])


def running_largest(candidates: Times, counts: Mask, largest_ms: int) -> Times:
    """Return the largest candidate before each record and after the last: one item more."""
    steps = np.empty(len(candidates) + 1, np.int64)
    steps[0] = largest_ms
    steps[1:] = np.where(counts, candidates, NEVER_MS)
    return np.maximum.accumulate(steps)


@dataclass(frozen=True, slots=True)
class QuarantineInput:
    """Records as columns, as the quarantine needs them.

    ``known``: a mask of records with an event time in ``times``.  ``counts``: a mask of records
    with a watermark candidate in ``candidates``.  ``timestamps``: Kafka's, -1 if absent.
    """

    times: Times
    known: Mask
    candidates: Times
    counts: Mask
    timestamps: Times


def is_quarantined(records: QuarantineInput, largest_ms: int, max_future_ms: int) -> Mask:
    """Return a mask of the quarantined records: more than ``max_future_ms`` in the future.

    A record without a timestamp is compared with the largest candidate before it, if there is one.
    """
    stamped = records.timestamps >= 0
    # Times are bounded and timestamps are not: only this side cannot overflow.
    ahead = records.known & stamped & (records.times - max_future_ms > records.timestamps)
    unstamped = records.known & ~stamped
    if not unstamped.any():
        return ahead
    largest = running_largest(records.candidates, records.counts & ~ahead, largest_ms)[:-1]
    suspects = unstamped & (largest != NEVER_MS) & (records.times > largest + max_future_ms)
    if not suspects.any():
        return ahead
    return _ahead_one_by_one(records, ahead, largest_ms, max_future_ms)


def _ahead_one_by_one(
    records: QuarantineInput, ahead: Mask, largest_ms: int, max_future_ms: int
) -> Mask:
    """Decide record by record, because a quarantined record must not move the largest candidate."""
    quarantined = ahead.copy()
    for index in np.flatnonzero((records.known | records.counts) & ~ahead):
        is_compared = (
            records.known[index] and records.timestamps[index] < 0 and largest_ms != NEVER_MS
        )
        if is_compared and int(records.times[index]) > largest_ms + max_future_ms:
            quarantined[index] = True
        elif records.counts[index]:
            largest_ms = max(largest_ms, int(records.candidates[index]))
    return quarantined
