"""Aligned windows of all rows, in two phases: partials on every log partition, then their merge.

See docs/semantics.md, "One key in two phases".  Both phases hold state as ``WindowAggregate`` does.
The first publishes, for each final window, what the rows of its log partition add up to: a
partial, never a rounded value.  The second merges the partials of all log partitions, so its values
are those of an operator that takes the rows themselves.

A row of partials belongs to the last millisecond of its window.  Columns of its port:

1. END, of the window
2. BEHIND: whether W had passed the end before some of the rows
3. ROWS, and the parts of the aggregates that are always present
4. COUNTERS: the other parts, limbs and counters, by name
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.aggregates.lists import flattened
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.aligned.slice_buffer import SLICE
from tidemark.core.operators.aligned.state import CLOSED, PASSED, WindowState
from tidemark.core.operators.operator import Frames
from tidemark.core.operators.ports import PANES, Port, RowTime, late_port, pane_port
from tidemark.core.state.blocks import stacked
from tidemark.core.state.keyed_lines import Numbers
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS
from tidemark.core.windows.pane import END, LATE, REVISION, TIMING

BEHIND = "@behind"
COUNTERS = "@counters"
_PART, _COUNT = "part", "count"
_COUNTERS = pl.List(pl.Struct({_PART: pl.String(), _COUNT: pl.Int64()}))


def partial_columns(aggregation: Aggregation) -> dict[str, pl.DataType]:
    """Return the columns of a row of partials, with their types."""
    parts = {name: dtype for name, dtype in aggregation.empty({}).schema.items() if name != ROWS}
    return {END: pl.Int64(), BEHIND: pl.Boolean(), ROWS: pl.Int64(), **parts, COUNTERS: _COUNTERS}


@dataclass(frozen=True)
class PartialWindows(WindowAggregate):
    """The first phase: publishes the partials of each final window."""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of partials and late rows."""
        partials = Port(
            PANES,
            PANES,
            partial_columns(self.aggregation),
            key=(),
            message_key=(END,),
            identity=(END,),
            row_time=RowTime(END, -1),
            instants=frozenset({END}),
            holds_ms=self.holds_ms,
        )
        return partials, late_port(self.key, self.columns)

    def panes(self, parts: list[pl.DataFrame], clock_ms: int) -> pl.DataFrame:
        """Return partials as rows of the port, in the order of windows."""
        if not parts:
            return pl.DataFrame(schema=self.outputs[0].columns)
        return self._panes(stacked(parts), clock_ms)

    def _panes(
        self,
        merged: pl.DataFrame,
        final_until_ms: int | Numbers,  # noqa: ARG002 - all are final
        within: Sequence[str] = (),
    ) -> pl.DataFrame:
        columns = self.outputs[0].columns
        own = {END, REVISION, TIMING, *self.key, *within, *columns}
        counters = [name for name in merged.columns if name not in own]
        return merged.select(
            *within,
            END,
            (pl.col(TIMING) == LATE).alias(BEHIND),
            *(name for name in columns if name not in (END, BEHIND, COUNTERS)),
            _packed(counters),
        ).sort(*within, END)

    def with_final(self, panes: pl.DataFrame, _stop_ms: int, _clock_ms: int) -> pl.DataFrame:
        """Return the rows as they are: partials are only published once they are final."""
        return panes


@dataclass(frozen=True)
class MergedWindows(WindowAggregate):
    """The second phase: ``aggregation`` over rows of partials.

    No row is late for it.  Rows that were behind in the first phase are rows behind here too, which
    every pane shows: the window was not published before.
    """

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The port of panes; the first phase has that of late rows."""
        types = self.aggregation.types
        return (pane_port(self.key, self.columns, types, holds_ms=self.holds_ms),)

    def process(self, sides: Frames, state: WindowState) -> Frames:
        """Add rows of partials to their windows."""
        (rows,) = sides.values()
        if rows.is_empty():
            return {}
        at_ms = rows[EVENT_TIME].to_numpy()
        marked = _unpacked(rows, [*self.key, ROWS, *self._parts]).with_columns(
            pl.Series(SLICE, self.windows.slice_start(at_ms)),
            pl.Series(PASSED, self.windows.last_end(at_ms)),
            pl.lit(NEVER_MS, pl.Int64).alias(CLOSED),
        )
        by = [SLICE, *self.key]
        ahead, behind = marked.filter(~rows[BEHIND]), marked.filter(rows[BEHIND])
        if ahead.height:
            state.add_ahead(self.aggregation.combine([ahead.drop(PASSED, CLOSED)], by))
        if behind.height:
            state.add_behind(self.aggregation.combine([behind], [*by, PASSED, CLOSED]))
        return {}

    def _on_time(self, state: WindowState, ends: list[int]) -> list[pl.DataFrame]:
        return self._complete(state, ends)

    @cached_property
    def _parts(self) -> list[str]:
        """The parts of the aggregates that are always present."""
        known = (END, BEHIND, ROWS, COUNTERS)
        return [name for name in partial_columns(self.aggregation) if name not in known]


def _packed(counters: Sequence[str]) -> pl.Expr:
    """Return COUNTERS of columns, in order of name, without zeros: one form for equal partials."""
    if not counters:
        return pl.lit([], _COUNTERS).alias(COUNTERS)
    each = [
        pl.struct(pl.lit(name).alias(_PART), pl.col(name).fill_null(0).alias(_COUNT))
        for name in sorted(counters)
    ]
    counts = pl.element().struct.field(_COUNT)
    return pl.concat_list(each).list.eval(pl.element().filter(counts != 0)).alias(COUNTERS)


def _unpacked(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return ``columns`` of rows with the counters as columns, Int64, zero where a row has none."""
    row, flat = flattened(rows[COUNTERS])
    names, values = flat.struct.field(_PART), flat.struct.field(_COUNT).to_numpy()
    counters = []
    for name in names.unique(maintain_order=True):
        mask = (names == name).to_numpy()
        column = np.zeros(rows.height, np.int64)
        column[row[mask]] = values[mask]
        counters.append(pl.Series(name, column))
    return rows.select(columns).hstack(counters)
