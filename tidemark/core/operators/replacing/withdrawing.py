"""Results that replace each other, for the operators that read them.

See docs/semantics.md, "Every result".  ``Withdrawing`` wraps an operator on windows.  Before a pane
that replaces another one, it publishes the other one again, as withdrawn.  So whatever a row
operator made of the values is taken away first, wherever it went.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from tidemark.core.operators.operator import Frames
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.operators.ports import CHANGES, FAILED, PANES, Port, shown_key
from tidemark.core.operators.replacing.newest_lines import UNTIL, NewestLines
from tidemark.core.operators.wrapping import Wrapping
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import END, RETRACTED, REVISION, START

STANDING = "standing"
"""Frame of the state's changes: the columns of panes, and UNTIL."""

_PLACE, _ROW = "@place", "@row"


@dataclass
class WithdrawingState(PairedState):
    """The state of the operator, and the newest pane of each window that may be replaced."""

    inner: Any
    standing: NewestLines

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.inner, self.standing

    def open_windows(self) -> int:
        """Return the number of open windows."""
        held: int = self.inner.open_windows()
        return held

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of open windows."""
        held: Iterable[OpenBounds] = self.inner.open_bounds()
        return held


@dataclass(frozen=True)
class Withdrawing(Wrapping):
    """An operator on windows that withdraws panes, with their values, before it replaces them.

    A pane whose values cannot be computed withdraws the one before it, too.

    ``key``: names of the key columns.  ``allowed_lateness_ms``: of the windows.
    """

    key: tuple[str, ...]
    allowed_lateness_ms: int

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of the operator; its panes replace each other."""
        panes, *others = self.inner.outputs
        return replace(panes, mode=CHANGES, values=()), *others

    @property
    def _identity(self) -> list[str]:
        return [*shown_key(self.key), START]

    def open(self, store: BlockStore = IN_MEMORY) -> WithdrawingState:
        """Return empty state."""
        standing = NewestLines(STANDING, self._identity, self.allowed_lateness_ms, store)
        return WithdrawingState(self.inner.open(store), standing)

    def process(self, sides: Frames, state: WithdrawingState) -> Frames:
        """Process rows."""
        return self.inner.process(sides, state.inner)

    def _of_inner(self, state: WithdrawingState) -> Any:
        return state.inner

    def _converted(self, frames: Frames, state: WithdrawingState, clock_ms: int) -> Frames:
        """Return frames with panes as changes: withdrawals, each before what replaces it."""
        panes = self._in_order(frames)
        if panes is None or panes.is_empty():
            return frames
        panes = panes.with_row_index(_PLACE)
        both = self._with_standing(panes, state)
        numbered = both.select(self._identity).with_row_index(_ROW)
        before = numbered.select(pl.col(_ROW).shift(1).over(self._identity)).to_series()
        new = both.filter(before.is_not_null())
        old = both[before.drop_nulls()].with_columns(new.select(_at(new)))
        # A pane at the close may show the same rows as an early one.
        same = ~old[RETRACTED] & ~new[RETRACTED]
        same &= (old[END] == new[END]) & (old[REVISION] == new[REVISION])
        withdrawn = old.filter(~same & ~old[RETRACTED])
        again = new.filter(same)
        added = panes.filter(~pl.col(RETRACTED)).join(again, on=_PLACE, how="anti")
        changes = pl.concat(
            [
                withdrawn.with_columns(pl.lit(value=True).alias(RETRACTED)),
                added.select(both.columns),
            ],
            how="vertical_relaxed",
        )
        self._note(panes, state, clock_ms)
        return {**frames, PANES: changes.sort(_PLACE, maintain_order=True).drop(_PLACE)}

    def _with_standing(self, panes: pl.DataFrame, state: WithdrawingState) -> pl.DataFrame:
        """Return panes after the newest ones before them of the same windows."""
        standing = state.standing.of(panes.select(self._identity).unique())
        if standing is None:
            return panes
        places = (pl.lit(0, panes.schema[name]).alias(name) for name in _at(panes))
        stood = standing.with_columns(*places).select(panes.columns)
        return pl.concat([stood, panes], how="vertical_relaxed")

    def _note(self, panes: pl.DataFrame, state: WithdrawingState, clock_ms: int) -> None:
        """Write down the panes that may be replaced."""
        open_ms = max(NEVER_MS, clock_ms - self.allowed_lateness_ms)
        newest = panes.unique(self._identity, keep="last", maintain_order=True).drop(_at(panes))
        port, *_ = self.inner.outputs
        # A sum that its type cannot hold is not handed on, so nothing withdraws it.
        values = (pl.col(n).cast(port.columns[n], strict=False) for n in port.values)
        lines = newest.filter(pl.col(END) > open_ms)
        state.standing.add(lines.with_columns(*values, pl.col(END).alias(UNTIL)))

    def _in_order(self, frames: Frames) -> pl.DataFrame | None:
        """Return panes and, as withdrawals, those that failed, in order for each window."""
        panes, failed = frames.get(PANES), frames.get(FAILED)
        if failed is None or failed.is_empty():
            return panes
        gone = failed.select(
            name for name in failed.columns if panes is None or name in panes.columns
        ).with_columns(pl.lit(value=True).alias(RETRACTED))
        if panes is None:
            return gone
        both = pl.concat([panes, gone], how="diagonal_relaxed")
        # The order of docs/semantics.md, "Order in a topic"; a failed pane is in its place.
        withdrawn = pl.concat([panes[RETRACTED], pl.repeat(value=False, n=gone.height, eager=True)])
        segment = [SEGMENT] * (SEGMENT in panes.columns)
        by = [*segment, ~withdrawn, END, *shown_key(self.key), START, REVISION]
        return both.sort(by, maintain_order=True)


def _at(panes: pl.DataFrame) -> list[str]:
    """Return the columns of panes that say where they come."""
    return [name for name in (_PLACE, SEGMENT) if name in panes.columns]
