"""The timelines of docs/semantics.md, "Joins", each as a test."""

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from tests.support.operators.joins import over_topics
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.joins.gathering_join import GatheringJoin
from tidemark.core.operators.joins.results import END_MS, START_MS
from tidemark.core.operators.joins.sessions.operator import SessionJoin
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.output import Output
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.core.windows.pane import RETRACTED, REVISION
from tidemark.core.windows.window import Hopping, Session

ORDER = {"key": pl.String(), "order": pl.String()}
PAYMENT = {"key": pl.String(), "payment": pl.String()}
COLUMNS = {"orders": ORDER, "payments": PAYMENT}
LEFT = Side("left", ORDER, {"order": "order"})
RIGHT = Side("right", PAYMENT, {"payment": "payment"})

Row = tuple[str, int]


class Timeline:
    """A join of orders and payments of one key, which takes a segment at a time."""

    def __init__(self, join: StreamJoin | SessionJoin, key: str | None = "k") -> None:
        self.key = key
        self.task = OperatorTask(over_topics(join, "orders", "payments"))
        self.offsets = dict.fromkeys(COLUMNS, 0)
        self.watermarks = dict.fromkeys(COLUMNS, NEVER_MS)

    def step(self, rows: Mapping[str, Sequence[Row]], watermarks: Mapping[str, int]) -> Output:
        """Take the rows of each stream, and its watermark after them; times in seconds."""
        marks, streams = [], {}
        for index, (name, columns) in enumerate(COLUMNS.items()):
            first, before_ms = self.offsets[name], self.watermarks[name]
            own = rows.get(name, ())
            after_ms = watermarks.get(name, before_ms)
            self.offsets[name], self.watermarks[name] = first + len(own), after_ms
            marks.append(SourceMark(f"{name}/0", first, first + len(own), before_ms, after_ms))
            streams[name] = pl.DataFrame(
                [
                    (index, first + n, 0, at, before_ms, self.key, value)
                    for n, (value, at) in enumerate(own)
                ],
                schema={**ROW_COLUMNS, **columns},
                orient="row",
            )
        partitions = dict.fromkeys(COLUMNS, 1)
        return self.task.step(Segment(0, 0, tuple(marks), partitions, 0, streams))


def shown(output: Output) -> str:
    """Return results as the documentation writes them."""
    return "; ".join(
        ", ".join(filter(None, (row.get("order"), row.get("payment"))))
        + (" withdrawn" if row.get(RETRACTED) else f" at {row[EVENT_TIME_MS]}")
        for row in output["rows"].iter_rows(named=True)
    )


TIMELINE: dict[Kind, tuple[str, str]] = {
    "inner": ("a, p at 4", "c, r at 41"),
    "left": ("a, p at 4", "c, r at 41; b at 30"),
    "right": ("a, p at 4", "c, r at 41; q at 15"),
    "full": ("a, p at 4", "c, r at 41; q at 15; b at 30"),
    "semi": ("a at 11", "c at 50"),
    "anti": ("", "b at 30"),
}
"""What segments 2 and 5 publish; the others publish nothing."""


@pytest.mark.parametrize("how", TIMELINE)
def test_what_each_kind_of_join_publishes_and_when(how: Kind) -> None:
    line = Timeline(StreamJoin(("key",), LEFT, RIGHT, how, 0, 10))
    made = [
        line.step({"orders": [("a", 1)]}, {"orders": 1}),
        line.step({"payments": [("p", 4)]}, {"payments": 4}),
        line.step({"payments": [("q", 15)]}, {"payments": 15}),
        line.step({"orders": [("b", 20)]}, {"orders": 20}),
        line.step({"orders": [("c", 40)], "payments": [("r", 41)]}, {"orders": 40, "payments": 41}),
    ]
    second, fifth = TIMELINE[how]
    assert [*map(shown, made)] == ["", second, "", "", fifth]
    assert line.task.clock_ms == 40
    assert made[-1]["rows"].columns == [*line.task.operator.outputs[0].columns]


WINDOWS: dict[Kind, tuple[str, str, str]] = {
    "inner": ("a, p at 9", "a, q at 9", ""),
    "left": ("a, p at 9", "a, q at 9", "b at 19"),
    "semi": ("a at 9", "", ""),
    "anti": ("", "", "b at 19"),
}
"""What segments 2, 3 and 4 publish in windows."""


@pytest.mark.parametrize("how", WINDOWS)
def test_what_a_window_join_publishes_and_when(how: Kind) -> None:
    line = Timeline(StreamJoin(("key",), LEFT, RIGHT, how, 0, 0, windows=Hopping(10, 10)))
    made = [
        line.step({"orders": [("a", 1)]}, {"orders": 1}),
        line.step({"payments": [("p", 9)]}, {"payments": 9}),
        line.step({"orders": [("b", 12)], "payments": [("q", 8)]}, {"orders": 12}),
        line.step({"orders": [("c", 25)], "payments": [("r", 30)]}, {"orders": 25, "payments": 30}),
    ]
    assert [*map(shown, made)] == ["", *WINDOWS[how]]
    assert made[1]["rows"].select(START_MS, END_MS).rows() in ([], [(0, 10)])
    late = line.step({"orders": [("d", 3)]}, {})["late-left"]
    late = line.task.operator.port("late-left").published(late)
    assert late.select("start", "end", "late_by_ms").rows() == [(0, 10, 15)]


SESSIONS: dict[Kind, str] = {
    "inner": "a, p at 16; a, q at 16; b, p at 16; b, q at 16",
    "semi": "a at 16; b at 16",
    "anti": "",
}
"""What segment 4 publishes in sessions; the others publish nothing."""


@pytest.mark.parametrize("how", SESSIONS)
def test_what_a_session_join_publishes_once_a_session_is_final(how: Kind) -> None:
    line = Timeline(SessionJoin(("key",), LEFT, RIGHT, how, Session(5)))
    made = [
        line.step({"orders": [("a", 1)]}, {"orders": 1}),
        line.step({"payments": [("p", 4)]}, {"payments": 4}),
        line.step({"orders": [("b", 12)], "payments": [("q", 8)]}, {"orders": 12, "payments": 8}),
        line.step({"orders": [("c", 25)], "payments": [("r", 30)]}, {"orders": 25, "payments": 30}),
    ]
    *before, final = map(shown, made)
    assert before == ["", "", ""]
    # Rows of one time without a partner are in order of identity.
    assert (final if how == "inner" else "; ".join(sorted(final.split("; ")))) == SESSIONS[how]
    assert {*made[-1]["rows"].select(START_MS, END_MS).rows()} <= {(1, 17)}
    late = line.step({"orders": [("d", 3)]}, {})["late-left"]
    late = line.task.operator.port("late-left").published(late)
    assert late.select("start", "end", "late_by_ms").rows() == [(3, 8, 22)]


def test_null_in_a_key_of_a_session_equals_nothing() -> None:
    line = Timeline(SessionJoin(("key",), LEFT, RIGHT, "full", Session(5)), key=None)
    line.step({"orders": [("a", 1)], "payments": [("p", 1)]}, {"orders": 1, "payments": 1})
    made = line.step({}, {"orders": 9, "payments": 9})
    assert sorted(shown(made).split("; ")) == ["a at 5", "p at 5"]


def test_a_left_row_is_published_with_all_its_partners_once_it_is_due() -> None:
    paid = Aggregation({"paid": aggregates.collect("payment")}, {"payment": pl.String()})
    join = GatheringJoin(("key",), LEFT, RIGHT, "left", 0, 10, gathering=paid)
    line = Timeline(join)
    made = [
        line.step({"orders": [("a", 1)]}, {"orders": 1}),
        line.step({"payments": [("3", 4)]}, {"payments": 4}),
        line.step({"payments": [("5", 11)]}, {"payments": 11}),
        line.step({"orders": [("b", 20)], "payments": [("2", 25)]}, {"orders": 20, "payments": 25}),
    ]
    assert [each["rows"].height for each in made if "rows" in each.frames] == [0, 0, 0, 1]
    (row,) = made[-1]["rows"].to_dicts()
    assert (row["order"], row["paid"], row[EVENT_TIME_MS]) == ("a", ["3", "5"], 11)


def test_a_partner_is_kept_until_its_left_row_is_due() -> None:
    paid = Aggregation({"paid": aggregates.collect("payment")}, {"payment": pl.String()})
    line = Timeline(GatheringJoin(("key",), LEFT, RIGHT, "left", 0, 10, gathering=paid))
    line.step({"orders": [("a", 1)], "payments": [("3", 4)]}, {"orders": 8, "payments": 8})
    line.task.state.purge(line.task.clock_ms)
    assert line.task.state.open_windows() == 1  # no order to come reaches the payment
    (row,) = line.step({}, {"orders": 12, "payments": 12})["rows"].to_dicts()
    assert row["paid"] == ["3"]
    line.task.state.purge(line.task.clock_ms)
    assert line.task.state.size_bytes() > 0  # the payment is kept for orders until 4
    line.step({}, {"orders": 15, "payments": 15})
    line.task.state.purge(line.task.clock_ms)
    assert line.task.state.size_bytes() == 0


@pytest.mark.parametrize(
    ("on_close", "published"),
    [(True, ["", "b at 30", "b withdrawn; b, p at 25", ""]), (False, ["", "", "b, p at 25", ""])],
)
def test_a_late_partner_withdraws_what_was_published_without_it(
    on_close: bool, published: list[str]
) -> None:
    line = Timeline(StreamJoin(("key",), LEFT, RIGHT, "left", 0, 10, 30, on_close=on_close))
    made = [
        line.step({"orders": [("b", 20)]}, {"orders": 20, "payments": 20}),
        line.step({}, {"orders": 40, "payments": 40}),
        line.step({"payments": [("p", 25)]}, {}),
        line.step({"payments": [("q", 5)]}, {}),
    ]
    assert [*map(shown, made)] == published
    if on_close:
        assert made[1]["rows"][REVISION].to_list() == [1]
        assert made[2]["rows"][REVISION].to_list() == [2, 1]
    late = line.task.operator.port("late-right").published(made[3]["late-right"])
    assert late.select("reason", "late_by_ms", "event_time_ms").rows() == [("late", 4, 5)]
    assert line.task.finish()["rows"].is_empty()


def test_rows_with_too_many_partners_are_late_and_count_for_none() -> None:
    line = Timeline(StreamJoin(("key",), LEFT, RIGHT, "full", 0, 10, max_pairs=2))
    line.step({"orders": [("a", 1), ("b", 1)]}, {"orders": 1})
    output = line.step({"orders": [("c", 1)], "payments": [("p", 2), ("q", 3)]}, {})
    # c comes first in the log, so both payments meet three orders.
    assert output["rows"].is_empty()
    late = line.task.operator.port("late-right").published(output["late-right"])
    assert late["reason"].to_list() == ["more than 2 pairs"] * 2
    rest = shown(line.task.finish())
    assert sorted(rest.split("; ")) == ["a at 11", "b at 11", "c at 11"]


def test_a_row_with_a_bound_of_its_own() -> None:
    columns = {**ORDER, "order": pl.Int64()}
    left = Side("left", columns, {"order": "order"})
    join = StreamJoin(("key",), left, RIGHT, "left", 0, 100, upper=pl.col("order"))
    task = OperatorTask(over_topics(join, "orders", "payments"))
    rows = [(0, n, 0, 0, NEVER_MS, "k", upper) for n, upper in enumerate((5, 500, None, -1))]
    orders = pl.DataFrame(rows, schema={**ROW_COLUMNS, **columns}, orient="row")
    payments = pl.DataFrame(
        [(1, n, 0, at, NEVER_MS, "k", f"at {at}") for n, at in enumerate((5, 6, 100, 101))],
        schema={**ROW_COLUMNS, **PAYMENT},
        orient="row",
    )
    marks = (
        SourceMark("orders/0", 0, 4, NEVER_MS, NEVER_MS),
        SourceMark("payments/0", 0, 4, NEVER_MS, NEVER_MS),
    )
    streams = {"orders": orders, "payments": payments}
    output = task.step(Segment(0, 0, marks, {"orders": 1, "payments": 1}, 0, streams))
    assert output["rows"].select("order", "payment").rows() == [
        (5, "at 5"),
        (500, "at 5"),
        (500, "at 6"),
        (500, "at 100"),
    ]
    assert output["dead"]["@reason"].to_list() == [
        "the upper bound of the join is null",
        "the upper bound of the join is below the lower one, 0 ms",
    ]
    assert (output.rows, output.dead, output.late) == (8, 2, 0)


def test_a_row_with_a_null_key_is_published_once_after_a_restore() -> None:
    join = StreamJoin(("key",), LEFT, RIGHT, "left", 0, 10, 30, on_close=True)
    line = Timeline(join, key=None)
    line.step({"orders": [("a", 1)], "payments": [("p", 1)]}, {"orders": 1, "payments": 1})
    changes = [line.task.state.changes()]
    assert shown(line.step({}, {"orders": 20, "payments": 20})) == "a at 11"
    changes.append(line.task.state.changes())
    restored = OperatorTask(line.task.operator)
    restored.restore(changes, line.task.clocks.state(), 0)
    assert restored.finish()["rows"].is_empty()


def test_a_row_that_is_published_and_dropped_between_two_commits_is_in_no_changes() -> None:
    join = StreamJoin(("key",), LEFT, RIGHT, "left", 0, 10, 5, on_close=True)
    line = Timeline(join)
    line.step({"orders": [("a", 0)]}, {"orders": 1, "payments": 1})
    assert line.task.checkpoint().changes
    line.step({"orders": [("b", 100)]}, {})
    assert shown(line.step({}, {"orders": 50, "payments": 50})) == "a at 10"
    line.task.state.purge(line.task.clock_ms)
    changes = line.task.checkpoint().changes
    assert [name for name, frame in changes.items() if frame.height] == ["left"]


@pytest.mark.parametrize("purges", [False, True])
def test_a_row_that_is_dropped_before_a_commit_is_not_published_again_after_a_restore(
    purges: bool,
) -> None:
    join = StreamJoin(("key",), LEFT, RIGHT, "left", 0, 10, 5, on_close=True)
    line = Timeline(join)
    line.step({"orders": [("a", 0)]}, {"orders": 1, "payments": 1})
    pieces = [line.task.checkpoint().changes]
    line.step({"orders": [("b", 100)]}, {})
    assert shown(line.step({}, {"orders": 50, "payments": 50})) == "a at 10"
    line.task.state.purge(line.task.clock_ms)
    checkpoint = line.task.checkpoint()
    restored = OperatorTask(line.task.operator)
    restored.restore([*pieces, checkpoint.changes], checkpoint.clocks, checkpoint.next_offset)
    if purges:
        restored.state.purge(restored.clock_ms)
    line.task = restored
    assert shown(line.step({}, {"orders": 60, "payments": 60})) == ""
