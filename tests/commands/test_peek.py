"""The lines of ``tidemark peek``: panes, late rows, dead letters and rows, as people read them."""

import json

from examples.game import game
from tests.support.local_results import by_topic, finished
from tidemark.commands.peek import SHOWN, log_lines, table_lines
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.serde.segments import encode_segment
from tidemark.sinks.table import tables_of

START_MS = 1_772_438_400_000


def move(player, after_s, score=1):
    at = START_MS + 1000 * after_s
    return json.dumps({"player": player, "at": at, "score": score, "kind": "pop"}).encode()


def shown(topic, moves):
    """Return the lines of the records of a topic of the game."""
    printed = by_topic(finished(game.plan(), {"moves": moves}, every_pane=True)[1])
    table = next(each for each in tables_of(game.plan()) if each.topic == f"game.{topic}")
    values = []
    for record in printed[table.topic]:
        record.pop("end_of_input", None)  # only runs in one process have it
        values.append(json.dumps(record).encode())
    return list(table_lines(topic, table, values))


def test_a_pane_has_its_window_values_and_revision():
    (line,) = shown("pops-per-minute", [move("alice", 5, score=7)])
    window = "2026-03-02 08:00:00 to 08:01:00"
    fields = "player=alice pops=1 score=7"
    assert line == f"pops-per-minute           {window}  {fields}  (on_time, revision 1)"


def test_a_session_over_midnight_shows_both_days():
    (line,) = shown("play-sessions", [move("alice", 57_590)])
    assert "2026-03-02 23:59:50 to 2026-03-03 00:00:20  player=alice moves=1 best=1" in line


def test_late_rows_and_dead_letters_say_why():
    moves = [move("alice", 0), move("bob", 3_000), move("alice", 1), b"pop!"]
    (late,) = shown("pops-per-minute.late", moves)
    assert "reason=late" in late
    assert "event_time=2026-03-02 08:00:01 raw_topic=moves" in late
    (dead,) = shown("dead-letters", moves)
    assert dead.startswith("dead-letters              reason=not JSON: invalid character")
    assert dead.endswith("value=pop!")


def test_of_many_rows_the_first_are_shown():
    lines = shown("pops-per-minute", [move(f"p{n:03}", 0) for n in range(SHOWN + 1_003)])
    assert len(lines) == SHOWN + 1
    assert lines[-1] == "pops-per-minute           ... and 1,003 more"


def test_a_record_of_another_form_is_shown_with_the_reason():
    (table, *_) = (each for each in tables_of(game.plan()) if each.name == "pops_per_minute")
    (line,) = table_lines("pops", table, [b"[1]"])
    assert line.startswith("pops                      b'[1]' is no record of it: ")


def test_rows_have_their_source_and_time():
    plan = game.plan()
    taken = Ingest(plan).take(
        RecordBatch.of_values("moves", 0, 0, [move("alice", 5)], START_MS), Progress()
    )
    builder = SegmentBuilder(epoch=0)
    builder.add(taken)
    (log,) = plan.logs
    segments = [
        encode_segment(segment)
        for built in builder.build(log, START_MS, {"moves": 1}, [])
        for segment in built
    ]
    fields = f"player=alice at={START_MS + 5_000} score=1 kind=pop"
    line = f"moves/0                   2026-03-02 08:00:05  {fields}"
    assert list(log_lines(log, segments)) == [line]
