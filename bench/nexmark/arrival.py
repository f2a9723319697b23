"""The order in which events arrive, their partitions, and their records.

An event arrives when its number comes.  A late event arrives as many numbers later as its rate has
in the time by which it is late.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from bench.nexmark.draws import Draw, Numbers, below, draw, mixed, unit
from bench.nexmark.generator import BIDS, Settings, events

PARTITION = "part"
POSITION = "pos"
"""The place of a record in its partition, which is its offset in a new topic."""

_PARTITIONED_BY = {BIDS: "auction"}
_ARRIVES = "@arrives"


def arrivals(first: int, count: int, total: int, settings: Settings) -> Mapping[str, pl.DataFrame]:
    """Return the events, of 0 to ``total - 1``, that arrive with ``count`` numbers, by kind.

    They are in order of arrival, and have a column PARTITION.  With the last number all late
    events arrive that are still to come.
    """
    reach = settings.late_by_ms * settings.rate // 1_000 + 1
    low = max(first - reach, 0)
    found = events(low, min(first + count, total) - low, settings)
    until = first + count
    return {
        kind: _arriving(frame, kind, settings, total)
        .filter(pl.col(_ARRIVES).is_between(first, until - 1))
        .drop(_ARRIVES)
        for kind, frame in found.items()
    }


def _arriving(frame: pl.DataFrame, kind: str, settings: Settings, total: int) -> pl.DataFrame:
    """Return events in order of arrival, with PARTITION and the number with which they arrive."""
    number = pl.Series(_ARRIVES, np.minimum(_numbers(frame["n"].to_numpy(), settings), total - 1))
    ids = frame[_PARTITIONED_BY.get(kind, "id")].to_numpy()
    part = partition_of(ids, settings.partitions - settings.silent)
    return frame.with_columns(number, part).sort(_ARRIVES, "n")


def _numbers(events: Numbers, settings: Settings) -> Numbers:
    """Return the number with which each event arrives."""
    is_late = unit(draw(settings.seed, events, Draw.IS_LATE)) < settings.late_share
    late_ms = below(draw(settings.seed, events, Draw.LATE_BY), settings.late_by_ms)
    return events + np.where(is_late, late_ms * settings.rate // 1_000, 0)


def all_arrivals(total: int, settings: Settings) -> Mapping[str, pl.DataFrame]:
    """Return all events by kind, in order of arrival, with PARTITION and POSITION."""
    found = arrivals(0, total, total, settings)
    return {kind: with_positions(frame) for kind, frame in found.items()}


def partition_of(ids: Numbers, partitions: int) -> pl.Series:
    """Return the partition of each id, as PARTITION."""
    part = mixed(ids.astype(np.uint64)) % np.uint64(partitions)
    return pl.Series(PARTITION, part.astype(np.int32))


def with_positions(frame: pl.DataFrame) -> pl.DataFrame:
    """Return events in order of arrival, with PARTITION, and add POSITION."""
    position = pl.int_range(pl.len(), dtype=pl.Int64).over(PARTITION)
    return frame.with_columns(position.alias(POSITION))


def values(frame: pl.DataFrame) -> list[bytes]:
    """Return the values of records: JSON with the columns of the event."""
    text = frame.drop("n", PARTITION, POSITION, strict=False).write_ndjson()
    return text.encode().splitlines()
