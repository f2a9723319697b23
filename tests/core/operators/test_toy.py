"""The operator contract, by an operator that uses all of it (tests/support/toy.py)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl
from hypothesis import given

from tests.oracles.clock import Judged, Table, judged
from tests.support.logs import EventLog, event_logs
from tests.support.operators.families import STREAMS, TOY, TOY_SIZE_MS, toy_segment
from tests.support.running import Incidents, Task, incidents
from tests.support.toy import BALANCES, COLUMNS, ORDERS, PAYMENTS, balances
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.constructors import count
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import Input
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import (
    NEVER_MS,
    ROW_COLUMNS,
    Segment,
    SourceMark,
    operator_source,
)
from tidemark.core.windows.window import Hopping

SIZE_MS = TOY_SIZE_MS


class Step(NamedTuple):
    """What one segment publishes."""

    balances: list[tuple[Any, ...]]
    late: list[tuple[str, int, int]]
    dead: list[tuple[str, int, int]]


class Oracle:
    """The toy, row by row."""

    def __init__(self) -> None:
        self.table = Table([*STREAMS.values()])
        self.open: dict[tuple[str | None, int], list[Any]] = {}

    def step(self, segment: Segment) -> Step:
        table, step = self.table, Step([], [], [])
        table.begin(segment)
        before_ms = table.clock
        touched = set()
        for row in judged(segment, table):
            start_ms = row.at_ms // SIZE_MS * SIZE_MS
            if start_ms + SIZE_MS <= row.w_ms:
                step.late.append(place(row))
            elif row.value is None:
                step.dead.append(place(row))
            else:
                touched.add((row.key, start_ms))
                self._add(row, start_ms)
        step.balances.extend(self._row(at, final=False) for at in sorted(touched, key=by_key))
        table.end(segment)
        due = [at for at in self.open if before_ms < at[1] + SIZE_MS <= table.clock]
        step.balances.extend(self._row(at, final=True) for at in sorted(due, key=by_start))
        return step

    def _add(self, row: Judged, start_ms: int) -> None:
        side = ORDERS if row.source.startswith("t/") else PAYMENTS
        assert row.value is not None
        line = self.open.setdefault((row.key, start_ms), [0, 0, ""])
        line[0] += row.value if side == ORDERS else -row.value
        line[1] += 1
        line[2] = side

    def _row(self, at: tuple[str | None, int], *, final: bool) -> tuple[Any, ...]:
        balance, rows, last = self.open[at]
        return (*at, rows, final, balance == 0 and not final, balance, last)


def place(row: Judged) -> tuple[str, int, int]:
    return row.source, row.offset, row.sub_row


def by_key(at: tuple[str | None, int]) -> tuple[Any, ...]:
    return at[0] is not None, at[0] or "", at[1]


def by_start(at: tuple[str | None, int]) -> tuple[Any, ...]:
    return at[1], at[0] is not None, at[0] or ""


def shown(output: Output) -> Step:
    assert output.rows == output.accepted + output.late + output.dead
    late = pl.concat([places(output[f"late-{side}"]) for side in STREAMS])
    dead = places(output[BALANCES_DEAD])
    return Step(output[BALANCES].rows(), sorted(late.rows()), sorted(dead.rows()))


BALANCES_DEAD = TOY.outputs[-1].name


def places(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("@source", "@offset", "@sub_row")


def ordered(step: Step) -> Step:
    return Step(step.balances, sorted(step.late), sorted(step.dead))


@given(event_logs(), incidents())
def test_each_step_publishes_what_the_oracle_does_whatever_is_restored(
    log: EventLog, happen: Incidents
):
    task, oracle = Task(TOY, happen.store), Oracle()
    for number, segment in enumerate(log.segments):
        wanted = ordered(oracle.step(segment))
        assert shown(task.step(toy_segment(segment))) == wanted
        assert task.clock_ms == oracle.table.clock
        task.meet(happen, number)


class Chain:
    """The toy's final balances, counted in windows by a second operator."""

    def __init__(self) -> None:
        self.first = OperatorTask(TOY)
        self.port = TOY.outputs[0]
        columns = {name: self.port.columns[name] for name in ("account", "balance")}
        key, windows = self.port.key, Hopping(2 * SIZE_MS, 2 * SIZE_MS)
        body = WindowAggregate(windows, Aggregation({"n": count()}, columns), key, columns)
        source = operator_source(TOY.name)
        side = Input((BALANCES,), key, columns, frozenset({source}))
        self.second = OperatorTask(Operator("counts", (side,), body))
        self.source, self.columns, self.offset = source, columns, 0

    def step(self, segment: Segment) -> Output:
        before_ms = self.first.clock_ms
        output = self.first.step(segment)
        return self.second.step(self._derived(output, before_ms))

    def finish(self) -> Output:
        """End the input: the clock of the first is past all time, and so is the second's."""
        before_ms = self.first.clock_ms
        output = self.first.finish()
        return self.second.step(self._derived(output, before_ms))

    def _derived(self, output: Output, before_ms: int) -> Segment:
        """Return a segment of the second log: rows of the port, with the port's time and hold."""
        rows = output[BALANCES].filter(pl.col("final"))
        assert self.port.holds_ms is not None
        watermark_ms = max(NEVER_MS, before_ms - self.port.holds_ms)
        column, shift_ms = self.port.row_time
        frame = rows.select(
            pl.lit(0, ROW_COLUMNS["@source"]).alias("@source"),
            pl.int_range(self.offset, self.offset + rows.height).alias("@offset"),
            pl.lit(0, pl.Int32).alias("@sub_row"),
            (pl.col(column) + shift_ms).alias("@event_time"),
            pl.lit(watermark_ms).alias("@watermark"),
            *self.columns,
        )
        first, self.offset = self.offset, self.offset + rows.height
        mark = SourceMark(self.source, first, self.offset, watermark_ms, self.first.clock_ms)
        return Segment(0, 0, (mark,), {}, 0, {BALANCES: frame})


@given(event_logs(repeats=False))
def test_final_rows_feed_a_second_operator_which_finds_none_late(log: EventLog):
    """A port says all that the next operator needs: columns, time of a row, and what it holds."""
    chain, oracle = Chain(), Oracle()
    counted: dict[tuple[str | None, int], int] = {}
    finals: dict[tuple[str | None, int], int] = {}
    outputs = [chain.step(toy_segment(segment)) for segment in log.segments]
    outputs.append(chain.finish())
    for segment in log.segments:
        for row in oracle.step(segment).balances:
            if row[3]:
                count_in(finals, row[0], row[1])
    for at in oracle.open:
        if at[1] + SIZE_MS > oracle.table.clock:
            count_in(finals, *at)
    for output in outputs:
        assert output["late"].is_empty()
        for pane in output["panes"].iter_rows(named=True):
            counted[pane["account"], pane["start"]] = pane["n"]
    assert counted == finals


def count_in(
    windows: dict[tuple[str | None, int], int], account: str | None, start_ms: int
) -> None:
    at = account, (start_ms + SIZE_MS - 1) // (2 * SIZE_MS) * (2 * SIZE_MS)
    windows[at] = windows.get(at, 0) + 1


def test_the_sides_see_the_same_stream_twice():
    """A self-join reads one stream by two inputs; ORDER tells the rows of a record apart."""
    sides: Sequence[str] = (ORDERS, PAYMENTS)
    columns = {**COLUMNS[ORDERS], **COLUMNS[PAYMENTS]}
    twice = balances(dict.fromkeys(sides, "t"), SIZE_MS)
    frame = pl.DataFrame(
        [(0, n, 0, n, NEVER_MS, "a", n, 5, 5) for n in range(3)],
        schema={**ROW_COLUMNS, **columns},
        orient="row",
    )
    mark = SourceMark("t/0", 0, 3, NEVER_MS, SIZE_MS)
    output = OperatorTask(twice).step(Segment(0, 0, (mark,), {"t": 1}, 0, {"t": frame}))
    assert (output.rows, output.accepted) == (6, 6)
    assert output[BALANCES].rows() == [
        ("a", 0, 6, False, True, 0, PAYMENTS),
        ("a", 0, 6, True, False, 0, PAYMENTS),
    ]
