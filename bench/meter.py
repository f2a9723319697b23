"""Measures the time that an operator's body takes for rows, segment by segment."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.operators.operator import WindowBody
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.serde.frames import encode_frame

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Meter:
    """A body, its state, and the CPU seconds of folding rows and publishing panes.

    ``steps_s``: CPU seconds of each fold.
    """

    body: WindowBody
    state: Any
    clock_ms: int = NEVER_MS
    rows: int = 0
    folded_s: float = 0.0
    panes: int = 0
    published_s: float = 0.0
    steps_s: list[float] = field(default_factory=list)

    def fold(self, rows: pl.DataFrame) -> None:
        """Fold the rows of a segment and collect the changes; no row may be late."""
        start_s = time.process_time()
        late = self.body.fold(rows, self.state)
        self.state.changes()
        self.steps_s.append(time.process_time() - start_s)
        self.folded_s += self.steps_s[-1]
        self.rows += rows.height
        assert late.is_empty(), f"{late.height} late rows"

    def publish(self, clock_ms: int) -> None:
        """Move the clock: publish due panes, purge, collect the changes."""
        start_s = time.process_time()
        panes = self.body.publish(self.state, self.clock_ms, clock_ms)
        self.state.purge(clock_ms)
        self.state.changes()
        self.published_s += time.process_time() - start_s
        self.panes += panes.height
        self.clock_ms = clock_ms

    def state_bytes(self) -> int:
        """Return the size of a snapshot in bytes."""
        pieces = self.state.snapshot()
        return sum(len(encode_frame(frame)) for piece in pieces for frame in piece.values())


def segments(rows: pl.DataFrame, size: int) -> Iterator[pl.DataFrame]:
    """Yield segments of ``size`` rows."""
    for start in range(0, rows.height, size):
        yield rows[start : start + size]


def rows_of(
    at_ms: Numbers, watermark_ms: Numbers, values: Mapping[str, Any], types: Mapping[str, Any]
) -> pl.DataFrame:
    """Return rows of one source, with the metadata columns that a body expects."""
    count = at_ms.size
    columns = {
        SOURCE: pl.Series(["trades/0"]).new_from_index(0, count),
        "@offset": np.arange(count),
        "@sub_row": np.zeros(count, np.int32),
        "@event_time": at_ms,
        "@watermark": watermark_ms,
        **values,
    }
    return pl.DataFrame(columns, schema={**ROW_COLUMNS, SOURCE: pl.String(), **types})
