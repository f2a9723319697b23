"""What a pipeline compiles to: streams, logs, topics, services."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.plan.pipelines import game, publish, raw
from tidemark import (
    Pipeline,
    PipelineError,
    bounded,
    calendar,
    col,
    count,
    hopping,
    load_pipeline,
    on_final,
    session,
    sliding,
    tumbling,
)
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate

ROOT = Path(__file__).parents[2]


def test_streams_that_share_a_key_share_a_log_and_one_stream_is_stored_once():
    plan = game().plan()
    (log,) = plan.logs
    assert (log.topic, log.partitions, log.key) == ("game.by-player.log", 4, {"player": pl.String})
    (stream,) = log.streams
    assert (stream.name, stream.key, stream.topics) == ("moves", ("player",), {"moves"})
    assert list(stream.columns) == ["player", "at", "score", "kind"]
    assert [operator.operator.streams for operator in plan.operators] == [{"moves"}, {"moves"}]


def test_an_operator_knows_its_service_its_topics_and_its_values():
    pops, sessions = game().plan().operators
    assert (pops.service, sessions.service) == ("windowing", "sessions")
    assert isinstance(pops.operator.body, WindowAggregate)
    assert isinstance(sessions.operator.body, SessionAggregate)
    assert (pops.log, *pops.topics, pops.changelog, pops.results.format) == (
        "game.by-player.log",
        "game.pops-per-minute",
        "game.pops-per-minute.late",
        "game.pops-per-minute.changelog",
        "json",
    )
    port = pops.results.port
    assert {name: port.columns[name] for name in port.values} == {
        "pops": pl.Int64,
        "score": pl.Int64,
    }
    assert pops.operator.sources == {"moves"}
    assert pops.description == (
        'pops=count(), score=sum("score") in tumbling(1m), allowed lateness 10m'
    )


def test_the_plan_names_its_services_and_dead_letters_and_how_long_silence_matters():
    plan = game().plan()
    assert plan.services() == ("ingest", "windowing", "sessions")
    assert [operator.results.topic for operator in plan.of_service("sessions")] == [
        "game.play-sessions"
    ]
    assert plan.dead_letters == "game.dead-letters"
    assert plan.horizon_ms == 2_000 + 60_000 + 600_000


@pytest.mark.parametrize(
    ("window", "service", "text", "horizon_ms"),
    [
        (calendar("day", "UTC"), "windowing", "calendar(day, UTC)", 2 * 86_400_000),
        (sliding("1m"), "windowing", "sliding(1m)", 60_001),
        (
            calendar("week", "Asia/Tokyo", week_start="sunday"),
            "windowing",
            "calendar(week, Asia/Tokyo, from sunday)",
            8 * 86_400_000,
        ),
    ],
)
def test_every_kind_of_window_has_a_service_a_text_and_a_horizon(window, service, text, horizon_ms):
    pipeline = Pipeline("p")
    raw(pipeline).key_by("id").window(window).aggregate(n=count()).to("out")
    plan = pipeline.plan()
    (operator,) = plan.operators
    assert (operator.service, operator.description) == (service, f"n=count() in {text}")
    assert plan.horizon_ms == horizon_ms


def test_a_service_that_has_nothing_to_do_is_not_named():
    pipeline = Pipeline("p")
    raw(pipeline).key_by("id").window(session("1m")).aggregate(n=count()).to("out")
    assert pipeline.plan().services() == ("ingest", "sessions")


def test_a_key_of_other_names_or_types_is_another_log():
    pipeline = Pipeline("p", partitions=3)
    stream = raw(pipeline)
    publish(stream, ["id"], "a")
    publish(stream.with_columns(id=col("id").cast(pl.String)), ["id"], "b")
    publish(stream, ["id", "name"], "c")
    publish(stream.filter(col("n") > 0), ["id"], "d")
    logs = pipeline.plan().logs
    assert {log.topic: [stream.name for stream in log.streams] for log in logs} == {
        "p.by-id.log": ["raw", "raw#4"],
        "p.by-id.string.log": ["raw#2"],
        "p.by-id-name.log": ["raw#3"],
    }
    assert {log.partitions for log in logs} == {3}


def test_log_names_are_legal_and_distinct_whatever_the_key_is_called():
    pipeline = Pipeline("p")
    stream = raw(pipeline, **{"größe m": int, "größe:m": int, "größe/m": int})
    publish(stream, ["größe m"], "a")
    publish(stream, ["größe/m"], "b")
    publish(stream.select(pl.col("größe m").alias("grö?e:m")), ["grö?e:m"], "c")
    assert [log.topic for log in pipeline.plan().logs] == [
        "p.by-gr__e_m.log",
        "p.by-gr__e_m.int64.log",
        "p.by-gr__e_m.int64.2.log",
    ]


def test_an_output_added_at_the_end_renames_nothing():
    def build(more):
        pipeline = Pipeline("p")
        stream = raw(pipeline)
        publish(stream.filter(col("n") > 0), ["id"], "a")
        if more:
            publish(stream, ["id"], "b")
        return pipeline.plan()

    before, after = build(more=False), build(more=True)
    assert after.operators[0].description == before.operators[0].description
    assert after.logs[0].streams[0].name == before.logs[0].streams[0].name
    assert after.logs[0].topic == before.logs[0].topic


def test_a_log_holds_the_columns_its_stream_ends_with():
    pipeline = Pipeline("p")
    publish(raw(pipeline).select("id", key=col("_key")), ["key"], "out")
    (log,) = pipeline.plan().logs
    assert log.streams[0].columns == {"id": pl.Int64, "key": pl.String}


def test_windows_are_described_as_they_were_written():
    pipeline = Pipeline("p")
    keyed = raw(pipeline).key_by("id")
    keyed.window(hopping("1h", "5m", offset="1m"), trigger=on_final()).aggregate(n=count()).to("a")
    keyed.window(session("1500ms"), allowed_lateness="1s").aggregate(n=count()).to(
        "b", format="avro"
    )
    keyed.window(session("1500ms"), lateness="after_merging").aggregate(n=count()).to("c")
    assert [operator.description for operator in pipeline.plan().operators] == [
        "n=count() in hopping(1h, 5m, offset 1m), on final",
        "n=count() in session(1500ms), allowed lateness 1s, strict",
        "n=count() in session(1500ms)",
    ]


def test_a_pipeline_without_outputs_is_refused():
    pipeline = Pipeline("p")
    raw(pipeline)
    with pytest.raises(PipelineError, match="pipeline 'p' has no outputs"):
        pipeline.plan()


def test_a_source_that_feeds_no_output_is_refused():
    pipeline = Pipeline("p")
    publish(raw(pipeline), ["id"], "out")
    raw(pipeline, "unused")
    with pytest.raises(PipelineError, match="source\\('unused'\\) feeds no output"):
        pipeline.plan()


def test_a_log_with_the_name_of_another_topic_is_refused():
    pipeline = Pipeline("p")
    publish(raw(pipeline), ["id"], "by-id.log")
    with pytest.raises(PipelineError, match=r"topic 'p\.by-id\.log' is the log of a key"):
        pipeline.plan()


def test_the_fingerprint_changes_with_the_meaning_and_with_nothing_else():
    def build(bound):
        pipeline = Pipeline("p")
        long = col("name").is_in(["x" * 200]) & (col("n") > bound)
        publish(raw(pipeline).filter(long), ["id"], "out")
        return pipeline.plan().fingerprint

    assert build(1) == build(1)
    assert build(1) != build(2)


def test_every_process_makes_the_same_plan():
    here = load_pipeline("examples.game").plan().fingerprint
    program = (
        "from tidemark import load_pipeline as f; print(f('examples/game.py').plan().fingerprint)"
    )
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here


def test_a_topic_of_a_stage_that_is_too_long_is_refused():
    """Kafka would refuse it when a service makes it."""

    def chain(letters: int) -> Pipeline:
        pipeline = Pipeline("p" * letters, 1)
        rows = pipeline.source(
            "rows", schema={"k": str, "at": int}, event_time="at", watermark=bounded("1s")
        )
        counts = rows.key_by("k").window(tumbling("1m")).aggregate(n=count())
        counts.filter(col("n") > 1).to("many")
        return pipeline

    assert len("k.tumbling-1m.n.changelog") == 25
    (derived,) = chain(223).plan().derived
    assert derived.operator == "k.tumbling-1m.n"
    with pytest.raises(PipelineError, match=r"stage 'k\.tumbling-1m\.n'.* a shorter name"):
        chain(224).plan()
