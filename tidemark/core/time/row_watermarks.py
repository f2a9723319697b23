"""The rows of segments in log order, each with the watermark W that it is judged by.

Columns, not segments: rows of any number of segments are laid end to end and judged at once.
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
    WATERMARK,
    Segment,
)
from tidemark.errors import StateError

Numbers = npt.NDArray[np.int64]

SEGMENT = "@segment"  # number of the row's segment among those worked on together

_PROMOTED = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Float32, pl.Float64)
"""Of numbers, each type is read as any that follows it, as by Avro's rules of resolution."""

_PLACE = {name: place for place, name in enumerate(ROW_COLUMNS)}
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Laid:
    """Rows of segments end to end, in log order, and the number of each row's segment."""

    rows: pl.DataFrame
    of_row: Numbers


def laid(
    segments: Sequence[Segment], streams: Sequence[str], columns: Mapping[str, pl.DataType]
) -> Laid:
    """Join the rows of streams in log order, segment after segment.

    Raises:
        StateError: a segment was written for other columns, which cannot be read as these.
    """
    declared = pl.Schema({**ROW_COLUMNS, **columns})
    frames, numbers = [], []
    for number, segment in enumerate(segments):
        found = [segment.streams[name] for name in streams if name in segment.streams]
        frames += [_read_as(frame, declared, segment) for frame in found]
        numbers += [number] * len(found)
    if not frames:
        return Laid(pl.DataFrame(schema=declared), _NONE)
    of_row = np.repeat(np.array(numbers), [frame.height for frame in frames])
    rows = frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=True)
    if len(streams) == 1:
        return Laid(rows, of_row)
    rows = rows.hstack([pl.Series(SEGMENT, of_row)]).sort(SEGMENT, SOURCE, OFFSET, SUB_ROW)
    return Laid(rows.drop(SEGMENT), rows[SEGMENT].to_numpy())


def _read_as(frame: pl.DataFrame, declared: pl.Schema, segment: Segment) -> pl.DataFrame:
    """Read rows as of the declared columns: what they mean must not hang on the rows beside them.

    What else a frame has is left out.
    """
    schema = frame.schema
    if [*schema.items()] == [*declared.items()]:
        return frame
    for name, wanted in declared.items():
        found = schema.get(name)
        if found is None or not _promotes(found, wanted):
            there = "not there" if found is None else str(found)
            mark = segment.sources[0]
            raise StateError(
                f'column "{name}" is {wanted} in the pipeline, and {there} in rows of the log of '
                f"{mark.source} from offset {mark.first_offset} on, which an earlier one wrote: "
                "'tidemark replay --from raw' reads them anew, 'tidemark reset' starts afresh"
            )
    return frame.select(pl.col(name).cast(wanted) for name, wanted in declared.items())


def _promotes(found: pl.DataType, wanted: pl.DataType) -> bool:
    if found == wanted:
        return True
    if isinstance(found, pl.List) and isinstance(wanted, pl.List):
        return _promotes(_item(found), _item(wanted))
    numbers = type(found) in _PROMOTED and type(wanted) in _PROMOTED
    return numbers and _PROMOTED.index(type(found)) < _PROMOTED.index(type(wanted))


def _item(of: pl.List) -> pl.DataType:
    return of.inner if isinstance(of.inner, pl.DataType) else of.inner()


def judged(
    found: Laid, segments: Sequence[Segment], entries: Sequence[Entry], *, by_arrival: bool
) -> Laid:
    """Give rows their W, and their sources' names; leave out duplicates.

    With names in place of numbers, SOURCE means the same in every segment.
    """
    rows, of_row = found.rows.clone(), found.of_row
    before = np.add.accumulate([0, *(len(segment.sources) for segment in segments)])
    source = rows[SOURCE].to_numpy() + before[of_row]
    names = pl.Series([m.source for s in segments for m in s.sources], dtype=pl.String)
    offset = rows[OFFSET].to_numpy()
    floor_ms = _gathered([entry.floor_ms for entry in entries], source)
    watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), floor_ms)
    _replace(rows, SOURCE, names.gather(source))
    _replace(rows, WATERMARK, pl.Series(watermark_ms))
    if by_arrival:
        arrival = offset + _gathered([entry.arrival for entry in entries], source)
        rows = rows.hstack([pl.Series(ARRIVAL, arrival)])
    if any(entry.now_ms is not None for entry in entries):
        now_ms = pl.Series(np.array([entry.now_ms for entry in entries], np.int64)[of_row])
        _replace(rows, EVENT_TIME, now_ms)
        _replace(rows, WATERMARK, now_ms)
    new = offset >= _gathered([entry.first_new for entry in entries], source)
    return Laid(rows, of_row) if new.all() else Laid(rows.filter(pl.Series(new)), of_row[new])


def _gathered(parts: Sequence[Numbers], at: Numbers) -> Numbers:
    """Return what segments say of their sources, for each row."""
    return np.concatenate([_NONE, *parts])[at]


def _replace(rows: pl.DataFrame, name: str, values: pl.Series) -> None:
    rows.replace_column(_PLACE[name], values.alias(name))
