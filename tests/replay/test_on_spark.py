"""Services on Spark, in micro-batches: killed, given back, and no result differs."""

import time
from collections.abc import Iterable

from live import caught_up
from stack import Replica, Stack, last_panes, move, wait_until

from tidemark.replayview import diff_lines
from tidemark.runtime import topics
from tidemark.spark.run import diff
from tidemark.spark.stream import Stream, release

SPARK = {"TIDEMARK_SPARK_MASTER": "local[2]", "TIDEMARK_SPARK_MEMORY": "512m"}


def play(stack: Stack, begin: int, rounds: int) -> None:
    """Let two partitions speak, with records too late among theirs, in commits of their own."""
    for n in range(begin, begin + rounds):
        at = n * 4_000
        late = max(0, at - 40_000)
        stack.produce(
            (p, None, move(f"p{k}", t)) for p in (0, 1) for k in (p, p + 2) for t in (at, late)
        )
        time.sleep(0.15)


def published(stack: Stack) -> int:
    return len(stack.results("pops")) + len(stack.results("sessions"))


def test_a_pipeline_moves_between_services_and_spark_and_is_killed_there(broker, sessions, spark):
    with Stack(broker, "streamed", 2) as stack:
        keyed = stack.plan.services()[1:]
        stack.start()
        play(stack, 0, 10)
        wait_until(lambda: published(stack) > 0, "results of services")
        stack.stop(*keyed)

        stack.start("spark", **SPARK)
        play(stack, 10, 10)
        seen = published(stack)
        wait_until(lambda: published(stack) > seen, "results of Spark", 180)
        play(stack, 20, 5)
        stack.kill("spark")
        play(stack, 25, 5)

        stack.start("windowing")
        refused = "Spark works on it; end 'tidemark run --on spark PIPELINE'"
        wait_until(lambda: refused in stack.log("windowing"), "the refusal of windowing")
        assert stack.process("windowing").wait(60) == 2
        stack.kill("windowing")

        stack.start("spark", **SPARK)
        seen = published(stack)
        wait_until(lambda: published(stack) > seen, "results of the second driver", 180)
        end_spark(stack)

        stack.start(*keyed)
        play(stack, 30, 5)
        caught_up(stack)
        assert set(stack.stop().values()) == {0}

        compared = diff(stack.config, stack.plan, sessions, 1)

    assert compared.equal, "\n".join(diff_lines(compared))
    assert sum(topic.left for topic in compared.topics if topic.topic.endswith(".late")) > 10


def both(stacks: Iterable[Stack], begin: int, rounds: int) -> None:
    """Let several pipelines have the same records, with one among them that is no record."""
    for n in range(begin, begin + rounds):
        at = n * 4_000
        late = max(0, at - 40_000)
        records = [
            (p, None, move(f"p{k}", t)) for p in (0, 1) for k in (p, p + 2) for t in (at, late)
        ]
        for stack in stacks:
            stack.produce([*records, (n % 2, None, b"{no record")])
        time.sleep(0.15)


def end_spark(stack: Stack) -> None:
    """Tell the driver to stop, and wait until it has given all back."""
    process = stack.process("spark")
    process.terminate()
    assert process.wait(120) == 0, stack.log("spark")
    stack.processes.pop(Replica("spark"))


def late_rows(stack: Stack) -> list[tuple[int, int, str]]:
    """Return which rows of which offsets were late, of all operators."""
    names = ("pops.late", "sessions.late")
    rows = [(name, row) for name in names for row in stack.results(name)]
    return sorted((row["partition"], row["offset"], name) for name, row in rows)


def test_ingest_moves_to_spark_and_back_and_is_killed_there(broker, sessions):
    with Stack(broker, "whole", 2) as stack, Stack(broker, "twin", 2) as twin:
        stacks = stack, twin
        stack.start()
        twin.start()
        both(stacks, 0, 8)
        wait_until(lambda: published(stack) > 0, "results of services")
        stack.stop()

        both(stacks, 8, 8)
        stack.start("spark", **SPARK, TIDEMARK_SPARK_FROM="raw")
        seen = published(stack)
        wait_until(lambda: published(stack) > seen, "results of Spark", 180)
        both(stacks, 16, 4)
        stack.kill("spark")
        both(stacks, 20, 4)

        stack.start("ingest")
        refused = "Spark works on it; end 'tidemark run --on spark PIPELINE'"
        wait_until(lambda: refused in stack.log("ingest"), "the refusal of ingest")
        assert stack.process("ingest").wait(60) == 2
        stack.kill("ingest")

        stack.start("spark", **SPARK, TIDEMARK_SPARK_FROM="raw")
        seen = published(stack)
        wait_until(lambda: published(stack) > seen, "results of the second driver", 180)
        end_spark(stack)

        stack.start()
        both(stacks, 24, 4)
        for each in stacks:
            caught_up(each)
            assert set(each.stop().values()) == {0}

        from_log = diff(stack.config, stack.plan, sessions, 1)
        from_raw = diff(stack.config, stack.plan, sessions, 1, from_raw=True)
        for compared in (from_log, from_raw):
            assert compared.equal, "\n".join(diff_lines(compared))
        dead = [(row["partition"], row["offset"]) for row in stack.results("dead-letters")]
        assert len(dead) == len(set(dead)) == 28
        assert late_rows(stack) == late_rows(twin)
        assert len(late_rows(stack)) > 10
        panes = [last_panes(each.results("pops"), "score") for each in stacks]
        assert panes[0] == panes[1]
        assert len(panes[0]) > 20


def test_a_source_that_is_silent_on_spark_lets_windows_close(broker, sessions, spark, monkeypatch):
    monkeypatch.setenv("TEST_IDLE_AFTER", "1s")
    with Stack(broker, "silent", 2) as stack:
        stream = Stream(stack.config, stack.admin, stack.plan, with_ingest=True)
        stream.claim()
        stack.produce((0, None, move("ada", at)) for at in range(0, 60_000, 2_000))

        def closed() -> bool:
            stream.batch(spark)
            return len(stack.results("pops")) == 6

        wait_until(closed, "the last window")
        release(stack.config, stack.plan)
        compared = diff(stack.config, stack.plan, sessions, 1, from_raw=True)

    assert compared.equal, "\n".join(diff_lines(compared))


def test_a_killed_drivers_claim_is_released(broker):
    with Stack(broker, "released", 1) as stack:
        stream = Stream(stack.config, stack.admin, stack.plan)
        stream.claim()
        stream.release()
        stack.start()
        stack.move("ada", 0)
        stack.move("ada", 60_000)
        stack.await_results("pops", lambda panes: len(panes) == 1)
        stack.stop()
        assert topics.partition_counts(stack.admin)[stack.raw] == 1
