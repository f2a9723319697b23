"""The state of one side of a join: its rows, found by key and event time.

Rows lie in blocks in a store, in order of arrival; a row's *place* is its position over all blocks.
What searches need is in memory: facts of each row by place, a time index (time_index.py), and the
times at which rows without a partner are due.  Blocks of small size are merged.  ``purge`` drops
blocks whose rows can all be dropped; once most places are gone, the others get new places.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.joins.identity import Ids
from tidemark.core.operators.joins.time_index import (
    Eras,
    Run,
    TimeIndex,
    eras_of,
    find,
    pairs_of,
)
from tidemark.core.operators.operator import Changes
from tidemark.core.state.block_store import Block, BlockStore
from tidemark.core.state.blocks import in_one_chunk, lines_at
from tidemark.core.state.due_index import DueIndex
from tidemark.core.state.keyed_lines import Facts, Mask, Numbers, hashes_of
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS

WAITING, MATCHED, PUBLISHED = 0, 1, 2
"""Status of a row: without a partner; with one; published as a row without a partner."""

HIGH, LOW = "@id_high", "@id_low"
REACH = "@reach"
STATUS = "@status"
"""Columns of frames of changes, besides EVENT_TIME; changelogs store the names."""

_FACTS = np.dtype(
    [
        (EVENT_TIME, np.int64),
        (HIGH, np.uint64),
        (LOW, np.uint64),
        (REACH, np.int64),
        (STATUS, np.uint8),
    ]
)
_MANY = 8
_FEW = 2_048
_LARGE = 1 << 16
"""Maximum rows of a merged block."""

_PIECE_ROWS = 32_768
_GONE = -1


@dataclass(frozen=True)
class SideSpec:
    """What the rows of one side need.

    Args:
        name: of the frames of changes.
        key: names of the key columns.
        columns: types of the key columns and of the columns that results show.
        reach_ms: how far after the row, in event time, its latest partner may be; None if each
            row has a reach of its own.
        lateness_ms: the allowed lateness.
        tracks: whether the status of a row counts.
        wait_ms: how long after its time a row without a partner is due; None if it gives no result.
        keeps_published: whether a partner may come after the row is published.
    """

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    reach_ms: int | None
    lateness_ms: int
    tracks: bool
    wait_ms: int | None
    keeps_published: bool

    @property
    def marks(self) -> str:
        """The name of the frame of rows whose status changed."""
        return f"{self.name}-status"


class NewRows(NamedTuple):
    """Rows of a side.

    ``rows``: the columns of ``SideSpec``.  ``facts``: of each row.  ``eras``: runs of the rows by
    number, of those whose key has no null; only they can pair.
    """

    rows: pl.DataFrame
    facts: Facts
    eras: Eras

    @property
    def at_ms(self) -> Numbers:
        """The event time of each row."""
        at_ms: Numbers = self.facts[EVENT_TIME]
        return at_ms

    @classmethod
    def of(cls, rows: pl.DataFrame, facts: Facts, key: Sequence[str]) -> "NewRows":
        """Return rows, in runs by the hash of their keys."""
        return cls(rows, facts, _eras_of(columns_of(rows, key), facts[EVENT_TIME]))

    @property
    def runs(self) -> list[Run]:
        """The runs of rows by number."""
        return [*self.eras.values()]

    def runs_from(self, first: int) -> list[Run]:
        """Return the runs of rows by place; ``first``: that of the first row."""
        return [run.moved(first) for run in self.eras.values()]


def columns_of(rows: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return some columns; faster than ``select``, which waits for a thread."""
    return pl.DataFrame([rows[name] for name in names])


def empty_facts(count: int) -> Facts:
    """Return facts of rows, all zero."""
    return np.zeros(count, _FACTS)


@dataclass(slots=True)
class _Block:
    """A block of rows at places ``first`` and so on.

    ``all_until_ms``, ``some_until_ms``: the last clocks at which all and some rows are needed.
    """

    block: Block
    first: int
    all_until_ms: int
    some_until_ms: int

    @property
    def height(self) -> int:
        return self.block.height

    @property
    def stop(self) -> int:
        return self.first + self.block.height


class SideRows:
    """The rows of one side of a join, on one log partition."""

    def __init__(self, spec: SideSpec, store: BlockStore) -> None:
        """Start empty."""
        self.spec = spec
        self._store = store
        self._blocks: list[_Block] = []
        self._facts = np.empty(0, _FACTS)  # by place; room for more
        self._next = 0
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

    def facts(self, places: Numbers) -> Facts:
        """Return the facts of rows."""
        return self._facts.take(places)

    def at_ms(self, places: Numbers) -> Numbers:
        """Return the event times of rows."""
        at_ms: Numbers = self._facts[EVENT_TIME][places]
        return at_ms

    def ids(self, places: Numbers) -> Ids:
        """Return the identities of rows."""
        return Ids(self._facts[HIGH][places], self._facts[LOW][places])

    def times_ms(self, places: Numbers) -> Numbers:
        """Return the event times of rows as results without a partner: max(t, t + reach)."""
        return _result_ms(self._facts[places])

    def rows(self, places: Numbers) -> pl.DataFrame:
        """Return rows, in the order of places."""
        if not places.size:
            return pl.DataFrame(schema=pl.Schema(self.spec.columns))
        firsts = np.array([block.first for block in self._blocks])
        number = np.searchsorted(firsts, places, "right") - 1
        used = np.flatnonzero(np.bincount(number, minlength=firsts.size))
        if used.size == 1:
            block = self._blocks[used[0]]
            return lines_at(block.block.frame(), places - block.first)
        order = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[order], np.append(used, firsts.size))
        parts = []
        for at, index in enumerate(used):
            block, some = self._blocks[index], order[bounds[at] : bounds[at + 1]]
            parts.append(lines_at(block.block.frame(), places[some] - block.first))
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return lines_at(in_one_chunk(pl.concat(parts)), back)

    def stage(self, new: NewRows) -> int:
        """Make the facts of rows readable by the places that ``put`` gives; return the first."""
        self._make_room(new.facts.size)
        self._facts[self._next : self._next + new.facts.size] = new.facts
        return self._next

    def put(self, new: NewRows) -> None:
        """Add rows."""
        first = self.stage(new)
        if new.facts.size:
            self._append(new.rows, first)
            self._next += new.facts.size
            self._index.put({era: run.moved(first) for era, run in new.eras.items()})
            self._await(np.arange(first, self._next))

    def _await(self, places: Numbers) -> None:
        if self.spec.wait_ms is not None:
            waiting = places[self._facts[STATUS][places] == WAITING]
            self._due.put(waiting, self.due_ms(waiting))

    def due_ms(self, places: Numbers) -> Numbers:
        """Return when rows without a partner are due."""
        return self.times_ms(places) + 1 + (self.spec.wait_ms or 0)

    def _keep_ms(self, facts: Facts) -> Numbers:
        """Return the last clock at which each row is needed."""
        if self.spec.wait_ms is None:
            last_ms: Numbers = facts[EVENT_TIME] + facts[REACH] + self.spec.lateness_ms
            return last_ms
        return _result_ms(facts) + self.spec.lateness_ms

    def _make_room(self, count: int) -> None:
        if self._next + count > self._facts.size:
            size = max(self._next + count, self._facts.size + self._facts.size // 2)
            facts = np.empty(size, _FACTS)
            facts[: self._next] = self._facts[: self._next]
            self._facts = facts

    def _append(self, rows: pl.DataFrame, first: int) -> None:
        """Store rows as blocks, behind all others."""
        most = self._most_rows(rows)
        for begin in range(0, rows.height, most):
            self._blocks.append(self._stored(rows[begin : begin + most], first + begin))
        self._merge()

    def _most_rows(self, rows: pl.DataFrame) -> int:
        most_bytes = self._store.frame_bytes
        if most_bytes is None:
            return _LARGE
        return max(1, min(_LARGE, most_bytes * rows.height // (int(rows.estimated_size()) + 1)))

    def _stored(self, rows: pl.DataFrame, first: int) -> _Block:
        keep_ms = self._keep_ms(self._facts[first : first + rows.height])
        last_ms = int(keep_ms.max())
        block = self._store.put(last_ms, in_one_chunk(rows))
        return _Block(block, first, int(keep_ms.min()), last_ms)

    def _merge(self) -> None:
        """Merge the newest blocks while many are of similar size; neighbours keep their places."""
        while (merged := self._similar()) is not None:
            frame = pl.concat([block.block.frame() for block in merged])
            del self._blocks[-len(merged) :]
            self._blocks.append(self._stored(frame, merged[0].first))

    def _similar(self) -> list[_Block] | None:
        """Return the newest blocks, if they can be merged."""
        newest = self._blocks[-_MANY:]
        most = max(_FEW, _MANY * newest[-1].height)
        if len(newest) < _MANY or any(block.height >= most for block in newest):
            return None
        together = all(one.stop == other.first for one, other in pairwise(newest))
        rows = sum(block.height for block in newest)
        size = sum(block.block.size_bytes for block in newest)
        fits = rows <= _LARGE and size <= (self._store.frame_bytes or size)
        return newest if together and fits else None

    def mark(self, places: Numbers, status: int) -> None:
        """Set the status of rows."""
        self._facts[STATUS][places] = status
        self._marked.append(places)

    def pop_due(self, before_ms: int, clock_ms: int) -> Numbers:
        """Return rows without a partner that are due, each once; see ``publish``."""
        places = self._due.pop_due(clock_ms)
        waits = self._facts[STATUS][places] == WAITING
        if not self.spec.keeps_published:  # those due before are published, but not purged yet
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
        return bool((self._facts[STATUS][places] == WAITING).any())

    # State

    def changes(self) -> Changes:
        """Return, once, the changes since the last call."""
        made = {}
        fresh = [self._frame(block, self._fresh) for block in self._blocks]
        if any(frame.height for frame in fresh):
            made[self.spec.name] = pl.concat([frame for frame in fresh if frame.height])
        marked = np.unique(np.concatenate([_NONE, *self._marked]))
        marked = marked[marked < self._fresh]
        if marked.size:
            facts = self._facts[marked]
            names = (EVENT_TIME, HIGH, LOW, STATUS)
            keys = self.rows(marked).select(self.spec.key)
            made[self.spec.marks] = keys.hstack(_columns(facts, names))
        self._fresh, self._marked = self._next, []
        return made

    def _frame(self, block: _Block, first: int, facts: Facts | None = None) -> pl.DataFrame:
        """Return the rows of a block from a place on, with their facts."""
        begin = max(block.first, first)
        if begin >= block.stop:
            return pl.DataFrame()
        of_rows = (self._facts if facts is None else facts)[begin : block.stop]
        rows = block.block.frame()[begin - block.first :]
        return rows.hstack(_columns(of_rows, self._stored_facts))

    @property
    def _stored_facts(self) -> Sequence[str]:
        reach = (REACH,) * (self.spec.reach_ms is None)
        return (EVENT_TIME, HIGH, LOW, *reach, *(STATUS,) * self.spec.tracks)

    def snapshot(self) -> Iterator[Changes]:
        """Return all rows, in pieces that are built lazily."""
        facts, blocks = self._facts[: self._next].copy(), tuple(self._blocks)
        return self._pieces(facts, blocks)

    def _pieces(self, facts: Facts, blocks: Sequence[_Block]) -> Iterator[Changes]:
        for block in blocks:
            frame = self._frame(block, 0, facts)
            for begin in range(0, block.height, _PIECE_ROWS):
                yield {self.spec.name: frame[begin : begin + _PIECE_ROWS]}

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return sum(
            block.block.size_bytes + block.height * _FACTS.itemsize for block in self._blocks
        )

    def open_rows(self) -> int:
        """Return the number of rows that may still pair, as of the last purge."""
        return sum(self._live(block) for block in self._blocks)

    def _live(self, block: _Block) -> int:
        if block.all_until_ms >= self._purged_ms:
            return block.height
        return int(np.count_nonzero(self._is_live(slice(block.first, block.stop))))

    def _is_live(self, places: slice) -> Mask:
        kept: Mask = self._keep_ms(self._facts[places]) >= self._purged_ms
        return kept

    def apply(self, changes: Changes) -> None:
        """Apply one piece: its rows, then the status of rows."""
        if self.spec.name in changes:
            self._restore(changes[self.spec.name])
        if self.spec.marks in changes:
            self._restore_status(changes[self.spec.marks])
        self._fresh, self._marked = self._next, []

    def _restore(self, rows: pl.DataFrame) -> None:
        facts = empty_facts(rows.height)
        if self.spec.reach_ms is not None:
            facts[REACH] = self.spec.reach_ms
        for name in set(self._stored_facts) & {*rows.columns}:
            facts[name] = rows[name].to_numpy()
        self.put(NewRows.of(conformed(rows, self.spec.columns), facts, self.spec.key))

    def _restore_status(self, marks: pl.DataFrame) -> None:
        """Set the status of rows, which are found by key, time and identity."""
        at_ms = marks[EVENT_TIME].to_numpy()
        rows = _eras_of(marks.select(self.spec.key), at_ms).values()
        row, place = pairs_of(find([*rows], at_ms, at_ms, self.runs))
        same = self._facts[HIGH][place] == marks[HIGH].to_numpy()[row]
        same &= self._facts[LOW][place] == marks[LOW].to_numpy()[row]
        self._facts[STATUS][place[same]] = marks[STATUS].to_numpy()[row[same]]

    def purge(self, clock_ms: int) -> None:
        """Drop rows that no row can reach any more, a block at a time."""
        self._purged_ms = max(self._purged_ms, clock_ms)
        self._blocks = [block for block in self._blocks if block.some_until_ms >= clock_ms]
        if self._next > 2 * self.open_rows() + _FEW or not self._blocks:
            self._compact()

    def _compact(self) -> None:
        """Give the rows that are needed new places, without gaps."""
        alive = np.zeros(self._next, np.bool_)
        for block in self._blocks:
            places = slice(block.first, block.stop)
            alive[places] = self._is_live(places)
        moved = np.where(alive, np.cumsum(alive) - 1, _GONE)
        kept = np.flatnonzero(alive)
        blocks, self._blocks = self._blocks, []
        self._fresh = int(np.count_nonzero(alive[: self._fresh]))
        marked = moved[np.concatenate([_NONE, *self._marked])]
        self._marked = [marked[marked != _GONE]]
        self._facts, self._next = self._facts[kept], kept.size
        first = 0
        for block in blocks:
            some = np.flatnonzero(alive[block.first : block.stop])
            if some.size:
                rows = lines_at(block.block.frame(), some)
                self._blocks.append(self._stored(rows, first))
                first += some.size
        self._index.remap(moved)
        self._due = DueIndex()
        self._await(np.arange(self._next))

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self._index.validate()
        self._due.validate()
        stop = 0
        for block in self._blocks:
            assert block.first >= stop, "blocks overlap"
            assert block.height > 0, "an empty block"
            stop = block.stop
        assert stop <= self._next, "a block without facts"
        assert self._next <= self._facts.size, "places without facts"


_NONE = np.empty(0, np.int64)


def _eras_of(keys: pl.DataFrame, at_ms: Numbers) -> Eras:
    """Return runs of the rows whose key has no null."""
    nulls = [column.is_null().to_numpy() for column in keys if column.null_count()]
    if not nulls:
        return eras_of(hashes_of(keys), at_ms, np.arange(keys.height))
    some = ~np.logical_or.reduce(nulls)
    return eras_of(hashes_of(keys.filter(pl.Series(some))), at_ms[some], np.flatnonzero(some))


def conformed(rows: pl.DataFrame, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return rows with these columns only; one that is missing is null."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in columns.items()
    )


def _result_ms(facts: Facts) -> Numbers:
    at_ms: Numbers = facts[EVENT_TIME] + np.maximum(facts[REACH], 0)
    return at_ms


def _columns(facts: Facts, names: Sequence[str]) -> list[pl.Series]:
    return [pl.Series(name, np.ascontiguousarray(facts[name])) for name in names]
