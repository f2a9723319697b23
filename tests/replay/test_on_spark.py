"""Keyed services on Spark, in micro-batches: killed, given back, and no result differs."""

import time

from live import caught_up
from stack import Replica, Stack, move, wait_until

from tidemark.replayview import diff_lines
from tidemark.runtime import topics
from tidemark.spark.run import diff
from tidemark.spark.stream import Stream

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
        spark_process = stack.process("spark")
        spark_process.terminate()
        assert spark_process.wait(120) == 0, stack.log("spark")
        stack.processes.pop(Replica("spark"))

        stack.start(*keyed)
        play(stack, 30, 5)
        caught_up(stack)
        assert set(stack.stop().values()) == {0}

        compared = diff(stack.config, stack.plan, sessions, 1)

    assert compared.equal, "\n".join(diff_lines(compared))
    assert sum(topic.left for topic in compared.topics if topic.topic.endswith(".late")) > 10


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
