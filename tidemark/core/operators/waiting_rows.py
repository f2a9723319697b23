"""Rows that wait until the clock has passed their event time, and come out in order of event time.

Operators in order of event time hold rows here (docs/semantics.md, "Operators in order of event
time").  Rows lie in *runs*: blocks that are sorted as a whole, in a store.  Only the first block of
a run is read to release rows.  Runs of similar size are merged, as in log-structured merge trees.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Changes, missed
from tidemark.core.state.block_store import IN_MEMORY, Block, BlockStore
from tidemark.core.state.blocks import conformed, in_one_chunk, lines_at, size_tier
from tidemark.core.state.keyed_lines import Numbers
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import (
    EVENT_TIME,
    FOREVER_MS,
    NEVER_MS,
    OFFSET,
    SOURCE,
    SUB_ROW,
    WATERMARK,
)
from tidemark.core.windows.open_bounds import OpenBounds

HELD, RELEASED = "held", "released"
"""Frames of changes: rows that wait, and the clock that released those before it.

Changelogs store the names, so their values never change.
"""

_CLOCK = "@clock"
_ORDER = (EVENT_TIME, SOURCE, OFFSET, SUB_ROW)

_BLOCK_ROWS = 16_384
"""Maximum rows of a block: a run reads one whole block even if few of its rows are due."""

_MANY = 8
"""Number of runs of similar size that are merged."""

_FEW = 4_096
"""Rows; all smaller runs count as of similar size."""

_LARGE = 1 << 19
"""Maximum rows of a merged run, so that no merge takes long."""


def passed_ms(clock_ms: int, wait_ms: int) -> int:
    """Return the time before which rows are due that wait ``wait_ms`` behind their event time."""
    at_end = clock_ms in (NEVER_MS, FOREVER_MS)
    return clock_ms if at_end else clock_ms - wait_ms


@dataclass(frozen=True)
class JudgesByTime:
    """Rows in order of event time: a row is late when W has passed its time + lateness."""

    allowed_lateness_ms: int = 0

    def is_late(self, rows: pl.DataFrame) -> pl.Series:
        """Mark the late rows."""
        limit_ms = rows[EVENT_TIME].to_numpy() + self.allowed_lateness_ms
        return pl.Series(limit_ms < rows[WATERMARK].to_numpy())

    def late_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the late ones of rows, with the window of their event time."""
        _, late = self.split(rows)
        return late

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows that are not late, and the late ones as ``late_of`` does."""
        is_late = self.is_late(rows)
        if not is_late.any():
            return rows, self._missed(rows.clear())
        return rows.filter(~is_late), self._missed(rows.filter(is_late))

    def _missed(self, late: pl.DataFrame) -> pl.DataFrame:
        at_ms = late[EVENT_TIME].to_numpy()
        end_ms = at_ms + 1
        return missed(late, at_ms, end_ms, end_ms + self.allowed_lateness_ms)


@dataclass(slots=True)
class _Run:
    """Blocks in order of event time.

    ``last_ms``: of each block, its last event time.  ``begin``: the rows of the first block that
    are released.  ``next_ms``: the event time of the first row that waits.
    """

    blocks: list[Block]
    last_ms: list[int]
    begin: int
    next_ms: int

    @property
    def height(self) -> int:
        """The number of rows that wait."""
        return sum(block.height for block in self.blocks) - self.begin

    def timed(self) -> Iterator[tuple[int, Block]]:
        """Yield each block with its last event time."""
        return zip(self.last_ms, self.blocks, strict=True)

    def counts(self) -> Iterator[tuple[int, int]]:
        """Yield event times of rows that wait, with numbers of rows; see ``open_bounds``."""
        yield self.next_ms, 1
        left = -1 - self.begin
        for last_ms, block in self.timed():
            yield last_ms, block.height + left
            left = 0

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows that wait; each block is loaded when it is its turn."""
        return _frames(tuple(self.blocks), self.begin)

    def release(self, clock_ms: int) -> list[pl.DataFrame]:
        """Remove and return the rows before ``clock_ms``."""
        found = []
        while self.blocks and self.next_ms < clock_ms:
            rows = self.blocks[0].frame()
            stop = int(np.searchsorted(rows[EVENT_TIME].to_numpy(), clock_ms))
            found.append(rows[self.begin : stop])
            if stop == rows.height:
                del self.blocks[0], self.last_ms[0]
                stop = 0
            self.begin = stop
            first = self.blocks[0].frame() if self.blocks else None
            self.next_ms = FOREVER_MS if first is None else int(first[EVENT_TIME][stop])
        return found


class WaitingRows:
    """The rows of one log partition that wait for the clock of an operator."""

    def __init__(
        self,
        columns: Mapping[str, pl.DataType],
        store: BlockStore = IN_MEMORY,
        allowed_lateness_ms: int = 0,
    ) -> None:
        """Start without rows.

        Args:
            columns: of the stream.  Stored rows get those that they lack, and lose all others.
            store: where blocks lie.
            allowed_lateness_ms: how far behind W rows are accepted.
        """
        self._columns = columns
        self._store = store
        self._judge = JudgesByTime(allowed_lateness_ms)
        self._runs: list[_Run] = []
        self._fresh: list[pl.DataFrame] = []
        self._released_ms = NEVER_MS
        self._has_released = False

    def __len__(self) -> int:
        """Return the number of rows that wait."""
        return sum(run.height for run in self._runs)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return when rows wait: from their event time until that time is late.

        The first row of a run has a place.  The other rows of a block count as its last row.
        """
        found = [each for run in self._runs for each in run.counts()]
        times_ms, counts = np.array(found, np.int64).reshape(-1, 2).T
        lateness_ms = self._judge.allowed_lateness_ms
        return [OpenBounds(times_ms, lambda place: int(times_ms[place]) + lateness_ms, counts)]

    def take(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Let rows wait; return those that W has passed, as late rows.

        ``rows``: of a segment, or of a batch; rows that wait do not keep SEGMENT.
        """
        accepted, late = self._judge.split(rows)
        if accepted.height:
            accepted = self._conformed(accepted)
            self._fresh.append(accepted)
            self._put(accepted)
        return late

    def _put(self, rows: pl.DataFrame) -> None:
        self._runs.append(self._run(rows.sort(_ORDER)))
        self._runs.sort(key=lambda run: run.height, reverse=True)
        begin = size_tier([run.height for run in self._runs], _MANY, _FEW)
        if begin is None:
            return
        merged = self._runs[begin : begin + _MANY]
        if sum(run.height for run in merged) <= _LARGE:
            every = pl.concat([frame for run in merged for frame in run.frames()])
            self._runs[begin : begin + _MANY] = [self._run(every.sort(_ORDER))]

    def _run(self, rows: pl.DataFrame) -> _Run:
        """Return a run of sorted rows."""
        most_bytes = self._store.frame_bytes
        parts = 1 if most_bytes is None else int(rows.estimated_size()) // most_bytes + 1
        height = max(1, min(_BLOCK_ROWS, -(-rows.height // parts)))
        frames = [in_one_chunk(part) for part in rows.iter_slices(height)]
        last_ms = [int(frame[EVENT_TIME][-1]) for frame in frames]
        blocks = [self._store.put(ms, each) for ms, each in zip(last_ms, frames, strict=True)]
        return _Run(blocks, last_ms, 0, int(rows[EVENT_TIME][0]))

    def stops(self, clock_ms: int) -> Iterator[int]:
        """Yield times up to ``clock_ms``, ascending; few rows wait between two of them.

        The next time is found only after the rows before the last one are released.
        """
        while True:
            stop_ms = self._stop_ms(clock_ms)
            yield stop_ms
            if stop_ms >= clock_ms:
                return

    def is_due(self, clock_ms: int) -> bool:
        """Whether a row is before ``clock_ms``."""
        return any(run.next_ms < clock_ms for run in self._runs)

    def _stop_ms(self, clock_ms: int) -> int:
        """Return the time behind as many blocks as make a large one together, at least one."""
        stop_ms, rows, size = NEVER_MS, 0, 0
        most_bytes = self._store.frame_bytes
        for last_ms, block in merge(*(run.timed() for run in self._runs), key=itemgetter(0)):
            rows, size = rows + block.height, size + block.size_bytes
            is_large = rows > _BLOCK_ROWS or size > (most_bytes or size)
            if is_large and stop_ms > NEVER_MS:
                return stop_ms
            stop_ms = last_ms + 1
            if stop_ms > clock_ms:
                break
        return clock_ms

    def release(self, clock_ms: int) -> pl.DataFrame | None:
        """Remove and return the rows before ``clock_ms``, in order; None without such rows."""
        due = self._drop(clock_ms)
        if not due:
            return None
        self._has_released = True
        return due[0] if len(due) == 1 else pl.concat(due).sort(_ORDER)

    def _drop(self, clock_ms: int) -> list[pl.DataFrame]:
        due = [rows for run in self._runs for rows in run.release(clock_ms)]
        self._runs = [run for run in self._runs if run.blocks]
        self._released_ms = max(self._released_ms, clock_ms)
        return due

    def changes(self) -> Changes:
        """Return, once, the changes since the last call."""
        made: dict[str, pl.DataFrame] = {}
        if self._has_released:
            made[RELEASED] = pl.DataFrame({_CLOCK: [self._released_ms]})
        fresh = [part for rows in self._fresh if (part := self._waiting(rows)).height]
        if fresh:
            made[HELD] = pl.concat(fresh)
        self._fresh, self._has_released = [], False
        return made

    def _waiting(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that the clock has not released."""
        waits = np.flatnonzero(rows[EVENT_TIME].to_numpy() >= self._released_ms)
        return rows if waits.size == rows.height else lines_at(rows, waits)

    def snapshot(self) -> Iterator[Changes]:
        """Return the rows that wait, in pieces that are built lazily."""
        held: Sequence[Iterator[pl.DataFrame]] = [run.frames() for run in self._runs]
        return ({HELD: rows} for run in held for rows in run)

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return sum(block.size_bytes for run in self._runs for block in run.blocks)

    def apply(self, changes: Changes) -> None:
        """Apply one piece."""
        if HELD in changes:
            self._put(self._conformed(changes[HELD]))
        if RELEASED in changes:
            self._drop(int(changes[RELEASED][_CLOCK].to_numpy().max()))

    def purge(self, clock_ms: int) -> None:
        """Drop nothing: only ``release`` removes rows, and hands them on."""

    def _conformed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the columns of the stream as it is now, behind those of the segment."""
        lead = [name for name in rows.columns if name.startswith("@") and name != SEGMENT]
        own = {name: dtype for name, dtype in self._columns.items() if name not in lead}
        if own.keys() <= set(rows.columns):
            return rows[[*lead, *own]]
        return rows[lead].hstack(conformed(rows, own))

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        for run in self._runs:
            times: Numbers = pl.concat(list(run.frames()))[EVENT_TIME].to_numpy()
            assert times.size == run.height > 0, "a run of waiting rows is miscounted or empty"
            assert bool((times[1:] >= times[:-1]).all()), "waiting rows are out of order"
            assert times[0] == run.next_ms, "a run begins at another time"
            assert run.next_ms >= self._released_ms, "a row waits that the clock has passed"


def _frames(blocks: Sequence[Block], begin: int) -> Iterator[pl.DataFrame]:
    for number, block in enumerate(blocks):
        yield block.frame()[begin if number == 0 else 0 :]
