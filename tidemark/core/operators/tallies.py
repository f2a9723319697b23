"""Tallies: for each key and window with early panes, the number of rows and of rows shown.

See docs/semantics.md, "Early panes" and "Discarding".  A tally is a line of a block.  Lines are
only added, and the newest line of a key and window counts.  So the lines are the changelog, and
merging blocks removes older lines.  With ``accumulation="discarding"`` a line also holds the
partial aggregates of the rows that no pane has shown.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from tidemark.core.operators.operator import Changes
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.state.block_store import IN_MEMORY, Block, BlockStore
from tidemark.core.state.blocks import frames_of, in_pieces, merge_newest, stacked, total_bytes
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import END

TOTAL = "@total"  # rows that count in the window
SHOWN = "@shown"  # rows that a pane has shown
HIGHEST = "@highest"  # ms: the highest event time, or processing time if panes fire by it

TALLIES = "tallies"
"""Name of the frame of tallies in the state's changes; changelogs store it.

The frame has END (Int64, ms), the key columns, TOTAL, SHOWN and HIGHEST (Int64).  With discarding
panes it also has the partials of unshown rows.
"""

_PLACE = "@place"

_MANY = 16
"""Blocks of a place that are merged into fewer, so that their number stays bounded."""


class Tallies:
    """The tallies of windows; those of windows that end within ``grid_ms`` lie in one place."""

    def __init__(
        self,
        key: tuple[str, ...],
        allowed_lateness_ms: int,
        grid_ms: int,
        store: BlockStore = IN_MEMORY,
    ) -> None:
        """Start empty; ``store``: where lines lie."""
        self.key = key
        self.allowed_lateness_ms = allowed_lateness_ms
        self.grid_ms = grid_ms
        self._store = store
        self._blocks: dict[int, list[Block]] = {}
        self._added: list[pl.DataFrame] = []
        self._purged_ms = NEVER_MS

    def add(self, lines: pl.DataFrame) -> None:
        """Replace the lines of the same keys and windows."""
        self._added.append(lines)
        self._keep(lines)

    def of(self, windows: pl.DataFrame) -> pl.DataFrame | None:
        """Return the lines of keys and windows, or None if no block can hold any."""
        places = (windows[END] // self.grid_ms).unique().to_list()
        blocks = [frame for place in places for frame in frames_of(self._blocks.get(place, ()))]
        on = [END, *self.key]
        found = [block.join(windows, on=on, how="semi", nulls_equal=True) for block in blocks]
        return self._newest(found) if found else None

    def unshown(self, after_ms: int, until_ms: int) -> pl.DataFrame | None:
        """Return the lines with unshown rows of windows that end in (after_ms, until_ms]."""
        low, high = after_ms // self.grid_ms, until_ms // self.grid_ms
        held = [b for place, of in self._blocks.items() if low <= place <= high for b in of]
        if not held:
            return None
        ended = pl.col(END).is_between(after_ms, until_ms, closed="right")
        newest = self._newest(list(frames_of(held)))
        return newest.filter(ended, pl.col(SHOWN) < pl.col(TOTAL))

    def _newest(self, blocks: list[pl.DataFrame]) -> pl.DataFrame:
        return stacked(blocks).unique([END, *self.key], keep="last", maintain_order=True)

    def _keep(self, lines: pl.DataFrame) -> None:
        placed = lines.with_columns((pl.col(END) // self.grid_ms).alias(_PLACE))
        parts = placed.partition_by(_PLACE, as_dict=True, maintain_order=True, include_key=False)
        for (place,), block in parts.items():
            blocks = self._blocks.setdefault(place, [])
            blocks.append(self._stored(place, block))
            merge_newest(blocks, _MANY, partial(self._merged, place))

    def _merged(self, place: int, blocks: list[pl.DataFrame]) -> Block:
        return self._stored(place, self._newest(blocks))

    def _stored(self, place: int, lines: pl.DataFrame) -> Block:
        return self._store.put(place * self.grid_ms + self.allowed_lateness_ms, lines)

    def changes(self) -> Changes:
        """Return the lines added since the last call, without those purged since."""
        added, self._added = self._added, []
        kept = [lines.filter(pl.col(END) > self._purged_ms) for lines in added]
        return self._framed([lines for lines in kept if not lines.is_empty()])

    def snapshot(self) -> Iterator[Changes]:
        """Return the newest line of every key and window."""
        held = [list(blocks) for _, blocks in sorted(self._blocks.items())]
        newest = (self._newest(list(frames_of(blocks))) for blocks in held)
        return map(self._framed, in_pieces(newest))

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return total_bytes(block for blocks in self._blocks.values() for block in blocks)

    def _framed(self, blocks: list[pl.DataFrame]) -> Changes:
        return {TALLIES: self._newest(blocks)} if blocks else {}

    def apply(self, changes: Changes) -> None:
        """Replace older lines."""
        if TALLIES in changes:
            self._keep(changes[TALLIES])

    def purge(self, clock_ms: int) -> None:
        """Drop the windows that no row can reach."""
        self._purged_ms = max(self._purged_ms, clock_ms - self.allowed_lateness_ms)
        for place in [p for p in self._blocks if (p + 1) * self.grid_ms <= self._purged_ms + 1]:
            del self._blocks[place]

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        for place, blocks in self._blocks.items():
            for block in frames_of(blocks):
                assert (block[END] // self.grid_ms == place).all(), f"{place}: a line elsewhere"
                assert (block[SHOWN] <= block[TOTAL]).all(), f"{place}: more shown than came"


@dataclass
class TalliedState(PairedState):
    """Keyed state of windows, and a tally for each window."""

    windows: Any
    tallies: Tallies

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.windows, self.tallies

    def open_windows(self) -> int:
        """Return the number of open windows."""
        held: int = self.windows.open_windows()
        return held

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of open windows."""
        held: Iterable[OpenBounds] = self.windows.open_bounds()
        return held
