"""The in-process runner: the whole dataflow, and cuts that mean nothing."""

import json
import random

import pytest

from examples.game import game
from tests.support.local_results import decoded, finished
from tidemark import (
    RECORD_TIME,
    Pipeline,
    bounded,
    count,
    first,
    hopping,
    last,
    monotonic,
    tumbling,
)
from tidemark import sum as total
from tidemark.errors import ConfigurationError
from tidemark.local.run import LocalRun
from tidemark.local.view import named_inputs, open_inputs, summary
from tidemark.serde.formats.source_format import JSON

MINUTE_MS = 60_000


def move(player, at, score=1, kind="pop"):
    return json.dumps({"player": player, "at": at, "score": score, "kind": kind}).encode()


def results(lines, seed=None, *, every_pane=False):
    return results_of(game, {"moves": lines}, seed, every_pane=every_pane)


def results_of(pipeline, inputs, seed=None, *, every_pane=False):
    run, lines = finished(pipeline.plan(), inputs, seed, every_pane=every_pane)
    return decoded(lines), list(summary(run))


def of(topic, written):
    return [each["value"] for each in written if each["topic"] == f"game.{topic}"]


def test_late_pops_count_in_the_minute_in_which_they_happened():
    # alice  5 s, 50 s            out of reach            55 s, long after the minute closed
    lines = [move("alice", 5_000), move("alice", 50_000), move("bob", 200_000)]
    lines += [move("alice", 55_000, score=5)]
    written, _ = results(lines)
    first = of("pops-per-minute", written)[0]
    assert (first["player"], first["start"], first["pops"], first["score"]) == ("alice", 0, 3, 7)
    assert (first["revision"], first["timing"], first["final"]) == (3, "late", True)


def test_panes_that_only_the_end_of_input_published_are_marked():
    written, _ = results([move("alice", 0), move("bob", 2 * MINUTE_MS)])
    alice, bob = of("pops-per-minute", written)
    assert "end_of_input" not in alice
    assert bob["end_of_input"] is True


def test_too_late_rows_and_dead_letters_are_told_and_counted():
    lines = [move("alice", 0), move("bob", 20 * MINUTE_MS), b"{", b" ", move("alice", 1)]
    lines += [move("carol", 20 * MINUTE_MS, kind="miss")]
    written, counts = results(lines)
    (late,) = of("pops-per-minute.late", written)
    assert (late["start"], late["offset"], late["row"]["player"]) == (0, 4, "alice")
    (dead,) = of("dead-letters", written)
    assert (dead["topic"], dead["partition"], dead["offset"]) == ("moves", 0, 2)
    assert counts == [
        "moves: 6 records = 3 passed + 1 filtered + 1 dead + 1 blank",
        "pops-per-minute: 3 rows = 2 accepted + 1 late",
        "play-sessions: 3 rows = 2 accepted + 1 late",
    ]


def disordered(records, seed):
    draw = random.Random(seed)
    lines, now = [], 0
    for _ in range(records):
        now += draw.randrange(2_000)
        behind = draw.choice([1_000, 5_000, 60_000, 900_000])
        player = f"p{draw.randrange(7)}"
        lines.append(move(player, max(0, now - draw.randrange(behind)), draw.randrange(9)))
        if draw.random() < 0.02:
            lines.append(draw.choice([b"", b"[1]", b'{"player":null}', b"\xff"]))
    return lines


def test_cuts_do_not_change_a_byte_of_the_results():
    lines = disordered(1_500, seed=7)
    whole, counts = results(lines)
    assert len(of("pops-per-minute", whole)) > 50
    assert len(of("pops-per-minute.late", whole)) > 10
    assert len(of("play-sessions", whole)) > 30
    for seed in range(5):
        assert results(lines, seed) == (whole, counts), f"seed {seed}"


def two_sources():
    pipeline = Pipeline("two")
    schema = {"player": str, "at": int, "score": int}
    streams = [
        pipeline.source(topic, schema=schema, event_time="at", watermark=bounded("5s"))
        for topic in ("moves", "imports")
    ]
    joined = streams[0].union(streams[1]).key_by("player")
    joined.window(hopping("1m", "20s")).aggregate(
        score=total("score"), first=first("score"), last=last("score")
    ).to("scores")
    return pipeline


def test_cuts_do_not_change_a_byte_of_what_comes_of_several_sources():
    pipeline = two_sources()
    inputs = {"moves": disordered(600, seed=1), "imports": disordered(600, seed=2)}
    whole, counts = results_of(pipeline, inputs)
    dead = [each["value"]["topic"] for each in whole if each["topic"] == "two.dead-letters"]
    assert set(dead) == {"moves", "imports"}
    for seed in range(5):
        assert results_of(pipeline, inputs, seed) == (whole, counts), f"seed {seed}"


def test_every_pane_shows_on_time_panes_before_their_corrections():
    lines = [move("alice", 0), move("bob", 2 * MINUTE_MS), move("alice", 1)]
    shown = {}
    for seed in range(20):
        written, _ = results(lines, seed, every_pane=True)
        alice = [p for p in of("pops-per-minute", written) if p["player"] == "alice"]
        shown[seed] = [(pane["revision"], pane["timing"]) for pane in alice]
    assert set(map(tuple, shown.values())) == {((1, "on_time"), (2, "late"))}


def test_inputs_are_named_for_their_topics(tmp_path):
    file = tmp_path / "moves.jsonl"
    file.write_bytes(b"a\r\nb")
    with open_inputs({"moves": str(file)}, {"moves": JSON, "others": JSON}) as lines:
        assert {topic: list(each) for topic, each in lines.items()} == {"moves": [b"a\r", b"b"]}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["/nowhere"], "No such file"),
        (["a.jsonl"], "TOPIC=FILE"),
        (["moves=/dev/null", "moves=/dev/null"], "has an input already"),
    ],
)
def test_wrong_inputs_are_refused(arguments, complaint):
    topics = ["moves", "others"] if complaint == "TOPIC=FILE" else ["moves"]
    formats = dict.fromkeys(topics, JSON)
    with (
        pytest.raises(ConfigurationError, match=complaint),
        open_inputs(named_inputs(arguments, topics), formats),
    ):
        pass


def test_a_forgotten_unit_is_told_before_the_counts():  # D9
    now_ms = 1_767_225_600_000
    run = LocalRun(game.plan(), now_ms=now_ms)
    for _ in run.run({"moves": [move("alice", now_ms // 1000)]}):
        pass
    warning, counts, *_ = summary(run)
    assert warning.startswith("warning: raw topic moves: the event time of the first row is 1970")
    assert counts.startswith("moves: 1 records")


def test_record_time_of_a_file_is_told_before_the_counts():
    made = Pipeline("made")
    rows = made.source("t", schema={"k": str}, event_time=RECORD_TIME, watermark=monotonic())
    rows.key_by("k").window(tumbling("1m")).aggregate(n=count()).to("n")
    (letter,), (warning, counts, _) = results_of(made, {"t": [b'{"k":"a"}']})
    assert letter["value"]["reason"] == "event time: missing"
    assert warning.startswith("warning: records of t are dead: event_time=RECORD_TIME is the Kafka")
    assert counts.startswith("t: 1 records = 0 passed")
