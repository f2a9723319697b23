"""What a port says is what a step publishes, in every family of operators."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.logs import EventLog, event_logs
from tests.support.operators.families import FAMILIES
from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import APPEND, CHANGES, DEAD, FAILED, LATE, REASON, UPSERT, Port
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import FOREVER_MS, OFFSET, SOURCE, SUB_ROW
from tidemark.core.windows.pane import END_OF_INPUT, FINAL, RETRACTED, REVISION, TIMING


class Reader:
    """Reads what is published to a port, and nothing else of the operator."""

    def __init__(self, port: Port, *, repeats: bool) -> None:
        self.port = port
        self.repeats = repeats
        self.seen: set[Any] = set()
        self.revisions: dict[Any, int] = {}
        self.standing: dict[Any, Any] = {}

    def read(self, frame: pl.DataFrame, before_ms: int, *, finished: bool) -> None:
        """Check a frame of a step; ``before_ms``: the clock before it."""
        port, rows = self.port, self.port.published(frame)
        assert {*port.key, *port.message_key} <= {*frame.columns}
        if port.kind == DEAD:
            assert {REASON, SOURCE, OFFSET, SUB_ROW, port.row_time.column} <= {*frame.columns}
            assert END_OF_INPUT not in frame.columns
            return
        if port.kind == FAILED:
            assert {*port.columns} <= {*frame.columns}
            return
        ends = [END_OF_INPUT] * (finished and port.kind != LATE)
        assert rows.columns == [*port.columns, *ends]
        assert {name: rows.schema[name] for name in port.columns} == dict(port.columns)
        self._times(rows, before_ms)
        self._identities(rows)

    def _times(self, rows: pl.DataFrame, before_ms: int) -> None:
        """Check that no row, or no W that rows carry, is behind the clock by more than holds."""
        if self.port.holds_ms is not None:
            column, shift_ms = self.port.row_time
            if self.port.watermark:
                column, shift_ms = self.port.watermark, 0
            times = (rows[column] + shift_ms).to_list()
            assert min(times, default=FOREVER_MS) >= before_ms - self.port.holds_ms, rows

    def _identities(self, rows: pl.DataFrame) -> None:
        """Check that rows of one identity can be told apart."""
        port, identity = self.port, [*self.port.identity]
        if port.mode == APPEND:
            assert RETRACTED not in rows.columns or not rows[RETRACTED].any()
            for row in rows.select(*identity, *port.version).rows():
                assert row not in self.seen or self.repeats
                self.seen.add(row)
            return
        assert port.withdraws
        if port.mode == CHANGES:
            self._withdrawn(rows)
        for at, revision in zip(rows.select(identity).rows(), rows[REVISION], strict=True):
            assert self.revisions.get(at, 0) <= revision or self.repeats
            self.revisions[at] = revision

    def _withdrawn(self, rows: pl.DataFrame) -> None:
        """Check that a row is withdrawn with its values, and before another replaces it."""
        told = [name for name in self.port.columns if name not in (TIMING, FINAL, RETRACTED)]
        for at, row, gone in zip(
            rows.select(self.port.identity).rows(),
            rows.select(told).rows(),
            rows[RETRACTED],
            strict=True,
        ):
            assert self.standing.pop(at, None) == (row if gone else None)
            if not gone:
                self.standing[at] = row


def declared(port: Port) -> Iterator[str]:
    """Yield the columns that a port names."""
    yield from (*port.values, *port.version, *port.instants)
    if port.kind != DEAD:
        yield from (*port.identity, port.row_time.column)
    if port.mode == UPSERT:
        yield from (REVISION, RETRACTED)


@pytest.mark.parametrize("family", FAMILIES)
@fewer(4)
@given(data=st.data(), log=event_logs())
def test_steps_publish_what_ports_say(family: str, data: Any, log: EventLog) -> None:
    case = FAMILIES[family](data.draw, log)
    operator, task = case.operator, OperatorTask(case.operator)
    readers = {port.name: Reader(port, repeats=case.repeats) for port in operator.outputs}
    assert len(readers) == len(operator.outputs)
    for port in operator.outputs:
        assert {*declared(port)} <= port.columns.keys()

    def read(output: Output, before_ms: int, *, finished: bool = False) -> None:
        counted = {LATE: 0, DEAD: 0, FAILED: 0}
        for name, frame in output.frames.items():
            readers[name].read(frame, before_ms, finished=finished)
            kind = readers[name].port.kind
            counted[kind] = counted.get(kind, 0) + frame.height
        assert (output.late, output.dead) == (counted[LATE], counted[DEAD])
        assert output.failed == counted[FAILED]
        assert 0 <= output.accepted == output.rows - output.late - output.dead

    for segment in case.segments:
        before_ms = task.clock_ms
        read(task.step(segment), before_ms)
    before_ms = task.clock_ms
    read(task.finish(), before_ms, finished=True)
