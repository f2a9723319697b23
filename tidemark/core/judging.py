"""The rows of segments in log order, each with the watermark W that it is judged by.

Columns, not segments: rows of any number of segments are laid end to end and judged at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.clock import Entry
from tidemark.core.segment import (
    ARRIVAL,
    EVENT_TIME,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
    Segment,
)

Numbers = npt.NDArray[np.int64]

SEGMENT = "@segment"  # number of the row's segment among those worked on together

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
    """Join the rows of streams in log order, segment after segment."""
    frames, numbers = [], []
    for number, segment in enumerate(segments):
        found = [segment.streams[name] for name in streams if name in segment.streams]
        frames += found
        numbers += [number] * len(found)
    if not frames:
        return Laid(pl.DataFrame(schema={**ROW_COLUMNS, **columns}), _NONE)
    of_row = np.repeat(np.array(numbers), [frame.height for frame in frames])
    rows = _end_to_end(frames, [*ROW_COLUMNS, *columns])
    if len(streams) == 1:
        return Laid(rows, of_row)
    rows = rows.hstack([pl.Series(SEGMENT, of_row)]).sort(SEGMENT, SOURCE, OFFSET, SUB_ROW)
    return Laid(rows.drop(SEGMENT), rows[SEGMENT].to_numpy())


def _end_to_end(frames: Sequence[pl.DataFrame], columns: list[str]) -> pl.DataFrame:
    """Stack columns of frames; what else a frame has may differ from the others'."""
    picked = [frame if frame.columns == columns else frame.select(columns) for frame in frames]
    if len(picked) == 1:
        return picked[0]
    return pl.concat(picked, how="vertical_relaxed", rechunk=True)


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
