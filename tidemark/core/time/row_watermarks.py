"""The rows of segments in log order, each with its W: the watermark that decides lateness.

See docs/semantics.md, "Lateness", which defines W.  Rows of any number of segments are put into one
frame, and W is computed for all of them at once.  An operator compares W with the ends of a row's
windows when it folds the row, as ``WindowAggregate.fold`` in core/operators/aligned/operator.py
does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.time.clock import Entry
from tidemark.core.time.segment import (
    ARRIVAL,
    EVENT_TIME,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    TIE,
    WATERMARK,
    Segment,
    is_operator_source,
)
from tidemark.errors import UnreadableRowsError

Numbers = npt.NDArray[np.int64]

SEGMENT = "@segment"  # number of the row's segment in a batch
ORDER = "@order"  # place of the row among the rows of all inputs of an operator

_PROMOTED = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Float32, pl.Float64)
"""A column of one of these types can be read as any later type, as in Avro."""

_PLACE = {name: place for place, name in enumerate(ROW_COLUMNS)}
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class LogRows:
    """The rows of several segments, in log order.

    ``rows``: the columns ``ROW_COLUMNS`` and those of the streams.  ``segment_of``: the number of
    each row's segment.
    """

    rows: pl.DataFrame
    segment_of: Numbers

    def of_segments(self, low: int, high: int) -> "LogRows":
        """Return the rows of the segments numbered low to high - 1."""
        first, last = np.searchsorted(self.segment_of, (low, high)).tolist()
        return LogRows(self.rows[first:last], self.segment_of[first:last])


def with_segment(rows: pl.DataFrame, at_ms: Numbers, clock_ms: Sequence[int]) -> pl.DataFrame:
    """Return rows with SEGMENT: the first segment after which the clock is later than ``at_ms``.

    ``clock_ms``: the clock after each segment.
    """
    segment = np.searchsorted(np.array(clock_ms), at_ms, "right")
    return rows.hstack([pl.Series(SEGMENT, segment, pl.Int64)])


def rows_in_log_order(
    segments: Sequence[Segment], streams: Sequence[str], columns: Mapping[str, pl.DataType]
) -> LogRows:
    """Return the rows of streams in order of segment, source, offset and sub_row.

    ``columns``: the value columns to return, with their types.

    Raises:
        UnreadableRowsError: a column of a segment's rows has a type that does not widen to the
            declared type.
    """
    declared = pl.Schema({**ROW_COLUMNS, **columns})
    frames, numbers = [], []
    for number, segment in enumerate(segments):
        found = [segment.streams[name] for name in streams if name in segment.streams]
        frames += [_read_as(frame, declared, segment) for frame in found]
        numbers += [number] * len(found)
    if not frames:
        return LogRows(pl.DataFrame(schema=declared), _NONE)
    segment_of = np.repeat(np.array(numbers), [frame.height for frame in frames])
    rows = frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=True)
    if len(streams) == 1:
        return LogRows(rows, segment_of)
    rows = rows.hstack([pl.Series(SEGMENT, segment_of)]).sort(SEGMENT, SOURCE, OFFSET, SUB_ROW)
    return LogRows(rows.drop(SEGMENT), rows[SEGMENT].to_numpy())


def with_watermarks(
    found: Sequence[LogRows],
    segments: Sequence[Segment],
    entries: Sequence[Entry],
    *,
    by_arrival: bool,
) -> list[LogRows]:
    """Return the rows of each input with WATERMARK = W and SOURCE as text, without duplicates.

    WATERMARK is Int64 ms.  SOURCE becomes String, because the number of a source differs between
    segments.  With several inputs, rows get a column ORDER, Int64: their place in log order among
    the rows of all inputs.

    Args:
        found: the rows of each input, from ``rows_in_log_order``.
        segments: the segments of the rows.
        entries: the result of ``ClockTable.enter`` for each segment.
        by_arrival: whether rows get a column ARRIVAL, Int64: the place of their record in the log.
    """
    ordered = found if len(found) == 1 else _with_order(found)
    return [_with_watermarks(each, segments, entries, by_arrival=by_arrival) for each in ordered]


def _with_order(found: Sequence[LogRows]) -> list[LogRows]:
    """Add ORDER: the place in log order across inputs; rows of one record in order of input."""
    place = pl.concat(
        each.rows.select(SOURCE, OFFSET, SUB_ROW).with_columns(
            pl.Series(SEGMENT, each.segment_of), pl.lit(number).alias("input")
        )
        for number, each in enumerate(found)
    )
    order = np.empty(place.height, np.int64)
    by = (SEGMENT, SOURCE, OFFSET, SUB_ROW, "input")
    order[place.select(pl.arg_sort_by(*by)).to_series().to_numpy()] = np.arange(place.height)
    ends = np.cumsum([each.rows.height for each in found])[:-1]
    parts = np.split(order, ends)
    return [
        LogRows(each.rows.hstack([pl.Series(ORDER, part)]), each.segment_of)
        for each, part in zip(found, parts, strict=True)
    ]


def _with_watermarks(
    found: LogRows, segments: Sequence[Segment], entries: Sequence[Entry], *, by_arrival: bool
) -> LogRows:
    rows, segment_of = found.rows.clone(), found.segment_of
    before = np.add.accumulate([0, *(len(segment.sources) for segment in segments)])
    source = rows[SOURCE].to_numpy() + before[segment_of]
    marks = [mark for segment in segments for mark in segment.sources]
    names = pl.Series(
        [m.topic if is_operator_source(m.source) else m.source for m in marks], dtype=pl.String
    )
    offset = rows[OFFSET].to_numpy()
    floor_ms = _gathered([entry.floor_ms for entry in entries], source)
    watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), floor_ms)
    _replace(rows, SOURCE, names[pl.Series(source.astype(np.uint32))])
    _replace(rows, WATERMARK, pl.Series(watermark_ms))
    if by_arrival:
        arrival = offset + _gathered([entry.arrival for entry in entries], source)
        rows = rows.hstack([pl.Series(ARRIVAL, arrival)])
    if any(entry.now_ms is not None for entry in entries):
        now_ms = pl.Series(np.array([entry.now_ms for entry in entries], np.int64)[segment_of])
        _replace(rows, EVENT_TIME, now_ms)
        _replace(rows, WATERMARK, now_ms)
    if TIE in rows.columns:  # the order of results must not depend on their partition
        tie = rows[TIE]
        _replace(rows, OFFSET, tie.fill_null(rows[OFFSET]) if tie.null_count() else tie)
    new = offset >= _gathered([entry.first_new for entry in entries], source)
    if new.all():
        return LogRows(rows, segment_of)
    return LogRows(rows.filter(pl.Series(new)), segment_of[new])


def _gathered(parts: Sequence[Numbers], at: Numbers) -> Numbers:
    """Return for each row the value of its source, from the values of all segments' sources."""
    return np.concatenate([_NONE, *parts])[at]


def _replace(rows: pl.DataFrame, name: str, values: pl.Series) -> None:
    rows.replace_column(_PLACE[name], values.alias(name))


def _read_as(frame: pl.DataFrame, declared: pl.Schema, segment: Segment) -> pl.DataFrame:
    """Return rows with the declared columns and types only; a column that is missing is null.

    The types are declared, so rows mean the same regardless of the other rows in a segment.

    Raises:
        UnreadableRowsError: the type of a column does not widen to the declared type.
    """
    schema = frame.schema
    if [*schema.items()] == [*declared.items()]:
        return frame
    for name, wanted in declared.items():
        found = schema.get(name)
        if found is not None and not _promotes(found, wanted):
            mark = segment.sources[0]
            raise UnreadableRowsError(
                f'column "{name}" is {wanted} in the pipeline, and {found} in rows of the log of '
                f"{mark.source} from offset {mark.first_offset} on, which an earlier pipeline wrote"
            )
    return frame.select(
        pl.col(name).cast(wanted) if name in schema else pl.lit(None, wanted).alias(name)
        for name, wanted in declared.items()
    )


def _promotes(found: pl.DataType, wanted: pl.DataType) -> bool:
    if found == wanted:
        return True
    if isinstance(found, pl.List) and isinstance(wanted, pl.List):
        return _promotes(_item(found), _item(wanted))
    numbers = type(found) in _PROMOTED and type(wanted) in _PROMOTED
    return numbers and _PROMOTED.index(type(found)) < _PROMOTED.index(type(wanted))


def _item(of: pl.List) -> pl.DataType:
    return of.inner if isinstance(of.inner, pl.DataType) else of.inner()
