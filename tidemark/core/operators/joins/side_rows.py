"""The state of one side of a join: its rows, found by key and event time.

Rows lie in blocks (core/state/row_blocks.py).  What searches need is in memory, by place: facts of
each row, a time index (time_index.py), and the times at which rows without a partner are due.
``purge`` drops blocks.  Once most places are empty, rows get new places.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from tidemark.core.operators.identity import Ids
from tidemark.core.operators.joins.new_rows import (
    HIGH,
    LOW,
    PUBLISHED,
    REACH,
    ROW_BYTES,
    STATUS,
    WAITING,
    NewRows,
    RowFacts,
    SideSpec,
    Statuses,
    columns_of,
    run_by_key,
)
from tidemark.core.operators.joins.time_index import Run, TimeIndex, find, pairs_of
from tidemark.core.operators.operator import Changes
from tidemark.core.state.block_store import BlockStore
from tidemark.core.state.blocks import conformed
from tidemark.core.state.due_index import DueIndex
from tidemark.core.state.keyed_lines import Numbers
from tidemark.core.state.row_blocks import RowBlock, RowBlocks
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds

_PIECE_ROWS = 32_768
"""Maximum rows of a piece of a snapshot."""

_FEW = 2_048
"""Places; fewer empty ones are left as they are."""

_NONE = np.empty(0, np.int64)


class SideRows:
    """The rows of one side of a join, on one log partition."""

    def __init__(self, spec: SideSpec, store: BlockStore) -> None:
        """Start empty."""
        self.spec = spec
        self._rows = RowBlocks(pl.Schema(spec.columns), store)
        self._facts = RowFacts.empty(0)  # by place; room for more
        self._next = 0
        self._staged: NewRows | None = None  # their facts are at the places from _next on
        self._index = TimeIndex()
        self._due = DueIndex()
        self._fresh = 0  # rows from this place on are not in any changes yet
        self._marked: list[Numbers] = []
        self._purged_ms = NEVER_MS

    @property
    def runs(self) -> Sequence[Run]:
        """The places of rows by key and time."""
        return self._index.runs

    @property
    def tracks(self) -> bool:
        """Whether it counts which rows have partners."""
        return self.spec.tracks

    @property
    def next_place(self) -> int:
        """The place of the next row."""
        return self._next

    def facts(self, places: Numbers) -> RowFacts:
        """Return the facts of rows."""
        return self._facts.at(places)

    def status(self, places: Numbers) -> Statuses:
        """Return the status of rows."""
        return self._facts.status[places]

    def at_ms(self, places: Numbers | slice) -> Numbers:
        """Return the event times of rows."""
        return self._facts.at_ms[places]

    def ids(self, places: Numbers) -> Ids:
        """Return the identities of rows."""
        return self._facts.ids.at(places)

    def times_ms(self, places: Numbers) -> Numbers:
        """Return the event times of rows as results without a partner: max(t, t + reach)."""
        return self._result_ms(places)

    def rows(self, places: Numbers) -> pl.DataFrame:
        """Return rows, in the order of places."""
        return self._rows.rows(places)

    def stage(self, new: NewRows) -> int:
        """Make the facts of rows readable by the places that ``put`` gives; return the first."""
        if new is not self._staged:
            self._make_room(new.rows.height)
            self._facts.fill(self._next, new.facts)
            self._staged = new
        return self._next

    def put(self, new: NewRows) -> None:
        """Add rows."""
        first = self.stage(new)
        if new.rows.height:
            self._next += new.rows.height
            added = slice(first, self._next)
            self._rows.append(new.rows, first, self._until_ms(added))
            self._index.put(new.run.moved(first))
            self._await(np.arange(first, self._next))
        self._staged = None

    def _await(self, places: Numbers) -> None:
        if self.spec.wait_ms is not None:
            waiting = places[self._facts.status[places] == WAITING]
            self._due.put(waiting, self.due_ms(waiting))

    def due_ms(self, places: Numbers) -> Numbers:
        """Return when rows without a partner are due."""
        return self.times_ms(places) + (1 + (self.spec.wait_ms or 0))

    def _reach_ms(self, places: Numbers | slice) -> Numbers | int:
        return self._facts.reach_ms[places] if self.spec.reach_ms is None else self.spec.reach_ms

    def _result_ms(self, places: Numbers | slice) -> Numbers:
        return self._facts.at_ms[places] + np.maximum(self._reach_ms(places), 0)

    def _last_ms(self, places: Numbers | slice) -> Numbers:
        """Return the last clock at which a partner of each row may come."""
        return self._facts.at_ms[places] + (self._reach_ms(places) + self.spec.lateness_ms)

    def _until_ms(self, places: Numbers | slice) -> Numbers:
        """Return the last clock at which each row is needed: also to publish it alone."""
        if self.spec.wait_ms is None:
            return self._last_ms(places) + self.spec.read_ms
        return self._result_ms(places) + self.spec.lateness_ms

    def _make_room(self, count: int) -> None:
        room = self._facts.at_ms.size
        if self._next + count > room:
            facts = RowFacts.empty(max(self._next + count, room + room // 2))
            facts.fill(0, self._facts.at(slice(self._next)))
            self._facts = facts

    def mark(self, places: Numbers, status: int) -> None:
        """Set the status of rows."""
        self._facts.status[places] = status
        self._marked.append(places)

    def pop_due(self, before_ms: int, clock_ms: int) -> Numbers:
        """Return rows without a partner that are due, each once; see ``publish``."""
        places = self._due.pop_due(clock_ms)
        waits = self._facts.status[places] == WAITING
        if self.spec.keeps_published:  # after a restore, those dropped with their marks are back
            waits &= self._until_ms(places) >= before_ms
        else:  # those due before are published, but not purged yet
            waits &= self.due_ms(places) > before_ms
        due: Numbers = places[waits]
        return due

    def publish(self, places: Numbers) -> None:
        """Note that rows are published, if a partner may come later."""
        if self.spec.keeps_published:
            self.mark(places, PUBLISHED)

    def is_pending(self) -> bool:
        """Whether a row without a partner waits until it is due."""
        places = self._due.slots()
        return bool((self._facts.status[places] == WAITING).any())

    # State

    def changes(self) -> Changes:
        """Return, once, the changes since the last call."""
        made = {}
        fresh = [each for each in self._rows.blocks if each.stop > self._fresh]
        if fresh:
            made[self.spec.name] = pl.concat([self._frame(each, self._fresh) for each in fresh])
        marked = self._marked_before(self._fresh)
        if marked.size:
            names = (EVENT_TIME, HIGH, LOW, STATUS)
            keys = columns_of(self.rows(marked), self.spec.key)
            made[self.spec.marks] = keys.hstack(self._facts.at(marked).columns(names))
        self._fresh, self._marked = self._next, []
        return made

    def _marked_before(self, place: int) -> Numbers:
        """Return the marked rows before a place; a row may be dropped after its mark."""
        if not self._marked:
            return _NONE
        marked = np.unique(np.concatenate(self._marked))
        marked = marked[marked < place]
        found: Numbers = marked[self._rows.holds(marked)]
        return found

    def _frame(self, block: RowBlock, first: int, facts: RowFacts | None = None) -> pl.DataFrame:
        """Return the rows of a block from a place on, with their facts."""
        begin = max(block.first, first)
        of_rows = (facts or self._facts).at(slice(begin, block.stop))
        rows = block.block.frame()[begin - block.first :]
        return rows.hstack(of_rows.columns(self._stored_facts))

    @property
    def _stored_facts(self) -> Sequence[str]:
        reach = (REACH,) * (self.spec.reach_ms is None)
        return (EVENT_TIME, HIGH, LOW, *reach, *(STATUS,) * self.spec.tracks)

    def snapshot(self) -> Iterator[Changes]:
        """Return all rows, in pieces that are built lazily."""
        return self._pieces(self._facts.at(np.arange(self._next)), self._rows.blocks)

    def _pieces(self, facts: RowFacts, blocks: Sequence[RowBlock]) -> Iterator[Changes]:
        for block in blocks:
            frame = self._frame(block, 0, facts)
            for begin in range(0, frame.height, _PIECE_ROWS):
                yield {self.spec.name: frame[begin : begin + _PIECE_ROWS]}

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        facts = sum(each.block.height for each in self._rows.blocks) * ROW_BYTES
        return self._rows.size_bytes() + facts

    def open_rows(self) -> int:
        """Return the number of rows that may still pair, as of the last purge."""
        blocks = (self._last_ms(each.places) >= self._purged_ms for each in self._rows.blocks)
        return sum(int(np.count_nonzero(each)) for each in blocks)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the times during which rows may still pair, as of the last purge."""
        return map(self._open_bounds, self._rows.blocks)

    def _open_bounds(self, block: RowBlock) -> OpenBounds:
        last_ms = self._last_ms(block.places)
        pairs = last_ms >= self._purged_ms
        begin_ms, ends_ms = self.at_ms(block.places)[pairs], last_ms[pairs]
        # All partners of a row may be before it.
        return OpenBounds(begin_ms, lambda place: int(max(begin_ms[place], ends_ms[place])))

    def _needed(self, block: RowBlock) -> int:
        """Return the number of rows of a block that are needed, as of the last purge."""
        if block.all_until_ms >= self._purged_ms:
            return block.block.height
        return int(np.count_nonzero(self._until_ms(block.places) >= self._purged_ms))

    def apply(self, changes: Changes) -> None:
        """Apply one piece: its rows, then the status of rows."""
        if self.spec.name in changes:
            self._restore(changes[self.spec.name])
        if self.spec.marks in changes:
            self._restore_status(changes[self.spec.marks])
        self._fresh, self._marked = self._next, []

    def _restore(self, rows: pl.DataFrame) -> None:
        names = set(self._stored_facts) & {*rows.columns}
        stored = {name: rows[name].to_numpy() for name in names}
        reach_ms = 0 if self.spec.reach_ms is None else self.spec.reach_ms
        ids = Ids(stored[HIGH], stored[LOW])
        facts = RowFacts.of(stored[EVENT_TIME], ids, stored.get(REACH, reach_ms))
        if STATUS in stored:
            facts = facts._replace(status=stored[STATUS])
        self.put(NewRows.of(conformed(rows, self.spec.columns), facts, self.spec.key))

    def _restore_status(self, marks: pl.DataFrame) -> None:
        """Set the status of rows, which are found by key, time and identity."""
        at_ms = marks[EVENT_TIME].to_numpy()
        searching = run_by_key(columns_of(marks, self.spec.key), at_ms)
        row, place = pairs_of(find(searching, at_ms, at_ms, self.runs))
        same = self._facts.ids.high[place] == marks[HIGH].to_numpy()[row]
        same &= self._facts.ids.low[place] == marks[LOW].to_numpy()[row]
        self._facts.status[place[same]] = marks[STATUS].to_numpy()[row[same]]

    def purge(self, clock_ms: int) -> None:
        """Drop rows that no row can reach any more, a block at a time."""
        self._purged_ms = max(self._purged_ms, clock_ms)
        self._rows.purge(clock_ms)
        needed = sum(map(self._needed, self._rows.blocks))
        if not needed or self._next > 2 * needed + _FEW:
            self._compact()

    def _compact(self) -> None:
        """Keep only the rows that are needed, at places without gaps."""
        alive = np.zeros(self._next, np.bool_)
        until_ms = self._until_ms(slice(self._next))
        for each in self._rows.blocks:
            alive[each.places] = until_ms[each.places] >= self._purged_ms
        moved = np.where(alive, np.cumsum(alive) - 1, -1)
        self._rows.compact(alive, until_ms[alive])
        self._index.remap(moved)
        self._fresh = int(np.count_nonzero(alive[: self._fresh]))
        marked = moved[np.concatenate([_NONE, *self._marked])]
        self._marked = [marked[marked >= 0]]
        self._facts.fill(0, self._facts.at(np.flatnonzero(alive)))
        self._next = int(np.count_nonzero(alive))
        self._due = DueIndex()
        self._await(np.arange(self._next))

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self._index.validate()
        self._due.validate()
        self._rows.validate(self._next)
        assert self._next <= self._facts.at_ms.size, "places without facts"
