"""A process that reads nothing says why, and one without anything to read says nothing."""

import time

from tests.kafka.support.stack import Stack, move, wait_until
from tests.kafka.support.transactions import open_transaction

T = 1_772_438_400_000


def test_an_idle_process_that_was_started_again_waits_for_nothing(broker):  # B8
    """Behind its offsets the log has markers of transactions only, which it never receives."""
    with Stack(broker, "idle") as stack:
        stack.start()
        stack.produce((0, None, move(f"p{n}", T + n)) for n in range(100))
        wait_until(lambda: stack.figures("windowing").get("rows") == "100", "the rows")
        assert set(stack.stop().values()) == {0}
        stack.start()
        stack.await_partitions()
        time.sleep(25)
        for service in stack.plan.services():
            assert "no broker has sent" not in stack.log(service)
            assert "open transaction" not in stack.log(service)
        assert set(stack.stop().values()) == {0}


def test_an_open_transaction_of_a_producer_is_named(broker):
    with Stack(broker, "held-raw") as stack:
        stack.start("ingest")
        stack.await_partitions()
        producer = open_transaction(stack, stack.raw, 1)
        text = "waiting for an open transaction of a writer of held-raw-moves/0"
        wait_until(lambda: text in stack.log("ingest"), "the reason")
        producer.abort_transaction(10)
