"""``Pipeline.run`` and ``peek``: frames with the results of `tidemark try`."""

import io
from datetime import UTC, datetime
from typing import Any

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console

from examples.game import game
from tests.support.local_results import by_topic, finished
from tidemark import (
    ConfigurationError,
    Pipeline,
    PipelineError,
    avro,
    bounded,
    col,
    count,
    tumbling,
)
from tidemark import sum as total
from tidemark.local.progress import shown_progress

START_MS = 1_772_438_400_000
MOVES: list[dict[str, Any] | bytes] = [
    {"player": "alice", "at": START_MS + 5_000, "score": 10, "kind": "pop"},
    {"player": "alice", "at": START_MS + 65_000, "score": 20, "kind": "pop"},
    {"player": "alice", "at": START_MS + 10_000, "score": 5, "kind": "pop"},
    {"player": "bob", "at": START_MS + 2_000_000, "score": 5, "kind": "pop"},
    {"player": "bob", "at": START_MS + 1_000, "score": 5, "kind": "pop"},
    b"pop!",
]


def instant(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def two_sources():
    pipeline = Pipeline("two")
    for topic in ("left", "right"):
        rows = pipeline.source(topic, schema={"at": int}, event_time="at", watermark=bounded("1s"))
        rows.to(f"{topic}-rows")
    return pipeline


def test_frames_hold_the_records_that_try_prints():
    """Each row of a frame is the record of `tidemark try`: same topics, fields and order."""
    lines = [each if isinstance(each, bytes) else msgspec.json.encode(each) for each in MOVES]
    for every_pane in (False, True):
        printed = by_topic(finished(game.plan(), {"moves": lines}, every_pane=every_pane)[1])
        results = game.run(MOVES, every_pane=every_pane)
        assert {f"game.{name}" for name, frame in results.items() if frame.height} == set(printed)
        for topic, records in printed.items():
            assert [record_of(row) for row in rows_of(results, topic)] == records


def rows_of(results, topic):
    return results[topic.removeprefix("game.")].rows(named=True)


def record_of(row):
    """Return a row as JSON shows it; a record has ``end_of_input`` only if it is true."""
    shown = {
        name: int(value.timestamp() * 1000) if isinstance(value, datetime) else value
        for name, value in row.items()
    }
    if not shown.get("end_of_input", True):
        del shown["end_of_input"]
    return shown


def test_instants_are_datetimes_and_topics_without_rows_have_columns():
    results = game.run(MOVES[:2])
    first = results["pops-per-minute"].row(0, named=True)
    assert (first["start"], first["pops"]) == (instant(START_MS), 1)
    whole = game.run(MOVES)
    for topic, frame in results.items():
        assert frame.schema == whole[topic].schema, topic
    assert results["dead-letters"].is_empty()


@pytest.mark.parametrize("name_topic", [False, True])
def test_a_file_and_its_records_give_the_same(tmp_path, name_topic):
    file = tmp_path / "moves.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, MOVES[:5])))
    results = game.run({"moves": file} if name_topic else file)
    for topic, frame in game.run(iter(MOVES[:5])).items():
        assert_frame_equal(frame, results[topic])


def test_peek_shows_the_first_rows_of_any_stream():
    pipeline = Pipeline("shown")
    moves = pipeline.source(
        "moves", schema={"player": str, "at": int}, event_time="at", watermark=bounded("1s")
    )
    twice = moves.filter(col("player") == "alice").with_columns(twice=col("at") * 2)
    panes = twice.key_by("player").window(tumbling("1m")).aggregate(n=count(), at=total("at"))
    inputs = [each for each in MOVES if isinstance(each, dict)]
    alice = [each["at"] for each in inputs if each["player"] == "alice"]
    assert pipeline.peek(twice, inputs)["twice"].to_list() == [2 * at for at in alice]
    assert pipeline.peek(twice.key_by("player"), inputs, rows=1).height == 1
    assert set(pipeline.peek(panes, inputs).columns) == {"player", "start", "end", "n", "at"}
    assert repr(pipeline) == "Pipeline('shown', outputs: none)"
    with pytest.raises(PipelineError, match="the stream belongs to pipeline 'shown', not to 'ga"):
        game.peek(twice, inputs)


def test_results_say_what_they_hold():
    results = game.run(MOVES)
    assert repr(results) == (
        "Results(pops-per-minute: 3, pops-per-minute.late: 1, play-sessions: 3, "
        "play-sessions.late: 1, dead-letters: 1)"
    )
    counts = "moves: 6 records = 5 passed + 0 filtered + 1 dead + 0 blank"
    assert counts in results.counts
    assert counts in str(results)
    assert counts in results._repr_html_()
    assert "<h4>pops-per-minute: 3 rows</h4>" in results._repr_html_()
    assert "<h4>dead-letters: 1 row</h4>" in results._repr_html_()
    refused = game.run([b"pop!"] * 1_001)._repr_html_()
    assert "<h4>dead-letters: 1,001 rows, of which these are the first 10</h4>" in refused
    with pytest.raises(KeyError, match="no topic 'pops'; there are pops-per-minute, pops-per"):
        results["pops"]


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ("/nowhere", "run: name the topic of each input, .'TOPIC': ...}; topics are left, right"),
        ({"left": "/nowhere"}, "run: /nowhere: No such file"),
        ({"middle": []}, "run: no source reads topic 'middle'; topics are left, right"),
        ({"left": pl.DataFrame({"at": [1]})}, r"not Series: give .* frame.to_dicts\(\)"),
        ({"left": io.StringIO('{"at":1}')}, "not str: give the path of a file, or open it "),
        ({"left": [1]}, "run: a record is a mapping or bytes, not int$"),
    ],
)
def test_wrong_inputs_are_refused(inputs, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        two_sources().run(inputs)


def test_records_with_schemas_of_a_registry_are_refused():
    pipeline = Pipeline("framed")
    rows = pipeline.source(
        "moves", schema={"at": int}, format=avro(), event_time="at", watermark=bounded("1s")
    )
    rows.to("rows")
    with pytest.raises(ConfigurationError, match="records of moves need a schema registry"):
        pipeline.run([b""])


def test_notebooks_show_pipelines_and_streams_as_tables():
    pipeline = two_sources()
    assert "<td>reads left</td><td>at</td>" in pipeline._repr_html_()
    assert "<td>publishes two.left-rows</td><td>json</td>" in pipeline._repr_html_()
    rows = Pipeline("shown").source(
        "rows", schema={"<u>": str, "at": int}, event_time="at", watermark=bounded("1s")
    )
    assert "<td>&lt;u&gt;</td><td>String</td>" in rows._repr_html_()
    assert "<caption>KeyedStream(key: at)</caption>" in rows.key_by("at")._repr_html_()


def test_progress_is_shown_in_terminals_only(capsys):
    for terminal in (False, True):
        console = Console(stderr=True, force_terminal=terminal, width=60)
        with shown_progress(console) as add:
            add(20_000)
        shown = capsys.readouterr().err
        assert ("20,000 records" in shown) is terminal
