"""Rows joined to a versioned table: each row has the version that counts at its event time.

See docs/semantics.md, "Tables".  ``versions.py`` finds the answers.  Rows wait for the clock
(waiting_rows.py), or are answered in the order of the log (recorded_order.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from tidemark.core.operators.identity import hex_texts, ids_of_rows
from tidemark.core.operators.joins.answered_rows import AnsweredRows, answers_of
from tidemark.core.operators.joins.judged_versions import judged_versions
from tidemark.core.operators.joins.recorded_order import answers_in_recorded_order
from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.table_state import LeftRows, TableState
from tidemark.core.operators.joins.version_runs import DELETED, FROM, RANK
from tidemark.core.operators.joins.versions import Versions
from tidemark.core.operators.operator import Body, Frames, Mask, Numbers, TimePortion
from tidemark.core.operators.ports import (
    APPEND,
    LATE,
    ROWS,
    UPSERT,
    Port,
    RowTime,
    late_port,
    shown_key,
)
from tidemark.core.operators.rows import EVENT_TIME_MS, ID
from tidemark.core.operators.waiting_rows import JudgesByTime, WaitingRows, passed_ms
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.row_watermarks import ORDER, SEGMENT, with_segment
from tidemark.core.time.segment import (
    EVENT_TIME,
    OFFSET,
    SOURCE,
    SUB_ROW,
    WATERMARK,
)
from tidemark.core.windows.pane import RETRACTED, REVISION

Wait = Literal["event_time", "arrival"]
TableKind = Literal["inner", "left"]


@dataclass(frozen=True)
class TableJoin(Body):
    """Answers rows of the left input by versions of the right one, the table.

    Args:
        key: names of the key columns, the same in both inputs.
        left: the side of the rows.
        right: the side of the table.
        how: "inner" leaves out rows without an answer; "left" gives them nulls.
        keep_ms: how much older than a row a version may be that answers it.
        allowed_lateness_ms: how far behind W rows are accepted, and versions count.
        wait: "event_time" answers when the clock has passed a row; "arrival" at once, by the
            versions before the row in the log, and never again.
        on_close: with an allowed lateness, whether rows are answered before it has passed, and
            anew if a late version changes the answer.
        deleted: over the columns of the table, whether a version is a tombstone.
    """

    key: tuple[str, ...]
    left: Side
    right: Side
    how: TableKind
    keep_ms: int
    allowed_lateness_ms: int = 0
    wait: Wait = "event_time"
    on_close: bool = False
    deleted: pl.Expr | None = None

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of answers, and of late rows of each side."""
        key = shown_key(self.key)
        columns: dict[str, pl.DataType] = {
            ID: pl.String(),
            **{name: self.left.columns[name] for name in key},
            **self._shown,
            EVENT_TIME_MS: pl.Int64(),
        }
        if self._corrects:
            columns |= {REVISION: pl.Int64(), RETRACTED: pl.Boolean()}
        rows = Port(
            ROWS,
            ROWS,
            columns,
            key,
            message_key=(ID,),
            identity=(ID,),
            row_time=RowTime(EVENT_TIME_MS),
            values=tuple(self._shown) if self._corrects else (),
            mode=UPSERT if self._corrects else APPEND,
            instants=frozenset({EVENT_TIME_MS}),
            holds_ms=self.allowed_lateness_ms,
        )
        sides = (self.left, self.right)
        late = (late_port(self.key, each.columns, name=_late(each)) for each in sides)
        return rows, *late

    @cached_property
    def _shown(self) -> dict[str, pl.DataType]:
        """The columns of both sides that results show, by their names there, with types."""
        return {**self.left.results, **self.right.results}

    @property
    def _corrects(self) -> bool:
        """Whether late versions change published answers."""
        return self.on_close and self.allowed_lateness_ms > 0 and self.wait == "event_time"

    @property
    def _wait_ms(self) -> int:
        """How long after a row the clock must be for its answer."""
        return 0 if self._corrects else self.allowed_lateness_ms

    @property
    def can_batch(self) -> bool:
        """True: versions that could change an answer of an earlier segment go alone."""
        return True

    def needs_own_step(self, sides: Frames) -> Mapping[str, Mask]:
        """Mark rows and versions behind their W, if late versions change published answers."""
        return {
            name: (frame[EVENT_TIME] < frame[WATERMARK]).to_numpy() & self._corrects
            for name, frame in sides.items()
        }

    def open(self, store: BlockStore = IN_MEMORY, /) -> TableState:
        """Return empty state."""
        lateness_ms = self.allowed_lateness_ms
        left = {name: self.left.columns[name] for name in (*self.key, *self.left.shown)}
        right = {name: self.right.columns[name] for name in (*self.key, *self.right.shown)}
        return TableState(
            Versions(self.key, right, self.keep_ms, lateness_ms, store),
            LeftRows(
                WaitingRows(left, store, lateness_ms),
                AnsweredRows(self.key, lateness_ms, store),
            ),
        )

    def process(self, sides: Frames, state: TableState) -> Frames:
        """Add versions; let rows wait, or answer them at once."""
        rows, table = sides[self.left.name], sides[self.right.name]
        versions, old = judged_versions(table, self.keep_ms, self.allowed_lateness_ms, self.deleted)
        frames = {_late(self.right): old}
        if self.wait == "arrival":
            rows, frames[_late(self.left)] = JudgesByTime(self.allowed_lateness_ms).split(rows)
            answers = answers_in_recorded_order(
                rows, versions, state.versions, self.key, self._version_columns
            )
            frames[ROWS] = self._appended(rows, answers)
        else:
            frames[_late(self.left)] = state.rows.waiting.take(rows.drop(ORDER))
            state.versions.add(versions)
        if self._corrects:
            passed = versions.filter(pl.col(FROM) < pl.col(WATERMARK))
            state.behind = passed.select(self.key).unique() if passed.height else None
        return frames

    @property
    def _version_columns(self) -> list[str]:
        which = RANK if self._corrects or self.wait == "arrival" else (EVENT_TIME,)
        return [*which, DELETED, *self.right.shown]

    def _shown_answers(self, rows: pl.DataFrame, answers: pl.DataFrame) -> list[pl.Series]:
        """Return the columns of results up to the event time."""
        return [
            hex_texts(ID, ids_of_rows(rows)),
            *(rows[name] for name in shown_key(self.key)),
            *(rows[name].alias(shown) for name, shown in self.left.shown.items()),
            *(answers[name].alias(shown) for name, shown in self.right.shown.items()),
            rows[EVENT_TIME].alias(EVENT_TIME_MS),
        ]

    def _appended(self, rows: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
        """Return results, each published once; in a batch with SEGMENT."""
        made = self._shown_answers(rows, answers)
        made += [rows[SEGMENT]] if SEGMENT in rows.columns else []
        results = pl.DataFrame(made)
        return results if self.how == "left" else results.filter(_has_answer(answers))

    def advance(self, state: TableState, before_ms: int, clock_ms: int) -> Frames:
        """Answer the rows that the clock has passed; answer rows anew that late versions change."""
        portions = self.advance_in_portions(state, before_ms, clock_ms)
        frames = [frame for portion in portions for frame in portion.frames.values()]
        return {ROWS: pl.concat(frames)} if frames else {}

    def advance_each(self, state: TableState, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return the answers of ``advance`` for each segment: the first whose clock passes them."""
        frames = self.advance(state, before_ms, clock_ms[-1])
        if not frames:
            return {}
        waits_until_ms = frames[ROWS][EVENT_TIME_MS].to_numpy() + self._wait_ms
        return {ROWS: with_segment(frames[ROWS], waits_until_ms, clock_ms)}

    def advance_in_portions(
        self, state: TableState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the answers of a stretch of time after those of the one before."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        if self.wait == "arrival":
            yield TimePortion({}, clock_ms)
            return
        anew = self._answered_anew(state)
        end_ms = passed_ms(clock_ms, self._wait_ms)
        for stop_ms in state.rows.waiting.stops(end_ms):
            due = state.rows.waiting.release(stop_ms)
            results = self._answers(due, state, clock_ms)
            if anew is not None:
                results, anew = pl.concat([anew, results]), None
            done = stop_ms >= end_ms
            yield TimePortion({ROWS: results}, clock_ms if done else stop_ms + self._wait_ms)

    def _answers(self, rows: pl.DataFrame | None, state: TableState, clock_ms: int) -> pl.DataFrame:
        """Return the first answers of rows."""
        if rows is None:
            return pl.DataFrame(schema=self.outputs[0].columns)
        answers = self._find(rows, state)
        if not self._corrects:
            return self._appended(rows, answers)
        revision = np.ones(rows.height, np.int64)
        if self.how == "inner":
            revision = _has_answer(answers).to_numpy().astype(np.int64)
        state.rows.answered.add(rows.select(self._row_columns), answers, revision, clock_ms)
        return self._upserted(rows, answers, revision).filter(pl.Series(revision > 0))

    @property
    def _row_columns(self) -> list[str]:
        return [SOURCE, OFFSET, SUB_ROW, EVENT_TIME, *self.key, *self.left.shown]

    def _find(self, rows: pl.DataFrame, state: TableState) -> pl.DataFrame:
        return answers_of(state.versions.answers(rows, self._version_columns))

    def _answered_anew(self, state: TableState) -> pl.DataFrame | None:
        """Return the results that versions since the last call change."""
        behind, state.behind = state.behind, None
        rows = None if behind is None else state.rows.answered.of(behind)
        if rows is None:
            return None
        rows = rows.sort(EVENT_TIME, SOURCE, OFFSET, SUB_ROW)
        answers = self._find(rows, state)
        changed = state.rows.answered.changed(rows, answers)
        rows, answers = rows.filter(changed), answers.filter(changed)
        if rows.is_empty():
            return None
        revision = state.rows.answered.revision(rows) + 1
        state.rows.answered.add(rows.select(self._row_columns), answers, revision)
        return self._upserted(rows, answers, revision)

    def _upserted(
        self, rows: pl.DataFrame, answers: pl.DataFrame, revision: Numbers
    ) -> pl.DataFrame:
        """Return results with their revision; inner ones without an answer are withdrawn."""
        withdrawn = ~_has_answer(answers) & (self.how == "inner")
        return pl.DataFrame(
            [
                *self._shown_answers(rows, answers),
                pl.Series(REVISION, revision),
                withdrawn.alias(RETRACTED),
            ]
        )

    def pending(self, state: TableState) -> bool:
        """Whether rows wait for the clock."""
        return len(state.rows.waiting) > 0


def _late(side: Side) -> str:
    return f"{LATE}-{side.name}"


def _has_answer(answers: pl.DataFrame) -> pl.Series:
    return answers[EVENT_TIME].is_not_null()
