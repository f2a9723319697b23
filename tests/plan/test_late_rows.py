"""``late`` of aggregated and ordered streams: its columns, its plan, and what refuses it."""

import polars as pl
import pytest

from tests.support.mistakes import moves, refused
from tidemark import (
    Pipeline,
    col,
    count,
    count_window,
    global_window,
    on_update,
    prev,
    processing_time,
    same,
    session,
    tumbling,
)
from tidemark.core.rows.schema import INSTANT
from tidemark.plan.explain import render_mermaid, render_text
from tidemark.serde.segments import encode_segment
from tidemark.testing import InProcess

MINUTE = tumbling("1m")


def keyed(pipeline=None):
    return moves(pipeline).key_by("player")


def test_late_rows_have_the_columns_of_the_rows_and_those_of_lateness():
    late = keyed().window(MINUTE).aggregate(n=count()).late
    added = {
        "reason": pl.String(),
        "start": INSTANT,
        "end": INSTANT,
        "late_by_ms": pl.Int64(),
        "own_watermark": INSTANT,
    }
    assert late.columns == {**moves().columns, **added}
    assert keyed().distinct_by("at", within="1m").late.columns == late.columns


def test_the_stage_is_named_by_key_and_windows_and_read_once():
    pipeline = Pipeline("game")
    counts = keyed(pipeline).window(MINUTE, allowed_lateness="1m").aggregate(n=count())
    counts.to("counts")
    counts.late.to("late-rows")
    counts.late.key_by("vip").window(tumbling("1h"), allowed_lateness="1h").aggregate(n=count()).to(
        "hours"
    )
    plan = pipeline.plan()
    (derived,) = plan.derived
    assert derived.operator == "player.tumbling-1m.late"
    text = render_text(plan)
    assert "late rows of tumbling(1m), allowed lateness 1m" in text
    assert "results of player.tumbling-1m.late" in text
    assert "late rows of tumbling(1m)" in render_mermaid(plan)


REFUSED = [
    (lambda k: k.aggregate(n=count()).late, "have no late rows"),
    (lambda k: k.window(processing_time(MINUTE)).aggregate(n=count()).late, "no late rows"),
    (
        lambda k: k.window(global_window(), trigger=on_update()).aggregate(n=count()).late,
        "late: windows in order of arrival",
    ),
    (
        lambda k: k.window(session("1m"), lateness="after_merging").aggregate(n=count()).late,
        'late: with lateness="after_merging" the other rows of a session decide',
    ),
    (
        lambda k: (
            k.window(MINUTE)
            .aggregate(n=count())
            .updates()
            .key_by()
            .window(MINUTE)
            .aggregate(m=count())
            .late
        ),
        "late: rows of updates() are never late",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_windows_without_late_rows_of_their_own_refuse(call, message):
    with refused(message):
        call(keyed())


@pytest.mark.parametrize("name", ["reason", "late_by_ms", "own_watermark"])
def test_a_column_with_the_name_of_a_field_of_late_rows_is_refused(name):
    rows = moves().with_columns(col("score").alias(name)).key_by("player")
    with refused(f"late: column {name!r} clashes with a field of every late row"):
        _ = rows.window(MINUTE).aggregate(n=count()).late


def test_operators_that_take_no_row_behind_its_watermark_refuse_late_rows():
    late = keyed().window(MINUTE).aggregate(n=count()).late
    with refused("distinct_by: rows of late are behind their watermark"):
        late.distinct_by("player", within="1m")
    with refused("scan: rows of late are behind their watermark"):
        late.key_by("player").scan(before=prev("score"))
    with refused('count_window(order="event_time"): rows of late are behind their watermark'):
        late.key_by("player").window(count_window(3, order="event_time"))
    with refused("window(same()): rows of late have no window"):
        late.key_by("player").window(same())


def test_count_windows_and_rows_in_event_time_order_have_late_rows():
    pipeline = Pipeline("game")
    rows = keyed(pipeline)
    rows.window(count_window(2, order="event_time")).aggregate(n=count()).late.to("of-counts")
    rows.distinct_by("score", within="1h").late.to("of-distinct")
    run = InProcess(pipeline)
    move = {"player": "ann", "score": 1, "speed": 1.0, "vip": False, "tags": []}
    run.send("moves", *({**move, "at": at} for at in (10_000, 20_000, 9_000)))
    run.idle("moves", "1h")
    for name in ("of-counts", "of-distinct"):
        (row,) = run.published(name)
        assert row["at"] == 9_000
        assert (row["start"][-10:], row["end"][-10:]) == ("00:09.000Z", "00:09.001Z")
        assert (row["late_by_ms"], row["own_watermark"][-10:]) == (8_999, "00:18.000Z")
        assert row["reason"] == "late"


def test_late_rows_change_no_segment_of_the_log_of_the_windows():
    """A pipeline with late rows writes the bytes of one without, on the logs that both have."""

    def run(*, with_late: bool) -> InProcess:
        pipeline = Pipeline("game", 2)
        counts = keyed(pipeline).window(MINUTE).aggregate(n=count())
        counts.filter(col("n") > 1).key_by("player").window(tumbling("1h")).aggregate(m=count()).to(
            "hours"
        )
        if with_late:
            counts.late.key_by("vip").window(MINUTE, allowed_lateness="1h").aggregate(n=count()).to(
                "lates"
            )
        found = InProcess(pipeline)
        move = {"score": 1, "speed": 1.0, "vip": False, "tags": []}
        for number in range(40):
            at = number * 17_000 % 300_000
            found.send("moves", {**move, "player": f"p{number % 3}", "at": at})
        found.idle("moves", "3h")
        return found

    plain, late = run(with_late=False), run(with_late=True)
    assert late.published("lates")
    assert late.published("hours") == plain.published("hours")
    for at, segments in plain._log.items():
        assert [*map(encode_segment, segments)] == [*map(encode_segment, late._log[at])]
    kept = {each.name: each for each in late.plan.operators}
    for each in plain.plan.operators:
        assert kept[each.name].state_signature == each.state_signature
        assert kept[each.name].topics == each.topics
