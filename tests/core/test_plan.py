"""What a pipeline compiles to: streams, logs, topics, services, and how it is shown and found."""

import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

from tidemark import (
    RECORD_TIME,
    Pipeline,
    PipelineError,
    bounded,
    calendar,
    col,
    count,
    hopping,
    load_pipeline,
    max,  # noqa: A004
    monotonic,
    on_final,
    session,
    sliding,
    sum,  # noqa: A004
    tumbling,
)
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.plan.explain import render_mermaid, render_text

ROOT = Path(__file__).parents[2]


def game():
    pipeline = Pipeline("game")
    pops = (
        pipeline.source(
            "moves",
            schema={"player": str, "at": int, "score": int, "kind": str},
            event_time="at",
            watermark=bounded("2s"),
            idle_after="10s",
            max_future="1h",
        )
        .filter(col("kind") == "pop")
        .key_by("player")
    )
    pops.window(tumbling("1m"), allowed_lateness="10m").aggregate(
        pops=count(), score=sum("score")
    ).to("pops-per-minute")
    pops.window(session("30s")).aggregate(moves=count(), best=max("score")).to("play-sessions")
    return pipeline


def raw(pipeline, topic="raw", **schema):
    return pipeline.source(
        topic,
        schema=schema or {"id": int, "name": str, "n": int},
        event_time=RECORD_TIME,
        watermark=monotonic(),
    )


def publish(stream, key, name):
    stream.key_by(*key).window(tumbling("1m")).aggregate(rows=count()).to(name)


def test_streams_that_share_a_key_share_a_log_and_one_stream_is_stored_once():
    plan = game().plan()
    (log,) = plan.logs
    assert (log.topic, log.partitions, log.key) == ("game.by-player.log", 4, {"player": pl.String})
    (stream,) = log.streams
    assert (stream.name, stream.key, stream.topics) == ("moves", ("player",), {"moves"})
    assert list(stream.columns) == ["player", "at", "score", "kind"]
    assert [operator.operator.streams for operator in plan.operators] == [("moves",), ("moves",)]


def test_an_operator_knows_its_service_its_topics_and_its_values():
    pops, sessions = game().plan().operators
    assert (pops.service, sessions.service) == ("windowing", "sessions")
    assert isinstance(pops.operator.body, WindowAggregate)
    assert isinstance(sessions.operator.body, SessionAggregate)
    assert (pops.log, pops.results, pops.late, pops.changelog, pops.format) == (
        "game.by-player.log",
        "game.pops-per-minute",
        "game.pops-per-minute.late",
        "game.pops-per-minute.changelog",
        "json",
    )
    assert pops.values == {"pops": pl.Int64, "score": pl.Int64}
    assert pops.operator.topics == {"moves"}
    assert pops.description == (
        'pops=count(), score=sum("score") in tumbling(1m), allowed lateness 10m'
    )


def test_the_plan_names_its_services_and_dead_letters_and_how_long_silence_matters():
    plan = game().plan()
    assert plan.services() == ("ingest", "windowing", "sessions")
    assert [operator.results for operator in plan.of_service("sessions")] == ["game.play-sessions"]
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
    stream = raw(pipeline, **{"größe m": int, "größe.m": int, "größe/m": int})
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
    keyed.window(session(1500), lateness="strict", allowed_lateness="1s").aggregate(n=count()).to(
        "b", format="avro"
    )
    assert [operator.description for operator in pipeline.plan().operators] == [
        "n=count() in hopping(1h, 5m, offset 1m), on final",
        "n=count() in session(1500ms), allowed lateness 1s, strict",
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


# How it is shown


def test_the_text_shows_the_logical_graph_and_the_physical_plan():
    assert (
        render_text(game().plan()).splitlines()[2:22]
        == textwrap.dedent(
            """\
        logical graph
            1  source moves (player String, at Int64, score Int64, kind String), event time at (ms), watermark bounded(2s), idle after 10s, max future 1h
            2  filter([(col("kind")) == ("pop")])  <- 1
            3  key_by(player)  <- 2
            4  pops=count(), score=sum("score") in tumbling(1m), allowed lateness 10m  <- 3
            5  to pops-per-minute (json)  <- 4
            6  moves=count(), best=max("score") in session(30s)  <- 3
            7  to play-sessions (json)  <- 6

        physical plan
          service    reads               writes                                 tasks
          ingest     moves               game.by-player.log, game.dead-letters  1 per raw partition
          windowing  game.by-player.log  game.pops-per-minute                   4, 1 per log partition
          sessions   game.by-player.log  game.play-sessions                     4, 1 per log partition

          topic                           partitions  what
          moves                           as it is    raw
          game.by-player.log              4           log
          game.pops-per-minute            4           results, json
          game.pops-per-minute.late       4           late rows
        """  # noqa: E501
        ).splitlines()
    )


def test_a_step_behind_a_union_of_sources_is_shown_once():
    pipeline = Pipeline("p")
    left, right = raw(pipeline, "left"), raw(pipeline, "right")
    both = left.union(right.filter(col("n") > 0)).filter(col("n") < 9)
    publish(both, ["id"], "out")
    shown = render_text(pipeline.plan()).splitlines()[3:10]
    assert [line.split(" (id Int64")[0] for line in shown] == [
        "    1  source left",
        "    2  source right",
        '    3  filter([(col("n")) > (dyn int: 0)])  <- 2',
        "    4  union  <- 1, 3",
        '    5  filter([(col("n")) < (dyn int: 9)])  <- 4',
        "    6  key_by(id)  <- 5",
        "    7  rows=count() in tumbling(1m)  <- 6",
    ]


def test_a_diagram_escapes_what_its_syntax_would_read():
    diagram = render_mermaid(game().plan())
    assert diagram.startswith("flowchart LR\n")
    assert "filter([(col(#quot;kind#quot;)) == (#quot;pop#quot;)])" in diagram
    assert '    p0[("moves")] --> ingest' in diagram
    assert '    windowing --> p3[("game.pops-per-minute")]' in diagram


# How it is found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("from tidemark import Pipeline\n" + text)


def test_a_pipeline_is_found_by_module_by_file_and_by_attribute(folder):
    write(folder / "jobs" / "one.py", "job = same = Pipeline('one')")
    write(folder / "two.py", "a = Pipeline('a')\nb = Pipeline('b')")
    assert load_pipeline("jobs.one").name == "one"
    assert load_pipeline("jobs/one.py") is load_pipeline("jobs.one:same")
    assert load_pipeline("two:b").name == "b"
    assert load_pipeline("two.py:a").name == "a"


def test_a_file_outside_the_working_directory_is_found_too(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "outside.py"
    write(elsewhere, "job = Pipeline('outside')")
    assert load_pipeline(str(elsewhere)).name == "outside"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "pipeline 'nowhere': no module 'nowhere' in"),
        ("jobs.nowhere", "no module 'jobs.nowhere' in"),
        ("nowhere.py", "pipeline 'nowhere.py': no such file in"),
        ("not-a-name.py", "'not-a-name' is not the name of a module"),
        ("none", "module 'none' defines 0 pipelines: none"),
        ("two", "module 'two' defines 2 pipelines: a, b; choose one as two:NAME"),
        ("two:c", "module 'two' has no 'c'; its pipelines: a, b"),
        ("two:Pipeline", "two:Pipeline is a type, not a Pipeline"),
    ],
)
def test_what_is_not_found_is_named(folder, path, message):
    write(folder / "none.py", "")
    write(folder / "not-a-name.py", "")
    write(folder / "two.py", "a = Pipeline('a')\nb = Pipeline('b')")
    with pytest.raises(PipelineError, match=message.replace("(", "\\(")):
        load_pipeline(path)


def test_a_module_that_lacks_a_dependency_says_so_itself(folder):
    write(folder / "broken.py", "import surely_not_installed")
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        load_pipeline("broken")
