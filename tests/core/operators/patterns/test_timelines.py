"""Patterns: the timelines of docs/semantics.md, failures of other systems, and what is refused."""

from unittest.mock import patch

import polars as pl
import pytest

from tests.support.running import over
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.near import REACH
from tidemark.core.operators.patterns.operator import TIMEOUTS, PatternMatch
from tidemark.core.operators.patterns.pattern import Pattern, Skip, Step
from tidemark.core.operators.patterns.step_values import Value
from tidemark.core.operators.ports import LATE, REASON, ROWS
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.errors import PipelineError

ANY = pl.lit(value=True)
COLUMNS = {"key": pl.String(), "kind": pl.String(), "x": pl.Int64()}
MINUTE_MS = 60_000


def step(name, kind=None, **options):
    return Step(name, pl.col("kind") == (kind or name), **options)


def absence(kind, for_ms):
    return Pattern((step(kind),), for_ms, never=(pl.col("kind") == kind,))


class Log:
    """Rows of one source, through a pattern; results are texts: rows with times, and the time."""

    def __init__(self, pattern, **options):
        values = {"first_x": Value(0, "x", first=True), "last_x": Value(0, "x")}
        self.body = PatternMatch(pattern, ("key",), COLUMNS, values, with_timeouts=True, **options)
        self.task = OperatorTask(over(("t",), self.body, COLUMNS))
        self.times = []
        self.w_ms = NEVER_MS

    def segment(self, rows, w_ms, *, idle=False, silence_ms=0):
        """Return a segment of rows (kind, time, x, key), with the watermark after it."""
        first = len(self.times)
        lines = []
        for kind, at_ms, *more in rows:
            x, key = more[0] if more else 0, more[1] if len(more) > 1 else "k"
            lines.append((0, len(self.times), 0, at_ms, self.w_ms, key, kind, x))
            self.times.append(at_ms)
        frame = pl.DataFrame(lines, schema={**ROW_COLUMNS, **COLUMNS}, orient="row")
        mark = SourceMark("t/0", first, len(self.times), self.w_ms, w_ms, idle, silence_ms)
        self.w_ms = w_ms
        return Segment(0, 0, (mark,), {"t": 1}, 0, {"t": frame})

    def take(self, *rows, w_ms=NEVER_MS, **options):
        """Return the texts of what a segment publishes, matches first."""
        return self.texts(self.task.step(self.segment(rows, w_ms, **options)))

    def finish(self):
        return self.texts(self.task.finish())

    def texts(self, output):
        self.last = output
        return [
            f"{mark}{' '.join(str(self.times[row['offset']]) for row in each['_rows'])}"
            f" at {each['_event_time_ms']}"
            for port, mark in ((ROWS, ""), (TIMEOUTS, "timeout "))
            for each in output[port].iter_rows(named=True)
        ]

    def of(self, text):
        """Return the matches and timeouts of rows "a b c" at the times 1, 2, 3."""
        return [*self.take(*((kind, n) for n, kind in enumerate(text.split(), 1))), *self.finish()]


FIRE = Pattern((step("hot"), step("smoke")), 10 * MINUTE_MS)


def test_smoke_within_ten_minutes_of_a_high_temperature():
    log = Log(FIRE)
    at = [("hot", 0), ("hot", 3), ("smoke", 5), ("smoke", 6), ("hot", 7), ("hot", 20)]

    found = log.take(*((kind, n * MINUTE_MS) for kind, n in at), w_ms=21 * MINUTE_MS)

    assert found == ["0 300000 at 300000", f"timeout 420000 at {17 * MINUTE_MS - 1}"]


def test_absence_starts_from_the_last_row_of_the_key():
    log = Log(absence("a", 5))

    assert log.take(("a", 0), ("a", 4), ("a", 5), ("a", 11), w_ms=12) == ["5 at 9"]
    assert log.take(w_ms=16) == ["11 at 15"]


def test_absence_is_found_in_silence():
    log = Log(absence("a", 5))
    log.take(("a", 0), w_ms=1)

    assert log.take(w_ms=1, idle=True, silence_ms=3) == []
    assert log.take(w_ms=1, idle=True, silence_ms=4) == ["0 at 4"]


def test_absence_is_found_at_the_end_of_input():
    log = Log(absence("a", 5))

    assert log.take(("a", 0), ("a", 4, 0, "other"), w_ms=4) == []
    assert log.finish() == ["0 at 4", "4 at 8"]


def test_an_operator_without_partial_matches_and_rows_is_idle():
    log = Log(absence("a", 5))
    log.take(("a", 0), w_ms=0)
    pending = [log.body.pending(log.task.state)]
    for w_ms in (1, 4, 5):
        log.take(w_ms=w_ms)
        pending.append(log.body.pending(log.task.state))

    assert pending == [True, True, True, False]


def test_within_is_exclusive_and_timers_come_after_the_rows_of_their_time():
    pattern = Pattern((step("a"), step("b")), 10)

    assert Log(pattern).take(("a", 0), ("b", 9), w_ms=20) == ["0 9 at 9"]
    assert Log(pattern).take(("a", 0), ("b", 10), w_ms=20) == ["timeout 0 at 9"]


def test_a_match_never_waits_for_a_partial_match_that_began_earlier():
    """As matches of Flink do, which were lost when the earlier one timed out: FLINK-31017."""
    higher = pl.col("x") > pl.col("a.x")
    for skip in ("none", "past_last"):
        log = Log(Pattern((step("a"), step("b", on=higher)), 10, skip=Skip(skip)))

        assert log.take(("a", 1, 9), ("a", 2, 1), ("b", 3, 5), w_ms=4) == ["2 3 at 3"]
        assert log.take(w_ms=11) == ([] if skip == "past_last" else ["timeout 1 at 10"])


def test_skip_counts_for_matches_that_time_completes():
    """FLINK-31017: the skip was ignored where time ended a match."""
    pattern = Pattern((step("a"),), 5, never=(pl.col("kind") == "b",), skip=Skip("past_last"))

    assert Log(pattern).of("a a a") == ["1 at 5", "2 at 6", "3 at 7"]
    after_two = Pattern((step("a"), step("a2", "a")), 5, (pl.col("kind") == "b",))
    assert Log(after_two).of("a a a") == ["1 2 at 5", "timeout 3 at 7"]


@pytest.mark.parametrize(
    ("skip", "complaint"),
    [
        (Skip("to_first", "a"), "it can have the first row of a match"),
        (Skip("to_last", "a"), "it can have the first row of a match"),
        (Skip("to_first", "b"), "a match can be without this step"),
        (Skip("to_last", "z"), r"the pattern has the steps \['a', 'b', 'c'\]"),
    ],
)
def test_a_skip_that_cannot_move_on_is_refused(skip, complaint):
    """FLINK-7169: such a skip found the same match again and again."""
    steps = (step("a"), step("b", least=0), step("c"))

    with pytest.raises(PipelineError, match=complaint):
        Pattern(steps, 10, skip=skip)


def test_a_skip_to_the_last_of_several_first_rows_moves_on():
    pattern = Pattern((step("a", least=2, most=2), step("b")), 10, skip=Skip("to_last", "a"))

    assert Log(pattern).of("a a b a b") == ["1 2 3 at 3", "2 4 5 at 5", "timeout 4 at 13"]


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (lambda: step("a", least=3, most=2), "takes 3 to 2 rows"),
        (lambda: step("a", least=0, most=0), "takes 0 to 0 rows"),
        (lambda: step("a", least=-1, most=None), "takes -1 to any number rows"),
        (lambda: Pattern((), 1), "give a step that each match has"),
        (lambda: Pattern((step("a", least=0),), 1), "give a step that each match has"),
        (lambda: Pattern((step("a"), step("a")), 1), r"\['a'\] come twice or contain a dot"),
        (lambda: Pattern((step("a.b"),), 1), r"\['a.b'\] come twice or contain a dot"),
        (lambda: Pattern((step("a"),), 0), "within is 0 ms"),
        (lambda: Pattern(tuple(step(f"s{n}") for n in range(21)), 1), "21 steps: at most 20"),
        (lambda: Pattern((step("a"),), 1, (pl.lit(1),) * 62), "63 conditions: at most 62"),
    ],
)
def test_patterns_without_sense_are_refused(made, complaint):
    with pytest.raises(PipelineError, match=complaint):
        made()


@pytest.mark.parametrize(
    ("steps", "text", "found"),
    [
        ((step("a"), step("b")), "a x b", ["1 3 at 3"]),
        ((step("a"), step("b", after="next")), "a x b", []),
        ((step("a"), step("b", after="next")), "a b x b", ["1 2 at 2"]),
        ((step("a"), step("b", after="followed_by_any")), "a b b", ["1 2 at 2", "1 3 at 3"]),
        ((step("a"), step("b", most=None)), "a b x b", ["1 2 at 2", "1 2 4 at 4"]),
        ((step("a"), step("b", most=None, greedy=True)), "a b x b", ["1 2 4 at 100"]),
        (
            (step("a"), step("b", most=None, greedy=True, between="next")),
            "a b b x b",
            ["1 2 3 at 4"],
        ),
        (
            (step("a"), step("b", most=None, greedy=True, until=pl.col("kind") == "x")),
            "a b b x b",
            ["1 2 3 at 4"],
        ),
        ((step("a"), step("b", least=0), step("c")), "a b c", ["1 2 3 at 3", "1 3 at 3"]),
        (
            (step("a"), step("b", least=0, greedy=True), step("c")),
            "a b c",
            ["1 2 3 at 3"],
        ),
        ((step("a"), step("c", never=(pl.col("kind") == "b",))), "a b c", []),
        ((step("a"), step("c", never=(pl.col("kind") == "b",))), "b a c b", ["2 3 at 3"]),
        ((step("a"), step("b", on=pl.col("x") > pl.col("a.x"))), "a b", []),
        ((step("a"), step("b", on=pl.col("x") >= pl.col("a.x"))), "a b", ["1 2 at 2"]),
        ((step("a"), step("b", on=pl.col("kind").str.to_integer() > 0)), "a b", []),
        ((Step("a", pl.col("kind").str.to_integer() > 0),), "a 1 b", ["2 at 2"]),
    ],
)
def test_each_rule_alone(steps, text, found):
    results = Log(Pattern(steps, 100, skip=Skip("none"))).of(text)

    assert [each for each in results if not each.startswith("timeout")] == found


def test_a_row_that_fits_two_steps_takes_each_in_matches_of_its_own():
    steps = (Step("one", pl.lit(value=True)), Step("two", pl.lit(value=True)))

    assert Log(Pattern(steps, 9, skip=Skip("none"))).of("a b c") == [
        "1 2 at 2",
        "2 3 at 3",
        "timeout 3 at 11",
    ]


def test_too_many_partial_matches_refuse_the_oldest_row():
    log = Log(FIRE, max_partial=2)

    found = log.take(*(("hot", at, at) for at in (1, 2, 3, 4)), ("smoke", 5), w_ms=6)

    late = log.last[LATE]
    assert late.select("@event_time", "x").rows() == [(1, 1), (2, 2)]
    assert late[REASON].to_list() == ["more than 2 partial matches"] * 2
    assert found == ["3 5 at 5"]


def test_a_result_shows_values_of_its_rows_and_which_raw_records_they_are():
    log = Log(Pattern((step("a", least=2, most=2), step("b")), 10))

    log.take(("a", 1, 7), ("a", 2, 8), ("b", 3, 9), w_ms=9)

    (row,) = log.last[ROWS].rows(named=True)
    assert (row["key"], row["first_x"], row["last_x"], row["_event_time_ms"]) == ("k", 7, 8, 3)
    assert [(each["step"], each["topic"], each["offset"]) for each in row["_rows"]] == [
        ("a", "t", 0),
        ("a", "t", 1),
        ("b", "t", 2),
    ]
    assert len(row["_id"]) == 32


def test_a_row_of_a_port_has_the_columns_that_the_port_declares():
    log = Log(FIRE)
    log.take(("hot", 1), ("smoke", 2), ("hot", 3), w_ms=FOREVER_MS // 2)

    for port in log.body.outputs[:2]:
        assert log.last[port.name].height == 1
        assert dict(log.last[port.name].schema) == dict(port.columns)


def test_rows_that_fulfil_nothing_are_dropped_before_they_wait():
    log = Log(FIRE)

    log.take(*(("cold", at) for at in range(9)), ("smoke", 9))

    assert len(log.task.state.waiting) == 1


def rounds(pattern, rows):
    """Return the texts of the results of rows in one segment, and how often the engine asks."""
    log, answers, asked = Log(pattern), Conditions.answers, list[int]()

    def counted(self, questions, step_rows):
        asked.append(len(questions))
        return answers(self, questions, step_rows)

    with patch.object(Conditions, "answers", counted):
        return log.take(*rows, w_ms=10**6), len(asked)


def test_the_row_before_in_a_step_needs_no_questions():
    rising = pl.col("x") > pl.col("up.x").fill_null(-1)
    pattern = Pattern(
        (Step("up", ANY, rising, least=2, most=None, between="next", greedy=True),), 10**5
    )
    rows = [("a", at, x) for at, x in enumerate([0, 1, 2, 1, 5, 6, 7, 7])]
    assert rounds(pattern, rows) == (["0 1 2 at 3", "3 4 5 6 at 7", "timeout 7 at 100006"], 0)


def test_rows_further_back_are_asked_for():
    """A row is compared with the first one, and that is up to 20 rows before it."""
    above = pl.col("x") > pl.col("first.x")
    pattern = Pattern(
        (
            Step("first", pl.col("kind") == "f"),
            Step("more", ANY, above, "next", most=None, between="next", greedy=True),
            Step("end", ANY, after="next"),
        ),
        10**5,
    )
    rows = [("f", 0, 1), *(("m", at, 2) for at in range(1, 20)), ("m", 20, 1)]
    expected = f"{' '.join(map(str, range(21)))} at 20"
    assert rounds(pattern, rows) == ([expected], 20 - REACH)
