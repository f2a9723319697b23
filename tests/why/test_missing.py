"""``why missing`` over operators without windows: docs/why.md, "Missing records"."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.why import one_key
from tidemark import Pipeline, bounded, col, sequence, step
from tidemark.testing import InProcess
from tidemark.why.key_replay import replayed
from tidemark.why.keys import partition_of, typed_key
from tidemark.why.missing import Missing
from tidemark.why.raw_trace import RawFate
from tidemark.why.reading import Reading

S = 1_000


def source(pipeline: Pipeline, topic: str) -> Any:
    schema = {"k": str, "at": int, "kind": str}
    watermark = bounded("2s")
    rows = pipeline.source(
        topic, schema=schema, event_time="at", watermark=watermark, idle_after="1h"
    )
    return rows.key_by("k")


def paired() -> Pipeline:
    pipeline = Pipeline("p", partitions=1)
    joined = source(pipeline, "left").join(source(pipeline, "right"), within=("-5s", "5s"))
    joined.to("pairs")
    return pipeline


def matched() -> Pipeline:
    pipeline = Pipeline("p", partitions=1)
    fire = sequence(hot=step(col("kind") == "hot"), smoke=step(col("kind") == "smoke"))
    source(pipeline, "left").match(fire.within("10s")).select(hot_at="hot.at").to("fires")
    return pipeline


def run(pipeline: Pipeline, rows: list[tuple[str, str, int, str]]) -> InProcess:
    scenario = InProcess(pipeline)
    for topic, key, second, kind in rows:
        scenario.send(topic, {"k": key, "at": second * S, "kind": kind})
    return scenario


def facts(
    scenario: InProcess, key: str, second: int, unread: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the facts of rows of a second; reading topics would fail."""
    rows = missing(scenario, key, SimpleNamespace(unread=unread))
    return [*rows.rows((second * S, second * S + 1))]


def missing(scenario: InProcess, key: str, reading: Any) -> Missing:
    (log,) = scenario.plan.logs
    typed = typed_key(key, log.key)
    segments = scenario._log[log.topic, partition_of(typed, log)]
    (operator,) = scenario.plan.operators
    replay = replayed(operator, typed, enumerate(segments))
    return Missing(cast(Reading, reading), operator, replay)


def test_rows_of_both_sides_of_a_join_are_followed_to_their_pairs():
    rows = [
        ("left", "a", 1, ""),
        ("right", "a", 3, ""),
        ("right", "b", 3, ""),
        ("right", "a", 4, ""),
        ("left", "a", 60, ""),
        ("right", "a", 60, ""),
        ("left", "a", 30, ""),
    ]
    scenario = run(paired(), rows)
    taken, published = facts(scenario, "a", 1)
    assert (taken["fact"], taken["source"], taken["offset"]) == ("accepted", "left/0", 0)
    assert published["fact"] == "rows"
    assert published["count"] == 3, "with the rows at 3, 4 and those at 60"
    (of_right, _) = facts(scenario, "a", 3)
    assert (of_right["fact"], of_right["source"]) == ("accepted", "right/0")
    (of_b, none) = facts(scenario, "b", 3)
    assert (of_b["fact"], none["count"]) == ("accepted", 0)
    (late,) = facts(scenario, "a", 30)
    assert (late["fact"], late["source"], late["offset"]) == ("late", "left/0", 2)
    assert "refuses it as late" in late["text"]
    assert facts(scenario, "a", 2) == []


def test_rows_of_a_pattern_are_followed_to_its_matches():
    rows = [
        ("left", "a", 1, "hot"),
        ("left", "a", 5, "smoke"),
        ("left", "b", 5, "smoke"),
        ("left", "a", 60, ""),
        ("left", "a", 7, "smoke"),
    ]
    scenario = run(matched(), rows)
    taken, published = facts(scenario, "a", 1)
    assert (taken["fact"], published["fact"], published["count"]) == ("accepted", "rows", 1)
    (_, none) = facts(scenario, "b", 5)
    assert none["count"] == 0
    (late,) = facts(scenario, "a", 7)
    assert (late["fact"], late["late_by_ms"]) == ("late", 50_999)


PART = " in the part that was read"


class Unpublished(SimpleNamespace):
    """Topics without the pane, and raw topics with one record that becomes a row, or none."""

    plan = property(lambda self: self.scenario.plan)

    def published(self, *_: Any) -> list[Any]:
        return []

    def raw_topics(self, _: Any) -> list[str]:
        return ["t"]

    def raw_batches(self, *_: Any) -> list[Any]:
        batches: list[Any] = self.batches
        return batches


@pytest.mark.parametrize(("unread", "part"), [((), ""), (("t/0: nothing is read",), PART)])
def test_what_is_not_found_is_said_of_the_part_that_was_read(unread, part):
    scenario = one_key.run(one_key.WINDOWS["tumbling"], [(0, "a", 1), (0, "a", 25)])
    last = run(paired(), [("left", "a", 1, "")])
    assert facts(last, "a", 1, unread)[1]["text"].endswith(f"with its segment and since{part}")
    batches: list[Any] = []
    reading = Unpublished(scenario=scenario, unread=unread, batches=batches)
    found = missing(scenario, "a", reading)
    (_, _, delivery) = found.rows((1 * S, 1 * S + 1))
    there = part or " there yet, or no longer"
    assert (delivery["fact"], delivery["text"].partition(": ")[2]) == (
        "unpublished",
        f"the pane is not{there}",
    )
    fate = RawFate("t", 0, 3, None)
    trace: Any = SimpleNamespace(sources={}, take=lambda batch: batch)
    (absent,) = found.raw(trace, None)
    assert absent["text"] == f"t: no record of this key and time{part}"
    batches.append([fate])
    (of_log,) = found.raw(trace, None)
    assert of_log["text"].endswith(part or "has not written it to the log, or it is gone")
    assert ("ingest" in of_log["text"]) is not bool(part)
