"""Results as rows of a log: what an operator hands on to the operators after it.

See docs/semantics.md, "Chains".  Each partition of the operator numbers its results from 0.  The
number is the offset of the row, so a segment can be split anywhere, and a repeated row is known by
it.  Only the partitions of the log that have rows get a segment.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.stable_hash import mixed, stable_hashes
from tidemark.core.columns import repeated_text, without
from tidemark.core.operators.ports import CHANGES, PANES, REASON, Port
from tidemark.core.time.segment import (
    CHANGE_COLUMNS,
    CHANGE_REVISION,
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    SOURCE,
    TIE,
    WATERMARK,
    WITHDRAWN,
    Segment,
    SourceMark,
    operator_source,
)
from tidemark.core.windows.pane import RETRACTED, REVISION
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.physical import DerivedPlan, LogPlan


@dataclass(frozen=True, slots=True)
class HandedOn:
    """Results of an operator as rows of keyed streams; ``SegmentBuilder.add`` takes it.

    ``dead``: results that a row operator or a null key refuses, for the port ``DerivedPlan.dead``.
    """

    streams: Mapping[str, pl.DataFrame]
    mark: SourceMark
    dead: pl.DataFrame


def hand_on(
    plan: DerivedPlan, results: pl.DataFrame, partition: int, first_offset: int
) -> HandedOn:
    """Return results that one partition of an operator published as rows of keyed streams.

    ``first_offset``: the number of results that the partition has handed on before; that of the
    next call is ``mark.next_offset``.
    """
    next_offset = first_offset + results.height
    time = plan.port.row_time
    columns = {
        OFFSET: np.arange(first_offset, next_offset),
        EVENT_TIME: results[time.column] + time.shift_ms,
        WATERMARK: _watermarks(plan.port, results),
        TIE: _ties(results[list(plan.port.identity)]),
    }
    if plan.port.mode == CHANGES:
        columns |= {CHANGE_REVISION: results[REVISION], WITHDRAWN: results[RETRACTED]}
    own = _own_columns(plan, results)
    rows = pl.DataFrame(columns).hstack(own)
    misfit = _misfits(results, own, "aggregate" if plan.port.kind == PANES else "scan")
    fits = misfit.is_null()
    all_fit = fits.all()
    misfits = rows.clear() if all_fit else rows.filter(~fits)
    misfits = misfits.hstack([misfit.clear() if all_fit else misfit.filter(~fits)])
    rows = rows if all_fit else rows.filter(fits)
    evaluated = plan.graph.evaluate(rows)
    source = operator_source(plan.operator, partition)
    letters = evaluated.dead
    reasons = pl.Series(REASON, letters["operator"] + ": " + letters["reason"], pl.String)
    refused = rows[letters["record"]].hstack([reasons])
    dead = _without_withdrawals(pl.concat([refused, misfits]))
    dead = dead.hstack([repeated_text(SOURCE, source, dead.height)])
    dead = dead.sort(OFFSET) if dead.height else dead
    mark = SourceMark(source, first_offset, next_offset, NEVER_MS, NEVER_MS)
    return HandedOn(evaluated.streams, mark, dead)


def _watermarks(port: Port, results: pl.DataFrame) -> pl.Series:
    """Return the W that results carry."""
    if port.watermark:
        return results[port.watermark]
    # Each row precedes the mark that closes it, so the floor of its source judges it.
    return pl.Series(np.full(results.height, NEVER_MS))


def _without_withdrawals(dead: pl.DataFrame) -> pl.DataFrame:
    """Return dead rows without those that withdraw a row: it was refused when it came."""
    if WITHDRAWN not in dead.columns:
        return dead
    return without(dead.filter(~dead[WITHDRAWN]), *CHANGE_COLUMNS)


def _own_columns(plan: DerivedPlan, results: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of rows; a number that its type cannot hold is null.

    Bounds of windows are numbers in ports, and instants for users.  A column that no operator after
    a join needs is not in its results, and null in rows.
    """
    return pl.DataFrame(
        [
            results[name].cast(dtype, strict=dtype.is_nested())
            if name in results.columns
            else pl.Series(name, [None], dtype).new_from_index(0, results.height)
            for name, dtype in plan.columns.items()
        ]
    )


def _misfits(results: pl.DataFrame, own: pl.DataFrame, method: str) -> pl.Series:
    """Return why results are refused, null for those whose values all fit the types of ``own``.

    ``method``: what users call to get such results.
    """
    reasons = [
        pl.when(pl.col(column.name).is_not_null() & column.is_null()).then(
            pl.concat_str(
                pl.lit(f"{method}({column.name}): "),
                pl.col(column.name).cast(pl.String),
                pl.lit(f" does not fit in {column.dtype}"),
            )
        )
        for column in own
        if column.name in results.columns
        and column.null_count() > results[column.name].null_count()
    ]
    none = pl.Series(REASON, [None], pl.String).new_from_index(0, results.height)
    if not reasons:
        return none
    return results.select(pl.coalesce(*reasons, none).alias(REASON)).to_series()


def derived_segments(builder: SegmentBuilder, log: LogPlan, now_ms: int) -> list[list[Segment]]:
    """Return the segments of each partition of a log that hold what was added to a builder."""
    built = builder.build(log, now_ms, {})
    return [[each for each in segments if each.height] for segments in built]


def mark_segment(mark: SourceMark, now_ms: int, epoch: int) -> Segment:
    """Return the segment that tells a partition of a log what an operator has reached."""
    return Segment(epoch, 0, (mark,), {}, now_ms, {})


def _ties(identities: pl.DataFrame) -> pl.Series:
    """Return numbers that order results of the same event time, whatever partition they are in."""
    hashes = np.zeros(identities.height, np.uint64)
    for column in identities:
        hashes = mixed(hashes ^ stable_hashes(column))
    return pl.Series(TIE, (hashes >> np.uint64(1)).astype(np.int64))
