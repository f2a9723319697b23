"""Patterns in tests of pipelines: matches, timeouts and absences, over crashes and chains."""

import json

import pytest

from tests.support.local_results import finished
from tidemark import (
    Pipeline,
    absence,
    bounded,
    col,
    collect,
    count,
    first,
    lit,
    max,  # noqa: A004 - the word of the language
    never,
    sequence,
    step,
    to_last,
    tumbling,
)
from tidemark.testing import InProcess

MINUTE = 60_000
HOT, SMOKE = step(col("celsius") > 80), step(col("kind") == "smoke")
FIRE = sequence(hot=HOT, smoke=SMOKE).within("10m")


def house(delay="0s"):
    pipeline = Pipeline("house", partitions=2)
    readings = pipeline.source(
        "readings",
        schema={"room": str, "at": int, "kind": str, "celsius": float},
        event_time="at",
        watermark=bounded(delay),
    )
    return pipeline, readings.key_by("room")


def reading(minute, celsius=None, room="attic"):
    kind = "smoke" if celsius is None else "temperature"
    return {"room": room, "at": int(minute * MINUTE), "kind": kind, "celsius": celsius}


def drawn(*minutes):
    """Return readings: a number is a hot minute, a text a minute with smoke."""
    return [reading(int(m)) if isinstance(m, str) else reading(m, 90.0 + m) for m in minutes]


def test_smoke_within_ten_minutes_of_a_high_temperature():
    """The timeline of docs/semantics.md, "Patterns"."""
    pipeline, rooms = house()
    found = rooms.match(FIRE).select(hot_at="hot.at", smoke_at="smoke.at")
    found.to("fires")
    found.timeouts.to("cooled")
    with InProcess(pipeline) as run:
        run.send("readings", *drawn(0, 3, "5", "6", 7, 20))
        run.advance("readings", 21 * MINUTE)

        run.expect_published("fires", {"room": "attic", "hot_at": 0, "smoke_at": 5 * MINUTE})
        run.expect_published("cooled", {"hot_at": 7 * MINUTE, "smoke_at": None})
        (late,) = run.published("cooled")
        assert late["_event_time_ms"] == 17 * MINUTE - 1


def test_a_crash_between_the_rows_of_a_match_changes_nothing():
    pipeline, rooms = house()
    rooms.match(FIRE).select(n=count("hot"), at="smoke.at").to("fires")
    with InProcess(pipeline) as run:
        for row in drawn(0, "5", 7, "9", 11):
            run.send("readings", row)
            run.crash("patterns")
            run.restart("patterns")
        run.idle("readings", "1h")

        run.expect_published("fires", {"at": 5 * MINUTE}, {"at": 9 * MINUTE})


def test_absence_is_published_in_silence():
    pipeline, rooms = house()
    rooms.match(absence(of=lit(value=True), for_="5m")).select(last_at="of.at").to("silent")
    with InProcess(pipeline) as run:
        run.send("readings", *drawn(0, 4))
        run.idle("readings", "4m")
        assert run.published("silent") == []
        run.idle("readings", "6m")

        run.expect_published("silent", {"room": "attic", "last_at": 4 * MINUTE})


def test_values_of_steps_are_those_of_their_rows_and_of_no_rows():
    pipeline, rooms = house()
    steps = sequence(
        hot=HOT.one_or_more().greedy(), cold=step(col("celsius") < 0).optional(), smoke=SMOKE
    )
    rooms.match(steps.within("1h")).select(
        n=count("hot"),
        rows=count(),
        cold=count("cold"),
        cold_at="cold.at",
        coldest=max("cold.celsius"),
        cold_ats=collect("cold.at"),
        ats=collect("hot.at"),
        began=first("hot.at"),
        very=count("hot", where=col("hot.celsius") > 91),
    ).to("fires")
    with InProcess(pipeline) as run:
        run.send("readings", *drawn(0, 1, 2, "3"))
        run.idle("readings", "2h")

        (found,) = run.published("fires")
    del found["_rows"], found["_id"]
    assert found == {
        "room": "attic",
        "n": 3,
        "rows": 4,
        "cold": 0,
        "cold_at": None,
        "coldest": None,
        "cold_ats": [],
        "ats": [0, MINUTE, 2 * MINUTE],
        "began": 0,
        "very": 1,
        "_event_time_ms": 3 * MINUTE,
    }


def test_the_parts_of_a_pattern_reach_the_operator():
    a, b = step(col("kind") == "a"), step(col("kind") == "b")
    cases = {
        "times": (sequence(a=a.times(2), b=b), "aab ab", ["aab"]),
        "at most": (sequence(a=a.times(1, 2).greedy(), b=b), "aaab", ["aab"]),
        "next": (sequence(a=a, b=step(col("kind") == "b", contiguity="next")), "acb ab", ["ab"]),
        "in a row": (sequence(a=a.times(2, contiguity="next"), b=b), "acab aab", ["aab"]),
        "any": (sequence(a=a, b=step(col("kind") == "b", contiguity="followed_by_any")), "abb", []),
        "until": (sequence(a=a.one_or_more().until(col("kind") == "c"), b=b), "acab", ["ab"]),
        "never": (sequence(a=a, c=never(col("kind") == "c"), b=b), "acb ab", ["ab"]),
        "never after": (sequence(a=a, b=b, c=never(col("kind") == "c")), "ab abc", ["ab"]),
        "optional": (sequence(a=a, c=step(col("kind") == "c").optional(), b=b), "ab", ["ab"]),
    }
    for what, (steps, text, expected) in cases.items():
        pipeline, rooms = house()
        skip = "none" if what == "any" else "past_last"
        rooms.match(steps.within("8m"), skip=skip).select(ats=collect("a.at")).to("found")
        rows = [
            {"room": "attic", "at": n * MINUTE, "kind": kind}
            for n, kind in enumerate(text.replace(" ", " " * 20))
            if kind != " "
        ]
        with InProcess(pipeline) as run:
            run.send("readings", *rows)
            run.idle("readings", "1h")
            found = [
                "".join(row["step"] for row in each["_rows"]) for each in run.published("found")
            ]
        assert found == (expected or ["ab", "ab"]), what


def test_a_skip_to_a_step_lets_matches_share_its_row():
    pipeline, rooms = house()
    three = sequence(a=HOT, b=HOT, c=HOT).within("10m")
    rooms.match(three, skip=to_last("c")).select(a="a.at", c="c.at").to("threes")
    with InProcess(pipeline) as run:
        run.send("readings", *drawn(0, 1, 2, 3, 4))
        run.idle("readings", "1h")

        found = [(row["a"] // MINUTE, row["c"] // MINUTE) for row in run.published("threes")]
    assert found == [(0, 2), (2, 4)]


def test_matches_go_on_to_windows_joins_and_patterns():
    pipeline, rooms = house()
    fires = rooms.match(FIRE).select(hot_at="hot.at", smoke_at="smoke.at")
    fires.key_by("room").window(tumbling("1h")).aggregate(fires=count()).to("fires-per-hour")
    two = sequence(both=step(lit(value=True)).times(2)).within("1h")
    fires.key_by("room").match(two).select(first_at=first("both.hot_at")).to("twice")
    fires.key_by("room").join(rooms, within="1m").to("with-readings")
    fires.with_columns(took=col("smoke_at") - col("hot_at")).filter(col("took") > MINUTE).to("slow")
    with InProcess(pipeline) as run:
        run.send("readings", *drawn(0, "1", 7, "9", 200))
        run.idle("readings", "5h")

        run.expect_published("fires-per-hour", {"room": "attic", "fires": 2})
        run.expect_published("twice", {"first_at": 0})
        run.expect_published("slow", {"took": 2 * MINUTE})
        (slow,) = run.published("slow")
        assert [row["offset"] for row in slow["_rows"]] == [2, 3]
        assert len(run.published("with-readings")) == 3


def test_patterns_take_the_final_results_of_windows():
    pipeline, rooms = house()
    a_minute = rooms.window(tumbling("1m"), allowed_lateness="1m").aggregate(n=count())
    busy = sequence(busy=step(col("n") > 1).times(2, contiguity="next")).within("5m")
    a_minute.key_by("room").match(busy).select(ns=collect("busy.n")).to("busy")
    with InProcess(pipeline) as run:
        run.send("readings", *drawn(0, 0, 1, 2, 2, 3, 3, 3, 9))
        run.idle("readings", "1h")

        run.expect_published("busy", {"room": "attic", "ns": [2, 3]})


def test_late_rows_and_refused_rows_go_to_the_late_topic_and_late_ones_are_a_stream():
    pipeline, rooms = house()
    found = rooms.match(FIRE, max_partial=1).select()
    found.to("fires")
    found.late.select("room", "celsius", "late_by_ms").to("missed")
    with InProcess(pipeline) as run:
        run.send("readings", *drawn(5, 6, 4))
        run.idle("readings", "1h")

        reasons = [(row["event_time_ms"] // MINUTE, row["reason"]) for row in run.late("fires")]
        assert sorted(reasons) == [(4, "late"), (5, "more than 1 partial matches")]
        run.expect_published("missed", {"room": "attic", "celsius": 94.0})


@pytest.mark.parametrize("seed", range(4))
def test_cuts_of_the_log_change_no_bit(seed):
    pipeline, rooms = house("2m")
    steps = sequence(hot=HOT.one_or_more(), smoke=SMOKE).within("10m")
    found = rooms.match(steps, skip="to_next").select(n=count("hot"), top=max("hot.celsius"))
    found.to("fires")
    found.timeouts.to("cooled")
    rows = [reading(n * 7 % 40, None if n % 3 else 80 + n, f"r{n % 4}") for n in range(120)]
    lines = [json.dumps(row).encode() for row in rows]
    plan = pipeline.plan()
    whole = finished(plan, {"readings": lines}, None)[1]

    assert b"house.fires" in whole
    assert b"house.cooled" in whole
    assert finished(plan, {"readings": lines}, seed)[1] == whole
