"""Aggregates that hold values, on their way through operators, changelogs and result records."""

import json
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.logs import COLUMNS, EventLog, cut_segments, event_logs
from tidemark import apply_frame
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import Changes, Operator
from tidemark.core.operators.ports import Input, pane_port
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import Segment
from tidemark.core.windows.window import Hopping, Session
from tidemark.errors import PipelineError
from tidemark.serde.avro_results import AvroEncoder, record_schema
from tidemark.serde.changelog import DELTA, Commit, Piece, decode, encode
from tidemark.serde.json_results import JsonEncoder

AGGREGATION = Aggregation(
    {
        "spread": aggregates.variance("value"),
        "users": aggregates.count_distinct("value"),
        "about": aggregates.count_distinct("value", approximate=True),
        "all": aggregates.collect("value"),
        "arrived": aggregates.collect("value", order="arrival"),
        "newest": aggregates.last("value", order="arrival"),
        "median": aggregates.median("value"),
        "ninth": aggregates.quantile("value", 0.9, approximate=True),
        "top": aggregates.top_k("value", 2),
        "most": aggregates.top_k("key", 2, by="value"),
        "ties": aggregates.top_k("value", 2, ties=True, ranks=True),
        "counts": aggregates.value_counts("value", limit=3),
        "row": aggregates.latest(),
        "some": aggregates.latest("value", order="arrival", where=pl.col("value") > 1),
        "high": aggregates.max_by("key", by="value"),
        "height": apply_frame(lambda rows: rows.height, "value", int),
    },
    COLUMNS,
)
BODIES = [
    WindowAggregate(Hopping(12, 4, 0), AGGREGATION, ("key",), COLUMNS, 10),
    SessionAggregate(Session(6), AGGREGATION, ("key",), COLUMNS, 10),
]


def operator(log: EventLog, body: WindowAggregate | SessionAggregate) -> Operator:
    topics = frozenset(log.topics)
    return Operator("w", (Input(log.topics, ("key",), COLUMNS, topics),), body, by_arrival=True)


def run(of: Operator, segments: Sequence[Segment], *, restore: bool) -> list[pl.DataFrame]:
    """Run a log, restoring all state from the bytes of a changelog after each step where asked."""
    task, panes, records = OperatorTask(of), [], []
    for segment in segments:
        panes.append(task.step(segment)["panes"])
        records.append(encoded(task.checkpoint().changes, task.clocks))
        if restore:
            task = OperatorTask(of)
            written = decode(records[-1]).clocks
            assert written is not None
            task.restore((decode(record).changes for record in records), written, 0)
            pieces = list(task.snapshot()) or [{}]
            records = [encoded(piece, task.clocks) for piece in pieces]
            task.checkpoint()
    panes.append(task.finish()["panes"].drop("end_of_input"))
    return panes


def encoded(changes: Changes, clocks: ClockTable) -> bytes:
    return encode(Piece(DELTA, Commit(1, "w"), 0, 0, changes, clocks.state(), last=True))


def lasts(panes: Sequence[pl.DataFrame]) -> dict[tuple[str | None, int], str]:
    """Return the last pane of each key and start, to the bit."""
    rows = (row for frame in panes for row in frame.iter_rows(named=True))
    return {(row["key"], row["start"]): repr({**row, "final": None}) for row in rows}


@pytest.mark.parametrize("body", BODIES, ids=["hopping", "session"])
@fewer(3)
@given(st.data(), event_logs())
def test_no_cut_or_restore_shows_in_a_last_pane(body, data, log):
    whole = run(operator(log, body), log.segments, restore=False)
    cut = data.draw(cut_segments(log.segments))

    restored = run(operator(log, body), log.segments, restore=True)

    assert [frame.rows() for frame in restored] == [frame.rows() for frame in whole]
    if isinstance(body, WindowAggregate):
        assert lasts(run(operator(log, body), cut, restore=True)) == lasts(whole)


VALUES = {
    "all": [3, 1],
    "ties": [{"rank": 1, "value": 3, "count": 2}],
    "row": {"key": "k", "value": None},
    "top": [{"value": 3, "count": 2}],
    "most": [{"value": "a", "by": 3}, {"value": None, "by": 1}],
}
TYPES = {name: AGGREGATION.types[name] for name in VALUES}
PANE = {"start": 0, "end": 10, "revision": 3, "timing": "late", "final": True, "retracted": False}


def panes(**changes: object) -> pl.DataFrame:
    body = BODIES[0]
    assert isinstance(body, WindowAggregate)
    frame = body.publish(body.open(), 0, 0).select("key", *PANE, *VALUES)
    return pl.DataFrame(
        [{"key": "k", **PANE, **VALUES, **changes}], schema=frame.schema, orient="row"
    )


def test_lists_and_structs_are_those_of_json():
    results = JsonEncoder(pane_port(("key",), COLUMNS, TYPES))

    keys, values = results.encode(panes())
    _, withdrawn = results.encode(panes(retracted=True, **dict.fromkeys(VALUES)))

    shown = {name: value for name, value in PANE.items() if name != "retracted"}
    assert [*keys] == [b'["k",0]']
    assert json.loads(values[0]) == {"key": "k", **shown, **VALUES}
    assert json.loads(withdrawn[0]) == {"key": "k", **shown, "retracted": True}


def test_avro_holds_lists_and_structs():
    results = AvroEncoder("game.top", pane_port(("key",), COLUMNS, TYPES))

    _, (message,) = results.encode(panes())

    found = results.avro.decode(message)
    assert {name: found[name] for name in VALUES} == VALUES


def test_avro_refuses_lists_of_what_it_does_not_know():
    columns = {"at": pl.Duration("ms")}
    aggregation = Aggregation({"all": aggregates.collect("at")}, columns)

    with pytest.raises(PipelineError, match="Avro results cannot hold Duration"):
        record_schema("t", pane_port((), {}, aggregation.types))
