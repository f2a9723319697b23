"""Joins with drawn settings over drawn logs, and what they publish in the words of the oracle.

``for_joins`` gives the rows of a segment a column ``row`` that names them, so that results show
which rows they are of.  The left side reads topic ``t``, the right side ``u``, or ``t`` as well.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import polars as pl
from hypothesis import strategies as st

from tests.oracles.clock import Judged, RowId, Step, Table, heard
from tests.oracles.join import LEFT, RIGHT, Joined, JoinRules, JoinRun, Rejected
from tests.support.logs import COLUMNS, EventLog, Raw, Record, event_logs
from tests.support.running import Incidents, Task, outputs
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.operator import Body, Frames, Operator
from tidemark.core.operators.ports import DEAD, LATE, REASON, ROWS, Input
from tidemark.core.operators.rows import EVENT_TIME_MS, ID
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import (
    FOREVER_MS,
    NEVER_MS,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    Segment,
)
from tidemark.core.windows.pane import RETRACTED, REVISION

ROW = "row"
JOIN_COLUMNS = {**COLUMNS, ROW: pl.String()}
SHOWN = {
    LEFT: {"value": "value", ROW: "left_row"},
    RIGHT: {"value": "value_right", ROW: "right_row"},
}
JOINED = Side(LEFT, JOIN_COLUMNS, SHOWN[LEFT]), Side(RIGHT, JOIN_COLUMNS, SHOWN[RIGHT])
KINDS = ("inner", "left", "right", "full", "semi", "anti")
BOUNDS = ((0, 0), (-5, 5), (0, 7), (-7, 0), (2, 6), (-9, -3), (-20, 20), (1, 1))

SIDES: Mapping[str, tuple[str, ...]] = {LEFT: ("t",), RIGHT: ("u",)}
SELF: Mapping[str, tuple[str, ...]] = {LEFT: ("t",), RIGHT: ("t",)}


TOPICS = (("t/0", "u/0"), ("t/0", "u/0"), ("t/0", "t/1", "u/0"), ("t/0", "u/0", "u/1"))
DELAYS_MS = (0, 0, 0, 0, 3, 6, 9, 14)
KEYS: Sequence[str | None] = (None, "", "aa", "ab", "b", "b", *["a"] * 10)
"""Of the rows of a record; None for a dead record."""
VALUES = (None, *range(-4, 9))

_RECORD = st.integers(0, 5 * len(DELAYS_MS) * len(KEYS) * len(VALUES) - 1)


@st.composite
def raws(draw: st.DrawFn) -> Raw:
    """Draw two topics in which rows of few keys meet, close in time."""
    sources, bound_ms = {}, draw(st.sampled_from((0, 0, 0, 2, 10)))
    for name in draw(st.sampled_from(TOPICS)):
        now_ms, records = draw(st.integers(-5, 10)), []
        for _ in range(draw(st.sampled_from((0, 3, 8, 14, 14)))):
            rest, step_ms = divmod(draw(_RECORD), 5)
            rest, delay = divmod(rest, len(DELAYS_MS))
            value, keys = divmod(rest, len(KEYS))
            now_ms += step_ms
            rows = tuple((key, VALUES[value]) for key in KEYS[keys] or "")
            records.append(Record(None if KEYS[keys] is None else now_ms - DELAYS_MS[delay], rows))
        sources[name] = tuple(records)
    return Raw(sources, bound_ms)


LOGS = event_logs(topics=raws())


def ordered(left: Judged, right: Judged) -> bool:
    """Return whether the values of two rows are in order."""
    return left.value is not None and right.value is not None and left.value < right.value


def _own_upper(left: Judged) -> int | None:
    return None if left.value is None else abs(left.value) % 9 - 3


ORDERED = pl.col("value") < pl.col("value_right")
"""The expression of ``ordered``."""
UPPER = pl.col("value").abs() % 9 - 3
"""The expression of ``_own_upper``."""


@st.composite
def rules(draw: st.DrawFn, kinds: Sequence[str] = KINDS) -> JoinRules:
    """Draw a join of one of the kinds."""
    lower_ms, upper_ms = draw(st.sampled_from(BOUNDS))
    lateness_ms = draw(st.sampled_from((0, 0, 4, 12, 30)))
    on = draw(st.sampled_from((None, None, ordered)))
    upper = _own_upper if draw(st.integers(0, 3)) == 0 else None
    withdraws = lateness_ms > 0 and draw(st.booleans())
    how = draw(st.sampled_from(kinds))
    return JoinRules(how, lower_ms, upper_ms, lateness_ms, withdraws, on, upper)


def operator(drawn: JoinRules, sides: Mapping[str, Sequence[str]] = SIDES) -> Operator:
    """Return the operator of a join."""
    body = StreamJoin(
        ("key",),
        *JOINED,
        cast(Kind, drawn.how),
        drawn.lower_ms,
        drawn.upper_ms,
        drawn.lateness_ms,
        drawn.withdraws,
        ORDERED if drawn.on else None,
        UPPER if drawn.upper else None,
        drawn.max_pairs,
    )
    return over_sides(body, sides)


def over_sides(body: Body, sides: Mapping[str, Sequence[str]]) -> Operator:
    """Return the operator of a join of JOINED; ``sides``: the topics of each side."""
    inputs = (
        Input(tuple(topics), ("key",), JOIN_COLUMNS, frozenset(topics), side)
        for side, topics in sides.items()
    )
    return Operator("j", tuple(inputs), body)


def for_joins(segment: Segment, partition: int = 0, partitions: int = 1) -> Segment:
    """Name the rows of a segment, and keep those of one log partition."""
    names = pl.Series([mark.source for mark in segment.sources], dtype=pl.String)
    at = (pl.col(OFFSET).cast(pl.String), pl.col(SUB_ROW).cast(pl.String))
    streams = {}
    for topic, frame in segment.streams.items():
        source = pl.lit(names).gather(pl.col(SOURCE).cast(pl.Int64))
        named = frame.with_columns(
            pl.concat_str(source, *at, separator=" ").alias(ROW),
        )
        place = pl.col("key").replace_strict({k: n for n, k in enumerate("abcd")})
        streams[topic] = named.filter(place % partitions == partition).select(
            *ROW_COLUMNS, *JOIN_COLUMNS
        )
    return replace(segment, streams=streams)


@dataclass
class Found(JoinRun):
    """What an operator published, with the id of each result."""

    ids: dict[Joined, str] = field(default_factory=dict)

    def take(self, made: Operator, frames: Frames) -> None:
        """Add the rows of a step, by port."""
        results, gone = [], []
        before = {name: each for each, name in self.ids.items()}
        for row in frames[ROWS].iter_rows(named=True):
            if row.get(RETRACTED):
                gone.append(self._withdrawn(row, before))
                continue
            each = Joined(id_of(row["left_row"]), id_of(row.get("right_row")), row[EVENT_TIME_MS])
            assert row[ID] not in before, "an id is published twice"
            assert each not in self.ids, "a result is published twice"
            self.ids[each] = row[ID]
            before[row[ID]] = each
            results.append(each)
        self.steps.append(results)
        self.withdrawn.append(gone)
        for port in made.outputs:
            if port.rejects and port.name in frames:
                self.rejected += _rejected(port.name, port.kind, frames[port.name])

    def _withdrawn(self, row: Mapping[str, Any], before: Mapping[str, Joined]) -> Joined:
        assert row[REVISION] == 2
        return before[row[ID]]


def run(made: Operator, segments: Sequence[Segment], happen: Incidents | None = None) -> Found:
    """Run a log through a join, and the end of input."""
    found = Found()
    for output, _ in outputs(made, segments, happen):
        found.take(made, output.frames)
    return found


def _rejected(port: str, kind: str, frame: pl.DataFrame) -> list[Rejected]:
    assert kind in (LATE, DEAD)
    found = []
    for row in frame.iter_rows(named=True):
        side = port.rpartition("-")[2] if kind == LATE else LEFT
        named = id_of(row[ROW] if isinstance(row[ROW], str) else row[ROW][ROW])
        assert named is not None
        reason = "dead" if kind == DEAD else "late" if row[REASON] == "late" else "max_pairs"
        found.append(Rejected(side, named, reason))
    return found


def id_of(text: str | None) -> RowId | None:
    if text is None:
        return None
    source, offset, sub_row = text.split(" ")
    return source, int(offset), int(sub_row)


def steps_of(crowd: Sequence[tuple[Sequence[Judged], int]]) -> list[Step]:
    """Return the steps of a crowd; its rows are spread over both sides."""
    steps, before_ms = [], NEVER_MS
    for rows, clock_ms in crowd:
        spread = [row._replace(source=f"{'tu'[row.offset % 2]}/0") for row in rows]
        steps.append(Step(spread, 0, before_ms, clock_ms))
        before_ms = clock_ms
    return steps


def run_crowd(made: Operator, steps: Sequence[Step], happen: Incidents) -> Found:
    """Give a join rows that were judged already, with the clock as the steps say it."""
    found = Found()
    task, before_ms = Task(made, happen.store), NEVER_MS
    for number, step in enumerate([*steps, Step([], 0, 0, FOREVER_MS)]):
        processed = made.body.process(_frames(step.rows), task.state)
        advanced = made.body.advance(task.state, before_ms, step.clock)
        both = {
            name: [f[name] for f in (processed, advanced) if name in f]
            for name in {*processed, *advanced}
        }
        found.take(made, {name: pl.concat(frames) for name, frames in both.items()})
        before_ms = task.clocks.clock_ms = step.clock
        task.note()
        task.meet(happen, number)
    return found


def _frames(rows: Sequence[Judged]) -> dict[str, pl.DataFrame]:
    """Return the rows of each side, in order; ``source`` tells the side."""
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), **JOIN_COLUMNS, ORDER: pl.Int64()}
    frames = {}
    for side, topics in SIDES.items():
        mine = [
            (*row, " ".join(map(str, row[:3])), order)
            for order, row in enumerate(rows)
            if row.source.rpartition("/")[0] in topics
        ]
        frames[side] = pl.DataFrame(mine, schema=schema, orient="row")
    return frames


def heard_by(sides: Mapping[str, Sequence[str]], segments: Sequence[Segment]) -> list[Step]:
    """Return the log as the oracle hears it, step by step."""
    topics = sorted({topic for each in sides.values() for topic in each})
    return list(heard(segments, Table(topics)))


def of_sides(sides: Mapping[str, Sequence[str]], rows: Sequence[Judged]) -> list[list[Judged]]:
    """Return the rows of each side."""
    return [
        [row for row in rows if row.source.rpartition("/")[0] in sides[side]]
        for side in (LEFT, RIGHT)
    ]


def read(log: EventLog) -> list[Segment]:
    """Return the segments of a log with named rows."""
    return [for_joins(segment) for segment in log.segments]


def same(found: JoinRun, expected: JoinRun) -> None:
    """Compare results and withdrawals of each step, and all rejected rows."""
    assert [Counter(step) for step in found.steps] == [Counter(step) for step in expected.steps]
    assert list(map(Counter, found.withdrawn)) == list(map(Counter, expected.withdrawn))
    assert Counter(found.rejected) == Counter(expected.rejected)
