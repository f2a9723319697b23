"""The state of windows of results that replace each other: slots, and what was published.

See docs/semantics.md, "Every result".  A result that stands is a *slot*: a line with its key, event
time and identity.  A withdrawn slot stays as a line that does not count, because its revisions do.
"""

from collections.abc import Iterable

import polars as pl

from tidemark.core.operators.operator import Changes
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.operators.replacing.newest_lines import UNTIL, NewestLines
from tidemark.core.operators.replacing.row_ends import OWN_END, RowWindows, last_ends, open_bounds
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.segment import (
    CHANGE_REVISION,
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    SUB_ROW,
    TIE,
    WATERMARK,
    WITHDRAWN,
)
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import END, REVISION, START

LIVE = "@live"
"""Boolean column: whether the line counts, or the pane stands."""
WITHDRAWALS, CHANGES = "@withdrawals", "@changes"
"""Int64 columns of slots: how often the slot was withdrawn, and how often it changed at all."""

SLOTS, SHOWN = "slots", "shown"
"""Frames of the state's changes; changelogs store the names.

SLOTS has the columns of rows, with CHANGE_REVISION as the highest one, OWN_END, UNTIL and the
columns above.  SHOWN has the key, START, END, REVISION, CHANGES, LIVE and UNTIL of panes.
"""

_FIRST, _COUNT = "@first", "@count"


class SlotState(PairedState):
    """Slots of one operator on one log partition, and the newest pane of each window."""

    def __init__(
        self,
        windows: RowWindows,
        key: tuple[str, ...],
        allowed_lateness_ms: int,
        store: BlockStore = IN_MEMORY,
    ) -> None:
        """Start empty; ``store``: where lines lie."""
        self._windows = windows
        self._key = key
        self._lateness_ms = allowed_lateness_ms
        self._identity = [*key, EVENT_TIME, OFFSET, SUB_ROW]
        self.slots = NewestLines(SLOTS, self._identity, allowed_lateness_ms, store)
        self.shown = NewestLines(SHOWN, [*key, START], allowed_lateness_ms, store)
        self._touched: list[pl.DataFrame] = []
        self._open_ms = self._closed_ms = NEVER_MS
        self._bounds: list[OpenBounds] | None = None  # until lines or _closed_ms change

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.slots, self.shown

    def take(self, rows: pl.DataFrame) -> None:
        """Add and withdraw slots; rows are in the order in which they replace each other."""
        lines = self._changed(rows)
        self.slots.add(lines)
        self._bounds = None
        self._touched.append(lines.select(*self._key, EVENT_TIME))
        self._note_open(lines)

    def _changed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the new lines of the slots that rows change."""
        by = self._identity
        kept = [name for name in rows.columns if name not in (*by, WATERMARK, TIE, CHANGE_REVISION)]
        found = rows.group_by(by, maintain_order=True).agg(
            pl.col(kept).last(),
            pl.col(CHANGE_REVISION).max(),
            pl.col(WITHDRAWN).first().alias(_FIRST),
            pl.col(WITHDRAWN).sum().cast(pl.Int64).alias(WITHDRAWALS),
            pl.len().cast(pl.Int64).alias(CHANGES),
        )
        stored = self.slots.of(found.select(by))
        counts = [CHANGE_REVISION, WITHDRAWALS, CHANGES]
        if stored is None:
            nothing = [pl.lit(0, pl.Int64).alias(f"{name}.old") for name in counts]
            found = found.with_columns(*nothing, pl.lit(value=False).alias(LIVE))
        else:
            older = stored.select(
                *by, LIVE, *(pl.col(name).alias(f"{name}.old") for name in counts)
            )
            found = found.join(
                older, on=by, how="left", nulls_equal=True, maintain_order="left"
            ).with_columns(pl.col(f"{name}.old").fill_null(0) for name in counts)
        # A row that was refused or late has no slot; its withdrawal means nothing.
        unknown = (pl.col(_FIRST) & ~pl.col(LIVE).fill_null(value=False)).cast(pl.Int64)
        lines = found.with_columns(
            pl.max_horizontal(CHANGE_REVISION, f"{CHANGE_REVISION}.old").alias(CHANGE_REVISION),
            *(pl.col(n) + pl.col(f"{n}.old") - unknown for n in (WITHDRAWALS, CHANGES)),
            (~pl.col(WITHDRAWN)).alias(LIVE),
        ).filter(pl.col(CHANGES) > 0)
        ends = pl.Series(OWN_END, last_ends(self._windows, lines))
        counted = [f"{name}.old" for name in counts]
        return lines.drop(WITHDRAWN, _FIRST, *counted).with_columns(ends, ends.alias(UNTIL))

    def take_touched(self) -> pl.DataFrame | None:
        """Return, once, the keys and event times of the slots that have changed."""
        touched, self._touched = self._touched, []
        return pl.concat(touched) if touched else None

    def _note_open(self, lines: pl.DataFrame) -> None:
        ends_ms = lines.filter(LIVE)[OWN_END].to_numpy()
        self._open_ms = max(self._open_ms, int(ends_ms.max(initial=NEVER_MS)))

    @property
    def is_open(self) -> bool:
        """Whether a window may hold a slot and accept more."""
        return self._open_ms > self._closed_ms

    def open_windows(self) -> int:
        """Return the number of windows that hold a slot and accept more."""
        return sum(each.begin_ms.size for each in self.open_bounds())

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of windows that hold a slot and accept more."""
        if self._bounds is None:
            lines = self.slots.all()
            live = [] if lines is None else [lines.filter(LIVE)]
            self._bounds = [open_bounds(self._windows, each, self._closed_ms) for each in live]
        return self._bounds

    def apply(self, changes: Changes) -> None:
        """Add lines."""
        super().apply(changes)
        self._bounds = None
        if SLOTS in changes:
            self._note_open(changes[SLOTS])

    def purge(self, clock_ms: int) -> None:
        """Drop the slots and panes that no row can reach."""
        closed_ms = clock_ms - self._lateness_ms
        if closed_ms > self._closed_ms:
            self._closed_ms, self._bounds = closed_ms, None
        super().purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self._touched, "changed slots were not looked at"
        super().validate()
        lines = self.slots.all()
        if lines is not None:
            assert (lines[WITHDRAWALS] <= lines[CHANGES]).all(), "more withdrawals than changes"


def shown_lines(panes: pl.DataFrame, key: tuple[str, ...], *, live: bool) -> pl.DataFrame:
    """Return the lines of panes with CHANGES and UNTIL for ``SlotState.shown``."""
    return panes.select(*key, START, END, REVISION, CHANGES, pl.lit(value=live).alias(LIVE), UNTIL)
