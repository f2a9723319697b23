"""The guard around operators whose aggregates may fail: with a user's code, or with ``where``.

See docs/semantics.md, "Failures of user code".  ``Guard`` wraps an operator on windows:

* A row that an aggregate refuses is taken out before the operator sees it.  So it leaves no
  trace in state.  It leaves through a port of kind ``DEAD``.
* A pane whose values a user's function cannot compute leaves through a port of kind ``FAILED``.
* Where the function is to stop, ``Guard`` raises, and the step is not committed.

Operators without such aggregates have no guard.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import FAULT, Aggregation
from tidemark.core.operators.operator import Frames
from tidemark.core.operators.ports import (
    DEAD,
    FAILED,
    PANES,
    REASON,
    Port,
    dead_port,
    failed_port,
    shown_key,
)
from tidemark.core.operators.wrapping import Wrapping
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.event_time import instant_text
from tidemark.core.time.segment import (
    EVENT_TIME,
    OFFSET,
    SOURCE,
    WITHDRAWN,
    is_operator_source,
    shown_source,
)
from tidemark.core.windows.pane import END, START
from tidemark.errors import UserCodeError

_REMEDY = 'correct the function, or let it go on with on_error="dead_letter"'


@dataclass(frozen=True)
class Guard(Wrapping):
    """An operator on windows; rows and panes on which a user's code fails do not stop it.

    Panes whose values failed are apart.  ``operator``: the name of the operator, for errors and
    dead letters.
    """

    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    operator: str

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of the operator, and those of rows and panes on which an aggregate fails."""
        outputs = *self.inner.outputs, dead_port(self.key, self.columns, self.operator)
        if not self.aggregation.user_functions:
            return outputs
        panes = next(port for port in outputs if port.name == PANES)
        return *outputs, failed_port(panes, self.operator)

    def open(self, store: BlockStore = IN_MEMORY) -> Any:
        """Return the empty state of the operator."""
        return self.inner.open(store)

    def process(self, sides: Frames, state: Any) -> Frames:
        """Process the rows that all aggregates take; return the others as dead.

        Raises:
            UserCodeError: a function with ``on_error="stop"`` refuses a row.
        """
        ((side, rows),) = sides.items()
        refusals = self.aggregation.refusals(rows)
        if not refusals:
            return self._parted(self.inner.process(sides, state))
        self._stop_at_row(rows, refusals)
        dead = np.zeros(rows.height, np.bool_)
        dead[[*refusals]] = True
        refused = rows.filter(pl.Series(dead))
        processed = self.inner.process({side: rows.filter(pl.Series(~dead))}, state)
        reasons = pl.Series(REASON, [*refusals.values()], pl.String)
        refused = refused.with_columns(reasons)
        if WITHDRAWN in refused.columns:  # what it takes away was refused, too
            refused = refused.filter(~pl.col(WITHDRAWN))
        return {**self._parted(processed), DEAD: refused}

    def _converted(self, frames: Frames, _state: Any, _clock_ms: int) -> Frames:
        return self._parted(frames)

    def _parted(self, frames: Frames) -> Frames:
        """Take the panes with a fault out of the panes.

        Raises:
            UserCodeError: a function with ``on_error="stop"`` fails on a pane.
        """
        panes = frames.get(PANES)
        if panes is None or FAULT not in panes.columns:
            return frames
        faults = panes[FAULT]
        if faults.null_count() == panes.height:
            return {**frames, PANES: panes.drop(FAULT)}
        failed = panes.filter(faults.is_not_null())
        self._stop_at_pane(failed)
        return {
            **frames,
            PANES: panes.filter(faults.is_null()).drop(FAULT),
            FAILED: failed.drop(self.aggregation.types).rename({FAULT: REASON}),
        }

    def _stop_at_row(self, rows: pl.DataFrame, refusals: Mapping[int, str]) -> None:
        for at, reason in refusals.items():
            if self.aggregation.stops(reason):
                row = rows.row(at, named=True)
                raise UserCodeError(
                    f"{self.operator}: {reason}; {self._key(row)}{_place(row)}: {_REMEDY}"
                )

    def _stop_at_pane(self, failed: pl.DataFrame) -> None:
        names = self.aggregation.user_functions.items()
        stopping = [name for name, function in names if function.stops]
        stops = pl.any_horizontal(
            pl.lit(value=False), *(pl.col(FAULT).str.starts_with(f"{name}=") for name in stopping)
        )
        stopped = failed.filter(stops)
        if stopped.height:
            pane = stopped.row(0, named=True)
            raise UserCodeError(
                f"{self.operator}: {pane[FAULT]}; {self._key(pane)}window [{pane[START]}, "
                f"{pane[END]}): {_REMEDY}"
            )

    def _key(self, row: Mapping[str, Any]) -> str:
        values = ", ".join(f"{name}={row[name]!r:.100}" for name in shown_key(self.key))
        return f"key {values}, " if values else ""


def _place(row: Mapping[str, Any]) -> str:
    """Return where a row comes from; a result of an operator has no offset that people know."""
    if is_operator_source(row[SOURCE]):
        return f"{shown_source(row[SOURCE])}, event time {instant_text(row[EVENT_TIME])}"
    topic, _, partition = row[SOURCE].rpartition("/")
    return f"topic {topic}, partition {partition}, offset {row[OFFSET]}"
