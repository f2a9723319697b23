"""The stateless operators of one source: records in, the rows of every keyed stream out.

A graph is a list of steps in topological order; step 0 is the source.  The rules are those of
docs/semantics.md, "Stateless operators":

1. Every step is a function of one row, so the cuts of the input change nothing.  A step is
   evaluated on all rows at once; if that raises, the rows are split until the bad rows are found.
2. A record is atomic, also if it comes as several rows.  The record is dead if one of its rows
   raises in any step, or reaches a keyed stream with a null in its key.  It is also dead if its
   rows exceed MAX_RECORD_BYTES.  A dead record gives no row to any stream, and one
   reason: that of the first step in order of the graph.
3. Rows keep the order of their records.  The rows of one record are ordered by branch of a union,
   then by position in the output of a flat_map or explode.  SUB_ROW numbers them within a stream.
4. A record that is not dead and gives no row is filtered.

Integers wrap silently if an expression overflows 64 bits: that is polars' arithmetic.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.columns import with_column
from tidemark.core.rows.expression import Columns, first_line, metadata_used
from tidemark.core.rows.probe import FAILURES
from tidemark.core.rows.row_size import MAX_RECORD_BYTES, row_bytes, too_large
from tidemark.core.time.segment import CHANGE_COLUMNS, ROW_COLUMNS, SUB_ROW, TIE

RECORD = "@record"
"""Int64 column of rows: the position of the row's record in the input frame."""

DEAD_COLUMNS: dict[str, pl.DataType] = {
    "record": pl.Int64(),
    "operator": pl.String(),
    "reason": pl.String(),
}

NULL_KEY = "null key"

Records = npt.NDArray[np.intp]

_BATCHES = 8
"""Batches that a failing batch is split into: finds one bad row in few runs."""


class RowOperator(Protocol):
    """The operator of a step, such as a filter; a frozen value."""

    @property
    def label(self) -> str:
        """The name in errors and plans."""

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """The expressions that the operator evaluates."""

    def run(self, rows: pl.DataFrame) -> "StepOutput":
        """Return the step's rows; raise any exception on a bad row.

        ``rows``: the value columns of the input, and others such as RECORD, which stay with
        their rows.
        """


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The rows of a step, and the records that it reports as bad, each with a reason."""

    rows: pl.DataFrame
    bad: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True)
class Step:
    """A node of the graph; ``inputs`` are the numbers of earlier steps, several only for a union.

    ``operator`` is None for the source and for a union, which leave rows as they are.  ``number``:
    the node's number in the logical graph, where sources share nodes after a union.
    """

    operator: RowOperator | None
    inputs: tuple[int, ...]
    columns: Columns
    number: int = 0

    @property
    def label(self) -> str:
        """The name of the step in errors and plans."""
        return self.operator.label if self.operator else "union" if self.inputs else "source"

    @property
    def text(self) -> str:
        """The step with its expressions in full."""
        expressions = self.operator.expressions if self.operator else ()
        return " ".join([self.label, *map(str, expressions)])


@dataclass(frozen=True)
class KeyedOutput:
    """An output of the graph: the rows of a step as a keyed stream."""

    step: int
    key: tuple[str, ...]

    def __str__(self) -> str:
        """Return the text in a plan's description; it must not change, as fingerprints hash it."""
        return f"Keyed(step={self.step}, key={self.key})"


@dataclass(frozen=True)
class GraphOutput:
    """The rows of each keyed stream, and the dead records.

    ``streams``: by name, rows with the ROW_COLUMNS, TIE and CHANGE_COLUMNS that the records had,
    SUB_ROW and the stream's columns.  ``dead``: one row per dead record, in order, with
    DEAD_COLUMNS.  ``passed``: Boolean, by record: whether it gave a row.
    """

    streams: Mapping[str, pl.DataFrame]
    dead: pl.DataFrame
    passed: pl.Series

    @property
    def filtered(self) -> int:
        """The number of records that gave no row and are not dead."""
        return len(self.passed) - int(self.passed.sum()) - self.dead.height


@dataclass
class _DeadRecords:
    """The first reason of each dead record, in order of steps, then of rows."""

    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, record: int, operator: str, reason: str) -> None:
        self.reasons.setdefault(record, (operator, reason))

    def frame(self) -> pl.DataFrame:
        rows = [(record, *self.reasons[record]) for record in sorted(self.reasons)]
        return pl.DataFrame(rows, schema=DEAD_COLUMNS, orient="row")


@dataclass(frozen=True)
class StatelessGraph:
    """All stateless operators between one source and the keyed streams it feeds."""

    steps: tuple[Step, ...]
    streams: Mapping[str, KeyedOutput]

    @cached_property
    def metadata(self) -> tuple[str, ...]:
        """The metadata columns that steps name, which the records must have."""
        steps = [step.operator for step in self.steps if step.operator]
        return metadata_used(e for operator in steps for e in operator.expressions)

    def only(self, names: Collection[str]) -> "StatelessGraph":
        """Return the part of the graph that rows of the streams ``names`` pass."""
        streams = {name: keyed for name, keyed in self.streams.items() if name in names}
        needed = {0, *(keyed.step for keyed in streams.values())}
        for number in range(len(self.steps) - 1, 0, -1):
            if number in needed:
                needed.update(self.steps[number].inputs)
        place = {number: index for index, number in enumerate(sorted(needed))}
        steps = [
            replace(self.steps[n], inputs=tuple(place[i] for i in self.steps[n].inputs))
            for n in place
        ]
        return StatelessGraph(
            tuple(steps),
            {name: replace(keyed, step=place[keyed.step]) for name, keyed in streams.items()},
        )

    def evaluate(self, rows: pl.DataFrame, records: Records | None = None) -> GraphOutput:
        """Return the rows that records become, and the dead records.

        ``rows``: ordered by (source, offset), with the source's value columns, the ``metadata``
        columns, and any of ROW_COLUMNS.  ``records``: the number of each row's record, from 0
        without gaps, if a record may have several rows.
        """
        dead_records = _DeadRecords()
        frames: list[pl.DataFrame] = []
        numbers = np.arange(rows.height) if records is None else records
        height = int(numbers[-1]) + 1 if len(numbers) else 0
        index = pl.Series(RECORD, numbers)
        for step in self.steps:
            frames.append(
                self._step(step, frames, dead_records) if step.inputs else rows.hstack([index])
            )
        for keyed in self.streams.values():
            _kill_null_keys(frames[keyed.step], keyed, dead_records)
        self._kill_oversized(frames, height, dead_records)
        dead = dead_records.frame()
        streams = {
            name: self._stream(frames[keyed.step], keyed, dead)
            for name, keyed in self.streams.items()
        }
        passed = np.zeros(height, np.bool_)
        for stream in streams.values():
            passed[stream[RECORD].to_numpy()] = True
        return GraphOutput(
            {name: stream[:, 1:] for name, stream in streams.items()},
            dead,
            pl.Series("passed", passed),
        )

    def _step(
        self, step: Step, frames: Sequence[pl.DataFrame], dead_records: _DeadRecords
    ) -> pl.DataFrame:
        if step.operator is None:
            branches = [frames[source] for source in step.inputs]
            if len(branches) == 1:
                return branches[0]
            names = branches[0].columns
            return pl.concat([branch.select(names) for branch in branches]).sort(
                RECORD, maintain_order=True
            )
        rows = frames[step.inputs[0]]
        parts = [part for part in _run(step.operator, rows, dead_records) if part.height]
        if len(parts) == 1:
            return parts[0]
        others = non_value_columns(rows, self.steps[step.inputs[0]].columns).schema
        empty = pl.DataFrame(schema={**others, **step.columns})
        return pl.concat([empty, *(part.select(empty.columns) for part in parts)])

    def _kill_oversized(
        self, frames: Sequence[pl.DataFrame], height: int, dead_records: _DeadRecords
    ) -> None:
        """Report the records whose rows exceed MAX_RECORD_BYTES as dead."""
        sizes_of_rows = [
            (rows[RECORD], row_bytes((rows[n] for n in self.steps[step].columns), rows.height))
            for step, rows in ((keyed.step, frames[keyed.step]) for keyed in self.streams.values())
        ]
        if sum(int(sizes.sum()) for _, sizes in sizes_of_rows) <= MAX_RECORD_BYTES:
            return  # all records together do not exceed it
        total = np.zeros(height, np.int64)
        for records, sizes in sizes_of_rows:
            np.add.at(total, records.to_numpy(), sizes)
        for record in np.flatnonzero(total > MAX_RECORD_BYTES).tolist():
            dead_records.add(record, "log", too_large(int(total[record])))

    def _stream(self, rows: pl.DataFrame, keyed: KeyedOutput, dead: pl.DataFrame) -> pl.DataFrame:
        if dead.height:
            rows = rows.filter(~pl.col(RECORD).is_in(dead["record"].implode()))
        columns = self.steps[keyed.step].columns
        rows = with_column(rows, _sub_rows(rows[RECORD]))
        lead = [name for name in (*ROW_COLUMNS, TIE, *CHANGE_COLUMNS) if name in rows.columns]
        return rows[[RECORD, *lead, *columns]]


def _run(
    operator: RowOperator, rows: pl.DataFrame, dead_records: _DeadRecords
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a step, in order; split the input until each row that raises is alone."""
    if rows.is_empty():
        return
    try:
        result = operator.run(rows)
    except MemoryError:  # which says nothing about the rows
        raise
    except FAILURES as error:  # a user's function or expression may raise anything
        if rows.height == 1:
            dead_records.add(rows.item(0, RECORD), operator.label, first_line(error))
            return
        for part in rows.iter_slices(-(-rows.height // _BATCHES)):
            yield from _run(operator, part, dead_records)
        return
    for record, reason in result.bad:
        dead_records.add(record, operator.label, reason)
    yield result.rows


def non_value_columns(rows: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Return the columns that stay with their rows: all except the value columns."""
    return rows.select(name for name in rows.columns if name not in columns)


def _kill_null_keys(rows: pl.DataFrame, keyed: KeyedOutput, dead_records: _DeadRecords) -> None:
    if not any(rows[name].null_count() for name in keyed.key):
        return
    null = pl.any_horizontal(pl.col(name).is_null() for name in keyed.key)
    operator = f"key_by({', '.join(keyed.key)})"
    for record in rows.filter(null)[RECORD]:
        dead_records.add(record, operator, NULL_KEY)


def _sub_rows(records: pl.Series) -> pl.Series:
    """Return the number of each row within its record, from 0; rows of a record are contiguous."""
    numbers = records.to_numpy()
    position = np.arange(len(numbers), dtype=np.int32)
    first = np.ones(len(numbers), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    starts = np.maximum.accumulate(np.where(first, position, 0)) if len(numbers) else position
    return pl.Series(SUB_ROW, position - starts, pl.Int32)


def with_metadata(
    rows: pl.DataFrame, columns: Columns, expressions: Sequence[pl.Expr]
) -> pl.DataFrame:
    """Return the columns that expressions see: value columns, and metadata that they name."""
    return rows.select(*columns, *metadata_used(expressions))
