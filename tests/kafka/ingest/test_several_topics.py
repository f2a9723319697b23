"""Sources of several topics on a real broker: docs/semantics.md, "Several topics"."""

import sys
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from tests.kafka.pipelines import regions
from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.topics import await_panes, created, deleted, send
from tidemark.commands.cli import main
from tidemark.core.time.segment import Segment
from tidemark.serde.segments import decode_segment
from tidemark.testing import OnBroker

SOON = {"TIDEMARK_TOPICS_INTERVAL_MS": "200"}


def segments(stack: Stack) -> list[Segment]:
    values = stack.committed(f"{stack.name}.by-topic.log")
    return [decode_segment(value or b"") for _, value in values]


def run(monkeypatch: pytest.MonkeyPatch, stack: Stack, command: str) -> int:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", stack.config.bootstrap_servers)
    monkeypatch.setattr("tidemark.commands.cli._plan", lambda _: stack.plan)
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def matching(
    broker: str, name: str, env: Mapping[str, str] = MappingProxyType({}), **options: str
) -> Stack:
    """Return a stack whose source is the pattern ``NAME.in.*``."""
    chosen = {"topics": rf"{name}\.in\..*", **options}
    return Stack(broker, name, 1, regions, chosen, **{**SOON, **env})


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_topics_join_while_ingest_runs_and_dies(broker, protocol):
    """Two processes; one is killed just after a topic has joined.  No record counts twice."""
    name = f"joining-{protocol}"
    eu, us = f"{name}.in.eu", f"{name}.in.us"
    group = {"TIDEMARK_GROUP_PROTOCOL": protocol}
    if protocol == "consumer":  # where the brokers decide these
        group |= {"KAFKA_SESSION_TIMEOUT_MS": "", "KAFKA_HEARTBEAT_INTERVAL_MS": ""}
    with matching(broker, name, group, idle_after="1h") as stack:
        created(stack, eu, 2)
        for slot in ("0", "1"):
            stack.start("ingest", slot=slot)
        stack.start("windowing")
        for number in range(2):
            send(stack, eu, range(20), number)
        await_panes(stack, {("eu", 0): 20})

        created(stack, us, 2)
        for number in range(2):
            send(stack, us, [5, *range(20, 40)], number)  # 5 s is late
        wait_until(
            lambda: "joins source" in stack.log("ingest", "0"), "the first process to find it"
        )
        stack.kill("ingest", slot="0")
        stack.start("ingest", slot="0")
        for number in range(2):
            send(stack, eu, range(20, 40), number)
            for topic in (eu, us):
                send(stack, topic, [60], number)
        starts = (0, 10, 20, 30)
        await_panes(
            stack,
            {("eu", start): 20 for start in starts} | {("us", start): 20 for start in (20, 30)},
        )
        assert len(stack.results("by-topic.late")) == 2
        assert segments(stack)[-1].partitions == {eu: 2, us: 2}
        assert set(stack.stop().values()) == {0}


def test_a_pattern_without_a_topic_waits_and_says_so(broker, monkeypatch, capsys):
    with matching(broker, "unmatched") as stack:
        stack.start()
        wait_until(
            lambda: r"source /unmatched\.in\..*/ matches no topic yet" in stack.log("ingest"),
            "the line of the log",
        )
        created(stack, "unmatched.in.eu")
        created(stack, "unmatched.in.us")  # without a record: idle
        send(stack, "unmatched.in.eu", [1, 2, 13])
        await_panes(stack, {("eu", 0): 2})
        assert set(stack.stop().values()) == {0}

        command = "tidemark reset unmatched --delete-results --yes"
        assert run(monkeypatch, stack, command) == 0
        assert "read raw topic unmatched.in.us from the first record on" in capsys.readouterr().out
        stack.start()
        await_panes(stack, {("eu", 0): 2})
        assert set(stack.stop().values()) == {0}


@pytest.mark.parametrize("interval_ms", ["200", "8000"])
def test_a_topic_that_is_deleted_holds_no_clock(broker, interval_ms):
    """Ingest sees it first; or the client, which then takes the partitions away as lost."""
    name = f"leaving-{interval_ms}"
    seldom = {"TIDEMARK_TOPICS_INTERVAL_MS": interval_ms}
    with matching(broker, name, seldom, idle_after="1h") as stack:
        for topic in (f"{name}.in.eu", f"{name}.in.us"):
            created(stack, topic)
            send(stack, topic, [1, 2, 13])
        stack.start()
        await_panes(stack, {("eu", 0): 2, ("us", 0): 2})
        deleted(stack, f"{name}.in.us")
        send(stack, f"{name}.in.eu", [25, 40])
        await_panes(stack, {(r, s): n for r, s, n in _LEFT})
        assert stack.process("ingest").poll() is None
        assert set(stack.stop().values()) == {0}

        deleted(stack, f"{name}.in.eu")  # while no process runs
        created(stack, f"{name}.in.asia")
        send(stack, f"{name}.in.asia", [41, 60])
        stack.start()
        await_panes(stack, {(r, s): n for r, s, n in [*_LEFT, ("eu", 40, 1), ("asia", 40, 1)]})
        assert set(stack.stop().values()) == {0}


_LEFT = [("eu", 0, 2), ("us", 0, 2), ("eu", 10, 1), ("us", 10, 1), ("eu", 20, 1)]


def test_a_topic_that_two_patterns_match_is_read_by_neither(broker):
    options = {"topics": r"disputed\.in\.a.*", "others": r"disputed\.in\..*b"}
    with Stack(broker, "disputed", 1, regions, options, **SOON) as stack:
        created(stack, "disputed.in.a")
        created(stack, "disputed.in.b")
        send(stack, "disputed.in.a", [1, 2, 13])
        send(stack, "disputed.in.b", [1, 2, 13])
        stack.start()
        await_panes(stack, {("a", 0): 2})
        created(stack, "disputed.in.ab")
        send(stack, "disputed.in.ab", [14, 15])
        wait_until(
            lambda: (
                r"topic disputed.in.ab belongs to sources /disputed\.in\.a.*/ and "
                r"/disputed\.in\..*b/" in stack.log("ingest")
            ),
            "the trouble",
        )
        send(stack, "disputed.in.a", [33])
        send(stack, "disputed.in.b", [33])
        await_panes(stack, {("a", 0): 2, ("a", 10): 1})
        assert set(stack.stop().values()) == {0}
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        stack.kill("ingest")


def test_a_topic_made_anew_is_reset_alone(broker, monkeypatch, capsys):
    """B4 for a topic of a pattern."""
    at_broker = f"--bootstrap-server {broker}"
    with matching(broker, "anew-in") as stack:
        for topic in ("anew-in.in.eu", "anew-in.in.us"):
            created(stack, topic)
            send(stack, topic, [1, 2, 13])
        stack.start()
        await_panes(stack, {("eu", 0): 2, ("us", 0): 2})
        assert set(stack.stop().values()) == {0}
        deleted(stack, "anew-in.in.us")
        created(stack, "anew-in.in.us")
        send(stack, "anew-in.in.us", [14, 25])
        stack.start()
        wait_until(lambda: "The other sources go on" in stack.log("ingest"), "the trouble")
        assert set(stack.stop().values()) == {0}
        assert run(monkeypatch, stack, "tidemark topics anew") == 0
        assert run(monkeypatch, stack, f"tidemark plan anew {at_broker}") == 0
        shown = capsys.readouterr().out
        assert "exists      1  anew-in.in.eu\n" in shown
        assert "source /anew-in\\.in\\..*/ reads anew-in.in.eu, anew-in.in.us\n" in shown
        command = "tidemark reset anew --source anew-in.in.us --yes"
        assert run(monkeypatch, stack, command) == 0
        stack.start()
        send(stack, "anew-in.in.eu", [25])
        await_panes(stack, {("eu", 0): 2, ("us", 0): 2, ("eu", 10): 1, ("us", 10): 2})
        assert set(stack.stop().values()) == {0}


def test_a_list_of_topics_is_one_source_and_the_commands_name_its_topics(
    broker, monkeypatch, capsys
):
    names = ["listed-eu", "listed-us"]
    with Stack(broker, "listed", 2, regions, {"names": names}) as stack:
        for topic in names:
            for number in range(2):
                send(stack, topic, [1, 2, 13], number)
        stack.start()
        await_panes(stack, {("listed-eu", 0): 4, ("listed-us", 0): 4})
        await_panes(stack, {("a", 0): 8}, "by-key", "k")
        assert set(stack.stop().values()) == {0}
    assert run(monkeypatch, stack, "tidemark topics listed") == 0
    assert {line.split()[-1] for line in capsys.readouterr().out.splitlines()} >= set(names)


_PIPELINE = """
from tidemark import Pipeline, bounded, col, count, tumbling

pipeline = Pipeline("tested", partitions=2)
orders = pipeline.source(
    topics=r"tested-in-.*",
    schema={"at": int, "k": str},
    event_time="at",
    watermark=bounded("2s"),
    idle_after="1h",
)
counts = orders.with_columns(topic=col("_topic")).key_by("topic").window(tumbling("10s"))
counts.aggregate(n=count()).to("out")
"""


def test_a_scenario_on_a_broker_makes_the_topics_of_a_pattern(broker, tmp_path):
    module = tmp_path / "tested.py"
    module.write_text(_PIPELINE)
    with OnBroker(str(module), broker) as run:
        run.send("tested-in-a", {"at": 1_000, "k": "x"}, {"at": 14_000, "k": "x"})
        first = {"topic": "tested-in-a", "start": 0, "n": 1}
        run.expect_panes("out", first)
        run.send("tested-in-b", {"at": 11_000, "k": "x"})
        run.advance("tested-in-b", 30_000)
        run.advance("tested-in-a", 30_000)
        second = {**first, "start": 10_000}
        run.expect_panes("out", first, second, {**second, "topic": "tested-in-b"})
