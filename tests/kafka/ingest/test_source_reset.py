"""One raw topic in trouble on a real broker: the others go on, and it starts afresh alone."""

import sys
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.kafka.pipelines import evolving
from tests.kafka.support.stack import Stack, move, wait_until
from tidemark.commands.cli import main
from tidemark.core.time.segment import NEVER_MS, Segment, SourceMark
from tidemark.runtime.client.topics import partition_counts
from tidemark.serde.segments import decode_segment, encode_segment

T = 1_700_000_000_000


def run(monkeypatch: pytest.MonkeyPatch, stack: Stack, command: str) -> int:
    """Run a command as a line of text gives it, without a question; return its status."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", stack.config.bootstrap_servers)
    monkeypatch.setattr("tidemark.commands.cli._plan", lambda _: stack.plan)
    monkeypatch.setattr(sys, "argv", [*command.split(), "--yes"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def others(stack: Stack, at_s: int, partition: int = 0) -> None:
    stack.produce([(partition, None, move("a", T + at_s * 1_000))], f"{stack.name}-others")


def panes(stack: Stack, output: str) -> dict[int, int]:
    """Return the last pane of each window, by its start in seconds."""
    return {(pane["start"] - T) // 1_000: pane["pops"] for pane in stack.results(output)}


def await_panes(stack: Stack, output: str, wanted: dict[int, int]) -> None:
    wait_until(lambda: panes(stack, output) == wanted, f"{output} of {stack.name}")


def made_anew(stack: Stack, topic: str, partitions: int) -> None:
    """Delete a topic, and create it again."""
    stack.admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in partition_counts(stack.admin), "the deletion")
    stack.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    wait_until(lambda: partition_counts(stack.admin).get(topic) == partitions, "the topic")


def read_half_a_minute(stack: Stack) -> None:
    """Let the services read a record each second, publish two windows, and stop."""
    for at_s in range(30):
        stack.move("a", T + at_s * 1_000)
    stack.start()
    await_panes(stack, "by-player", {0: 10, 10: 10})
    assert set(stack.stop().values()) == {0}


def marks(stack: Stack) -> list[SourceMark]:
    found = stack.committed(f"{stack.name}.by-player.log")
    return [mark for _, value in found for mark in decode_segment(value or b"").sources]


def trouble(stack: Stack) -> str:
    """Return what ingest logs of its source in trouble."""
    wait_until(lambda: "The other sources go on" in stack.log("ingest"), "the trouble")
    return next(each for each in stack.log("ingest").splitlines() if "The other sources" in each)


def advice(line: str) -> str:
    return "tidemark reset" + line.partition("'tidemark reset")[2].partition("'")[0]


@pytest.mark.parametrize("partitions", [2, 1])
def test_a_topic_made_anew_starts_afresh_and_the_others_go_on(broker, monkeypatch, partitions):
    """B4: rows of the new topic count, although its offsets begin again; none counts twice."""
    name = f"anew-{partitions}"
    raw: Any = {f"{name}-moves": 1, f"{name}-others": 2}
    with Stack(broker, name, raw, evolving, {"topics": 2}) as stack:
        for at_s in (1, 2, 3, 15):
            stack.move("a", T + at_s * 1_000)
            for partition in range(2):
                others(stack, at_s, partition)
        stack.start()
        for output, count in (("by-player", 3), ("others-by-player", 6)):
            await_panes(stack, output, {0: count})
        assert set(stack.stop().values()) == {0}

        made_anew(stack, f"{name}-others", partitions)
        others(stack, 16)
        others(stack, 17)
        stack.start()
        line = trouble(stack)
        stack.move("a", T + 40_000)
        wait_until(lambda: panes(stack, "by-player") == {0: 3, 10: 1}, "the other source")
        assert set(stack.stop("ingest").values()) == {0}

        command = advice(line)
        where = f"--source {name}-others --bootstrap-server {broker}"
        assert command == f"tidemark reset {evolving.__name__} {where}"
        assert run(monkeypatch, stack, command) == 0
        stack.start("ingest")
        for partition in range(partitions):
            others(stack, 60, partition)
        wait_until(lambda: panes(stack, "others-by-player").get(10) == 4, "the new rows")
        stack.move("a", T + 60_000)
        wait_until(lambda: panes(stack, "by-player").get(40) == 1, "the other source")
        assert set(stack.stop().values()) == {0}
        assert panes(stack, "others-by-player") == {0: 6, 10: 4}
        found = {m.first_offset for m in marks(stack) if m.source == f"{name}-others/0"}
        assert found >= {0, 4}
        assert run(monkeypatch, stack, command) == 2  # nothing is wrong any more


def test_records_that_are_gone_unread_are_skipped_for_that_source_alone(broker, monkeypatch):
    with Stack(broker, "unread", 1, evolving, {"topics": 2}) as stack:
        stack.move("a", T)
        others(stack, 1)
        stack.start()
        wait_until(lambda: {m.source for m in marks(stack)} >= {"unread-others/0"}, "the rows")
        stack.stop("ingest")
        for at_s in (2, 3, 4, 5):
            others(stack, at_s)
        begin = TopicPartition("unread-others", 0, 3)
        next(iter(stack.admin.delete_records([begin]).values())).result()
        stack.start("ingest")
        assert "records are gone" in (line := trouble(stack))
        stack.stop("ingest")
        assert run(monkeypatch, stack, advice(line)) == 0
        stack.start("ingest")
        others(stack, 60)
        wait_until(lambda: panes(stack, "others-by-player") == {0: 3}, "the rows that are there")
        assert set(stack.stop().values()) == {0}


def test_the_end_of_a_topic_made_anew_can_be_its_begin(broker, monkeypatch):
    with Stack(broker, "late", 1, evolving, {"topics": 2}) as stack:
        stack.move("a", T)
        others(stack, 1)
        stack.start()
        wait_until(lambda: {m.source for m in marks(stack)} >= {"late-others/0"}, "the rows")
        stack.stop("ingest")
        made_anew(stack, "late-others", 1)
        others(stack, 2)
        assert run(monkeypatch, stack, "tidemark reset P --source late-others --to latest") == 0
        stack.start("ingest")
        others(stack, 3)
        others(stack, 60)
        wait_until(lambda: panes(stack, "others-by-player") == {0: 2}, "the rows after the reset")
        assert set(stack.stop().values()) == {0}


def test_a_log_that_lacks_rows_gets_them_after_its_source_was_reset(broker, monkeypatch):
    with Stack(broker, "lacking", 1, evolving) as stack:
        read_half_a_minute(stack)
        with Stack(broker, "lacking", 0, evolving, {"keys": ("player", "team")}) as changed:
            command = "tidemark reset P --source lacking-moves --to latest"
            assert run(monkeypatch, changed, command) == 0
            changed.start()
            changed.move("a", T + 60_000)
            await_panes(changed, "by-team", {0: 10, 10: 10, 20: 10})
            assert set(changed.stop().values()) == {0}


def test_a_log_that_lacks_rows_of_a_topic_that_is_gone_is_not_called_complete(
    broker, monkeypatch, capsys
):
    with Stack(broker, "cut-short", 1, evolving) as stack:
        read_half_a_minute(stack)
        with Stack(broker, "cut-short", 0, evolving, {"keys": ("player", "team")}) as changed:
            begun = SourceMark("cut-short-moves/0", 0, 10, NEVER_MS, T + 7_000)
            segment = Segment(0, 0, (begun,), {"cut-short-moves": 1}, T, {})
            changed.produce([(0, b"", encode_segment(segment))], "cut-short.by-team.log")
            made_anew(changed, "cut-short-moves", 1)
            assert run(monkeypatch, changed, "tidemark reset P --source cut-short-moves") == 2
    assert "log cut-short.by-team.log is new and still lacks rows of cut-short-moves/0" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("arguments", ["--source nothing", "--source a --service windowing"])
def test_a_reset_without_sense_is_refused(broker, monkeypatch, arguments):
    with Stack(broker, f"senseless-{len(arguments)}", 1, evolving) as stack:
        assert run(monkeypatch, stack, f"tidemark reset P {arguments}") == 2
