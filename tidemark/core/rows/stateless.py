"""The stateless operators of one source: records in, the rows of every keyed stream out.

A graph is a list of steps in topological order; step 0 is the source.  Rules, which
docs/semantics.md, "Stateless operators", states:

1. Every step is a function of one row, so cutting the input changes nothing.  A step is evaluated
   on all rows at once; only where that raises are the guilty rows looked for.
2. A record is atomic: if a row of it raises in any step, or reaches a keyed stream with a null in
   its key, the record dies.  It gives no row to any stream and one reason, that of the first step
   in order of the graph.  So does one whose rows take more room than MAX_RECORD_BYTES.
3. Rows keep the order of their records; the rows of one record are ordered by branch of a union,
   then by position in what a flat_map or explode made.  SUB_ROW numbers them within a stream.
4. A record that neither dies nor gives a row was filtered.

Integers wrap silently where an expression overflows 64 bits: that is polars' arithmetic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import polars as pl

from tidemark.core.rows.expression import Columns, first_line, metadata_used
from tidemark.core.rows.probe import FAILURES
from tidemark.core.rows.row_size import MAX_RECORD_BYTES, row_bytes, too_large
from tidemark.core.time.segment import ROW_COLUMNS, SUB_ROW

RECORD = "@record"  # position of a row's record in the input frame

DEAD_COLUMNS: dict[str, pl.DataType] = {
    "record": pl.Int64(),
    "operator": pl.String(),
    "reason": pl.String(),
}

NULL_KEY = "null key"

_PIECES = 8  # finds one bad row in few runs, and a batch of bad rows in little more than one a row


class RowOperator(Protocol):
    """What a step does with rows; a frozen value."""

    @property
    def label(self) -> str:
        """How errors and plans call it."""

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """The expressions it evaluates."""

    def run(self, rows: pl.DataFrame) -> "StepOutput":
        """Turn rows into the step's rows; raise on a bad row.

        Columns that are no values of the stream stay with their rows.
        """


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Rows a step made, and the records it found bad itself, with a reason each."""

    rows: pl.DataFrame
    bad: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True)
class Step:
    """A node of the graph: ``inputs`` are earlier steps (several only for a union).

    ``number``: the node's in the pipeline's logical graph, where sources share nodes after a union.
    """

    operator: RowOperator | None  # None: the source, or a union, which leave rows as they are
    inputs: tuple[int, ...]
    columns: Columns
    number: int = 0

    @property
    def label(self) -> str:
        """How errors and plans call the step."""
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


@dataclass(frozen=True)
class GraphOutput:
    """What a frame of records became.

    ``streams``: the ROW_COLUMNS that the records had, SUB_ROW and the stream's columns.
    ``dead``: DEAD_COLUMNS, one row per dead record, in order.  ``passed``: by record.
    """

    streams: Mapping[str, pl.DataFrame]
    dead: pl.DataFrame
    passed: pl.Series

    @property
    def filtered(self) -> int:
        """Count the records that gave no row and did not die."""
        return len(self.passed) - int(self.passed.sum()) - self.dead.height


@dataclass
class _DeadRecords:
    """The reason each dead record died of: the first in order of steps, then of rows."""

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
        """The metadata columns that the records must have: those that a step names."""
        steps = [step.operator for step in self.steps if step.operator]
        return metadata_used(e for operator in steps for e in operator.expressions)

    def evaluate(self, records: pl.DataFrame) -> GraphOutput:
        """Run records through every step.

        ``records``: one row each, ordered by (source, offset), with the source's value columns,
        the ``metadata`` columns, and any of ROW_COLUMNS.
        """
        dead_records = _DeadRecords()
        frames: list[pl.DataFrame] = []
        index = pl.Series(RECORD, np.arange(records.height))
        for step in self.steps:
            frames.append(
                self._step(step, frames, dead_records) if step.inputs else records.hstack([index])
            )
        for keyed in self.streams.values():
            _kill_null_keys(frames[keyed.step], keyed, dead_records)
        self._kill_oversized(frames, records.height, dead_records)
        dead = dead_records.frame()
        streams = {
            name: self._stream(frames[keyed.step], keyed, dead)
            for name, keyed in self.streams.items()
        }
        passed = np.zeros(records.height, np.bool_)
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
        given = frames[step.inputs[0]]
        parts = [part for part in _run(step.operator, given, dead_records) if part.height]
        if len(parts) == 1:
            return parts[0]
        others = carried(given, self.steps[step.inputs[0]].columns).schema
        made = pl.DataFrame(schema={**others, **step.columns})
        return pl.concat([made, *(part.select(made.columns) for part in parts)])

    def _kill_oversized(
        self, frames: Sequence[pl.DataFrame], height: int, dead_records: _DeadRecords
    ) -> None:
        """Let records die whose rows no segment could hold."""
        taken = [
            (rows[RECORD], row_bytes((rows[n] for n in self.steps[step].columns), rows.height))
            for step, rows in ((keyed.step, frames[keyed.step]) for keyed in self.streams.values())
        ]
        if sum(int(sizes.sum()) for _, sizes in taken) <= MAX_RECORD_BYTES:
            return  # not even all together
        total = np.zeros(height, np.int64)
        for records, sizes in taken:
            np.add.at(total, records.to_numpy(), sizes)
        for record in np.flatnonzero(total > MAX_RECORD_BYTES).tolist():
            dead_records.add(record, "log", too_large(int(total[record])))

    def _stream(self, rows: pl.DataFrame, keyed: KeyedOutput, dead: pl.DataFrame) -> pl.DataFrame:
        if dead.height:
            rows = rows.filter(~pl.col(RECORD).is_in(dead["record"].implode()))
        columns = self.steps[keyed.step].columns
        rows = rows.with_columns(_sub_rows(rows[RECORD]))
        lead = [name for name in ROW_COLUMNS if name in rows.columns]
        return rows[[RECORD, *lead, *columns]]


def _run(
    operator: RowOperator, rows: pl.DataFrame, dead_records: _DeadRecords
) -> Iterator[pl.DataFrame]:
    """Yield what a step makes of rows, in order; cut them until the rows that raise are alone."""
    if rows.is_empty():
        return
    try:
        result = operator.run(rows)
    except FAILURES as error:  # a user's function or expression may raise anything
        if rows.height == 1:
            dead_records.add(rows.item(0, RECORD), operator.label, first_line(error))
            return
        for part in rows.iter_slices(-(-rows.height // _PIECES)):
            yield from _run(operator, part, dead_records)
        return
    for record, reason in result.bad:
        dead_records.add(record, operator.label, reason)
    yield result.rows


def carried(rows: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Return the columns that go along with their rows: all but the values."""
    return rows.select(name for name in rows.columns if name not in columns)


def _kill_null_keys(rows: pl.DataFrame, keyed: KeyedOutput, dead_records: _DeadRecords) -> None:
    if not any(rows[name].null_count() for name in keyed.key):
        return
    null = pl.any_horizontal(pl.col(name).is_null() for name in keyed.key)
    operator = f"key_by({', '.join(keyed.key)})"
    for record in rows.filter(null)[RECORD]:
        dead_records.add(record, operator, NULL_KEY)


def _sub_rows(records: pl.Series) -> pl.Series:
    """Number the rows of each record from 0; rows of a record stand together."""
    numbers = records.to_numpy()
    position = np.arange(len(numbers), dtype=np.int32)
    first = np.ones(len(numbers), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    starts = np.maximum.accumulate(np.where(first, position, 0)) if len(numbers) else position
    return pl.Series(SUB_ROW, position - starts, pl.Int32)


def with_metadata(
    rows: pl.DataFrame, columns: Columns, expressions: Sequence[pl.Expr]
) -> pl.DataFrame:
    """Return what expressions may see: the values, and the metadata columns they name."""
    return rows.select(*columns, *metadata_used(expressions))
