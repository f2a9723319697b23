"""`tidemark why` beside services on a broker."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.forked import as_text, tidemark
from tests.kafka.pipelines import pops
from tests.kafka.support.stack import Replica, Stack, move, wait_until
from tidemark.core.time.event_time import instant_text
from tidemark.embedded.broker import free_port
from tidemark.errors import ConfigurationError
from tidemark.monitor.search import RecordSearch
from tidemark.runtime.wall_clock import now_ms
from tidemark.why.key_replay import replayed
from tidemark.why.keys import partition_of, typed_key
from tidemark.why.missing import Missing
from tidemark.why.raw_trace import RawTrace
from tidemark.why.reading import Bound, Reading, chosen_operator

T = 1_772_438_400_000


def why_open(stack: Stack, *options: str) -> "subprocess.CompletedProcess[str]":
    return why(stack, "open", *options)


def why(stack: Stack, question: str, *options: str) -> "subprocess.CompletedProcess[str]":
    env = stack.environment(Replica("why"), {})
    done = tidemark("why", question, pops.__name__, *options, env=env)
    return as_text(done)


def test_the_source_that_holds_a_window_open_is_named_with_what_moves_it_on(broker):
    with Stack(broker, "asked-why", raw_partitions=2) as stack:
        nobody = why_open(stack)
        assert nobody.returncode == 2
        assert "asked-why.stats" in nobody.stderr
        stack.start("ingest", "windowing")
        moves = [(0, None, move("a", T + 1_000 * second)) for second in range(30)]
        stack.produce([(1, None, move("a", T)), *moves])
        holder = f"{stack.raw}/1"

        def is_named() -> bool:
            told = why_open(stack, "--operator", "pops", "--end", "2026-03-02T08:00:10Z")
            return told.stdout.count(f"{holder} holds it for ") == 2  # each partition of the log

        wait_until(is_named, "the source that holds the windows")
        told = why_open(stack, "--operator", "pops")
        head, *lines = told.stdout.splitlines()
        assert " ".join(head.split()) == "operator partition clock open windows it waits for"
        (advice,) = [n for n, line in enumerate(lines) if line.startswith("a later record of ")]
        assert advice
        assert all(line.startswith("pops ") for line in lines[:advice])  # alerts may follow
        assert lines[advice].startswith(
            f"a later record of {holder} moves it on, or no record of it for "
        )
        early = why_open(stack, "--operator", "pops", "--end", "2026-03-02T07:00:00Z")
        assert early.stdout == "no clock is before 2026-03-02T07:00:00.000+00:00\n"
        shown = [json.loads(line) for line in why_open(stack, "--json").stdout.splitlines()]
        assert {each["held_by"] for each in shown if each.get("operator") == "pops"} == {holder}

        assert set(stack.stop().values()) == {0}
        gone = why_open(stack)
        assert gone.returncode == 2
        assert "asked-why.stats: no process runs, or none writes stats" in gone.stderr


def test_a_record_is_followed_from_the_raw_topic_to_the_sink_and_a_pane_to_its_records(
    broker, tmp_path: Path
):
    with Stack(broker, "followed") as stack:
        stack.start("ingest", "windowing")
        stack.await_partitions()
        miss = move("a", T + 3_500, kind="miss")
        bad = json.dumps({"player": "a", "at": T + 4_000, "score": "x"}).encode()
        first = [move("a", T + 1_000), move("b", T + 1_500), move("a", T + 3_000), miss, bad]
        stack.produce((0, None, value) for value in first)
        stack.produce([(0, None, move("b", T + 30_000)), (0, None, move("a", T + 2_000))])
        stack.await_results("pops", lambda panes: len(panes) == 2)
        stack.await_results("pops.late", lambda rows: len(rows) == 1)
        reading = Reading(stack.config, stack.admin, stack.plan)
        plan = chosen_operator(stack.plan, "pops")
        (log,) = stack.plan.logs
        key = typed_key("a", log.key)
        number = partition_of(key, log)
        missing = Missing(reading, plan, replayed(plan, key, reading.segments(plan, number)))

        def texts(at_ms: int) -> list[str]:
            return [each["text"] for each in missing.rows((at_ms, at_ms + 1))]

        assert "has counted it" in texts(T + 1_000)[0]
        assert texts(T + 1_000)[1].startswith("the window 2026-03-02T08:00:00.000+00:00 to ")
        assert texts(T + 1_000)[2].endswith("no sink 'sink' reads the topic")
        (late,) = texts(T + 2_000)
        assert f"{stack.raw}/0 offset 6" in late
        assert "refuses it as late by 13s: the watermark of its source was " in late
        assert texts(T + 3_500) == []
        trace = RawTrace(stack.plan, plan.operator.streams, key, '"a"', (T + 3_500, T + 3_501))
        filtered, dead = missing.raw(trace, None)
        assert filtered["fact"] == "filtered"
        assert (filtered["offset"], "miss" in filtered["by"]) == (3, True)
        assert (dead["fact"], dead["offset"]) == ("dead letter", 4)
        told = json.loads(why(stack, "late", "--operator", "pops", "--json").stdout)
        assert (told["rows"], told["saves_ms"]["1.0"]) == (1, 13_001)
        assert told["sources"] == {f"{stack.raw}/0": 1}

        sink = Consumer(
            {"bootstrap.servers": stack.config.bootstrap_servers, "group.id": "followed.sink"}
        )
        sink.commit(offsets=[TopicPartition("followed.pops", number, 100)], asynchronous=False)
        sink.close()
        at = instant_text(T + 1_000)
        said = why(stack, "missing", "--operator", "pops", "--key", "a", "--at", at)
        assert said.stdout.splitlines()[-1].endswith("has delivered it (committed 100)"), said

        search = RecordSearch(stack.config, stack.admin, stack.plan)
        found = search.find({"operator": "pops", "key": "a", "at": at})
        assert [each["text"] for each in found["facts"]] == said.stdout.splitlines()
        assert found["unread"] == []
        gone = search.find({"operator": "pops", "key": "a", "at": instant_text(T + 9_000)})
        assert [each["fact"] for each in gone["facts"]] == ["dead letter"]
        for asked, why_not in (({"at": at}, "a key"), ({"key": "a", "at": "noon"}, "'noon'")):
            with pytest.raises(ConfigurationError, match=why_not):
                search.find(asked)

        begin, *_, last = [offset for offset, _ in reading.segments(plan, number)]
        short = Reading(stack.config, stack.admin, stack.plan, Bound(1, 2**20, T))
        assert [offset for offset, _ in short.segments(plan, number)] == [begin]
        assert short.unread[0].startswith(
            f"{plan.log}/{number}: only offsets {begin} to {begin + 1} "
        )
        later = Bound(last - begin, 2**20, 2 * now_ms())
        newest = Reading(stack.config, stack.admin, stack.plan, later)
        assert last in [offset for offset, _ in newest.segments(plan, number)]
        small = Reading(stack.config, stack.admin, stack.plan, Bound(1_000, 0, T))
        assert [offset for offset, _ in small.segments(plan, number)] == [begin]
        assert "nothing is read from offset " in small.unread[0]

        test = tmp_path / "test_pane.py"
        beneath = ("--operator", "pops", "--key", "a", "--window", instant_text(T))
        result = why(stack, "result", *beneath, "--as-test", str(test))
        assert result.returncode == 0, result.stderr
        lines = [line.split() for line in result.stdout.splitlines()[2:-1]]
        assert [line[1:4] for line in lines] == [
            [f"{stack.raw}/0", "offset", "0"],
            [f"{stack.raw}/0", "offset", "2"],
        ]
        env = stack.environment(Replica("why"), {})
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
        ran = subprocess.run(command, capture_output=True, check=False, env=env, text=True)
        assert ran.returncode == 0, ran.stdout


def alerts_at(port: int) -> list[dict[str, Any]]:
    """The alerts of a monitor's page."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/status", timeout=5) as answer:
            found: list[dict[str, Any]] = json.load(answer)["alerts"]
    except OSError:
        return []
    return found


def test_times_in_a_wrong_unit_and_a_sink_that_is_away_are_named_with_what_to_do(broker):
    port, now_s = free_port(), int(time.time())
    with Stack(broker, "sick") as stack:
        stack.start("monitor", TIDEMARK_HTTP_PORT=str(port))
        stack.start("sink", TIDEMARK_SINK="postgresql://nobody:secret@127.0.0.1:1/none")
        stack.start("ingest", "windowing")
        stack.produce((0, None, move("a", now_s + second)) for second in range(3))
        raised = {("wrong unit", "ingest/0"), ("not ready", "sink/0")}
        wait_until(
            lambda: raised <= {(each["kind"], each["process"]) for each in alerts_at(port)},
            "alerts",
        )

        alerts = {each["kind"]: each for each in alerts_at(port)}
        unit, away = alerts["wrong unit"], alerts["not ready"]
        assert unit["text"].startswith(f"event times of {stack.raw}/0 are about 1970-01-21")
        assert "as seconds are to ms" in unit["text"]
        assert unit["todo"].startswith("correct unit= of the source's event_time")
        assert unit["node"] == "ingest"
        assert "127.0.0.1" in away["text"]
        assert "secret" not in away["text"]
        assert away["todo"].startswith(
            "read the reason first; if the system that it writes to is away"
        )

        said = why_open(stack).stdout
        assert f"ingest/0: wrong unit: {unit['text'][:40]}" in said
        assert f"sink/0: not ready: {away['text']}" in said
        assert f"  {away['todo']}" in said.splitlines()
        lines = [json.loads(line) for line in why_open(stack, "--json").stdout.splitlines()]
        named = {(each["kind"], each["process"], each["todo"]) for each in lines if "kind" in each}
        assert named == {(each["kind"], each["process"], each["todo"]) for each in (unit, away)}
