"""Watermarks: how far time has come in a raw partition, before each of its records.

Every kind is a running maximum of *candidates*, so its state is one int: the largest candidate so
far.  NEVER_MS before the first.

* bounded: a record's candidate is its event time; the watermark is the largest less the delay;
* punctuated: the event time of marked records, and of no others;
* from an expression: what the expression makes of a record, null being none.

A record dated too far in the future is quarantined: it neither becomes a row nor moves time.  It
is compared with its Kafka timestamp, which is recorded, so a replay decides alike; without one,
with the partition's own progress, its largest candidate.

See docs/semantics.md, "Watermarks".
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

import numpy as np
import polars as pl

from tidemark.core.time.duration import duration_ms
from tidemark.core.time.iso8601 import Mask, Times
from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Bounded:
    """Records of a raw partition are at most ``delay_ms`` of event time out of order."""

    delay_ms: int

    def __post_init__(self) -> None:
        if self.delay_ms < 0:
            raise PipelineError(f"watermark bounded({self.delay_ms}ms): the delay is negative")


@dataclass(frozen=True, slots=True, eq=False)
class Punctuated:
    """The event time of the last record for which ``when`` is true."""

    when: pl.Expr

    def __repr__(self) -> str:
        return f"Punctuated({self.when})"


@dataclass(frozen=True, slots=True, eq=False)
class FromExpression:
    """The largest value of an expression so far: Int64 ms, or a Datetime with a zone."""

    candidate: pl.Expr

    def __repr__(self) -> str:
        return f"FromExpression({self.candidate})"


Watermark: TypeAlias = Bounded | Punctuated | FromExpression


def bounded(delay: str | int | timedelta) -> Bounded:
    """Trust each raw partition to be at most ``delay`` out of order: ``bounded("2s")``."""
    return Bounded(duration_ms(delay, "watermark bounded()"))


def monotonic() -> Bounded:
    """Trust each raw partition to be in order of event time."""
    return Bounded(0)


def punctuated(when: pl.Expr) -> Punctuated:
    """Move time only at marked records, to their event time: ``punctuated(when=col("end"))``.

    ``when`` says of one record whether it promises that nothing earlier follows; null is no.
    """
    return Punctuated(when)


def from_expression(candidate: pl.Expr) -> FromExpression:
    """Take the watermark from the records themselves: ``from_expression(col("complete_to"))``.

    ``candidate`` is made of one record: Int64 ms, or a Datetime with a zone; null says nothing.
    The watermark is the largest so far, so it never goes back.
    """
    return FromExpression(candidate)


def delay_ms(watermark: Watermark) -> int:
    """Return how far the watermark stays behind the largest candidate."""
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
    """Return the watermark before each record, and the largest candidate after all.

    ``counts`` tells which records have one; ``largest_ms`` is that of the records before.
    """
    largest = running_largest(candidates, counts, largest_ms)
    earlier = largest[:-1]
    return np.where(earlier == NEVER_MS, NEVER_MS, earlier - delay_ms), int(largest[-1])


def running_largest(candidates: Times, counts: Mask, largest_ms: int) -> Times:
    """Return the largest candidate before each record, and after the last: one more item."""
    steps = np.empty(len(candidates) + 1, np.int64)
    steps[0] = largest_ms
    steps[1:] = np.where(counts, candidates, NEVER_MS)
    return np.maximum.accumulate(steps)


@dataclass(frozen=True, slots=True)
class QuarantineInput:
    """Records as the quarantine sees them, as columns.

    ``known``: those with an event time in ``times``.  ``counts``: those with a watermark candidate
    in ``candidates``.  ``timestamps``: Kafka's, -1 where there is none.
    """

    times: Times
    known: Mask
    candidates: Times
    counts: Mask
    timestamps: Times


def is_quarantined(records: QuarantineInput, largest_ms: int, max_future_ms: int) -> Mask:
    """Tell which records are quarantined: dated more than ``max_future_ms`` ahead.

    One without a timestamp is compared with the largest candidate before it, once there is one.
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
    """Judge in order: a quarantined record must not move the progress later ones are judged by."""
    quarantined = ahead.copy()
    for index in np.flatnonzero(records.known & ~ahead):
        is_judged = records.timestamps[index] < 0 and largest_ms != NEVER_MS
        if is_judged and int(records.times[index]) > largest_ms + max_future_ms:
            quarantined[index] = True
        elif records.counts[index]:
            largest_ms = max(largest_ms, int(records.candidates[index]))
    return quarantined
