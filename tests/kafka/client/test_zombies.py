"""A process that stood still has lost its partitions: what it does when it goes on counts nothing.

Here it stands still within a commit of nothing but the passing of time: its output is written, and
its offsets, which the group will refuse, are next.
"""

import signal

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.forked import stands_still
from tests.kafka.pipelines import stalling
from tests.kafka.support.stack import Replica, Stack, wait_until
from tidemark.core.time.segment import SourceMark
from tidemark.serde.segments import decode_segment

T = 1_700_000_000_000
IDLE_MS = 2_000


@pytest.mark.long
@pytest.mark.parametrize("service", ["ingest", "windowing", "sessions"])
def test_a_zombie_whose_output_is_only_of_silence_is_fenced(broker, service):
    with Stack(broker, f"zombie-{service}", module=stalling, TEST_IDLE_AFTER="2s") as stack:
        stack.start(*(name for name in stack.plan.services() if name != service))
        stack.start(service, TEST_STALL="yes")
        stack.await_partitions()
        stack.produce(
            [(0, None, b'{"player":"a","at":%d,"score":1}' % (T + at)) for at in range(5)]
        )
        zombie = stack.process(service)
        wait_until(lambda: stands_still(zombie.pid), "the commit")
        stack.start(service, slot="1")
        wait_until(lambda: "was given" in stack.log(service, "1"), "its partitions")
        zombie.send_signal(signal.SIGCONT)
        assert zombie.wait() == 1
        assert refused(stack.log(service)), stack.log(service)
        del stack.processes[Replica(service, "0")]

        stack.await_results("pops", lambda panes: len(panes) == 1)
        stack.await_results("sessions", lambda panes: len(panes) == 1)
        assert set(stack.stop().values()) == {0}
        assert [pane["pops"] for pane in stack.results("pops")] == [5]
        assert [pane["moves"] for pane in stack.results("sessions")] == [5]
        if service == "ingest":  # the first mark of all is the zombie's
            first, *others = silences(stack, "read_uncommitted")
            assert first >= IDLE_MS
            assert silences(stack, "read_committed") == others


def refused(log: str) -> bool:
    return any(name in log for name in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"))


def silences(stack: Stack, isolation: str) -> list[int]:
    """Return how long sources were silent by the marks of the log, the oldest first."""
    (log,) = stack.plan.logs
    at = TopicPartition(log.topic, 0, OFFSET_BEGINNING)
    consumer = Consumer(
        {
            "bootstrap.servers": stack.config.bootstrap_servers,
            "group.id": stack.name,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([at])
    marks: list[SourceMark] = []
    while (message := consumer.poll()) is not None:
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        marks += decode_segment(message.value() or b"").sources
    consumer.close()
    return [mark.silence_ms for mark in marks if mark.silence_ms]
