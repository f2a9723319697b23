"""Which event times rows may have that came before the first segment of a log."""

import polars as pl
import pytest

from tidemark.core.operators.ports import pane_port
from tidemark.core.operators.rows import rows_port
from tidemark.core.time.segment import NEVER_MS, Segment, SourceMark
from tidemark.runtime.keyed.lost_rows import FirstMarks, lost_of_stages, without_lost_rows


def segment(*marks: tuple[str, int]) -> Segment:
    """Return a segment of marks: source, and the watermark before it."""
    sources = tuple(SourceMark(name, 5, 9, before, 10**6) for name, before in marks)
    return Segment(0, 0, sources, {}, 0, {})


@pytest.mark.parametrize(
    ("marks", "lost_ms"),
    [
        ((("t/0", NEVER_MS),), None),
        ((("t/0", 4_000),), 6_000),
        ((("t/0", 4_000), ("t/1", 9_000), ("t/2", NEVER_MS)), 11_000),
        ((("others/0", 4_000),), None),
    ],
)
def test_the_watermark_before_the_first_mark_bounds_the_rows_before_it(marks, lost_ms):
    assert FirstMarks({"t": 2_000}).lost_until_ms(segment(*marks)) == lost_ms


def test_only_the_first_mark_of_a_source_counts():
    marks = FirstMarks({"t": 0}, heard=["t/1"])
    assert marks.lost_until_ms(segment(("t/0", NEVER_MS), ("t/1", 7))) is None
    assert marks.lost_until_ms(segment(("t/0", 7), ("t/2", 3))) == 3


def test_the_first_mark_of_a_stage_tells_whether_results_are_lost():
    marks = FirstMarks({"t": 0})
    first = segment(("op:sums/3", NEVER_MS), ("op:sums", 7), ("op:new", NEVER_MS), ("op:x", 9))
    assert marks.lost_until_ms(first) is None
    assert marks.lost_until_ms(segment(("op:sums", 9), ("op:new", 8))) is None
    text = lost_of_stages(marks.lost_stages, {"op:sums", "op:new"})
    assert text == "results of 'sums' from before its beginning"
    assert lost_of_stages(marks.lost_stages, {"op:new", "t"}) == ""


def test_a_message_says_what_is_not_published():
    columns = {"key": pl.String(), "start": pl.Int64()}
    windows = pane_port(("key",), {"key": pl.String()}, {"n": pl.Int64()})
    counted = pane_port(("key",), {"key": pl.String()}, {"n": pl.Int64()}, numbered=True)
    assert without_lost_rows(rows_port((), columns)) == "these rows are not published"
    assert without_lost_rows(windows) == "windows that start by then are not published"
    assert without_lost_rows(windows, ["hours", "days"]).endswith(
        "are not published; windows of hours, days lack these results"
    )
    assert without_lost_rows(counted).endswith("published, but windows in order of arrival are")
