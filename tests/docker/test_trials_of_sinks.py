"""Public bug trials on sinks, with PostgreSQL."""

import time
from itertools import pairwise

import psycopg
import pytest

from tests.docker.pipelines import dying
from tests.kafka.support.stack import Stack, wait_until

T0 = 1_767_225_600_000
LIVES = 5


@pytest.fixture
def trial(broker, postgres):
    """Give a pipeline and what a statement finds in its database, both under a name."""

    def run(name, **options):
        postgres.run(postgres.url(), f"CREATE SCHEMA {name}")
        url = postgres.url(name)
        stack = Stack(broker, name, module=dying, options=options, TIDEMARK_SINK=url)
        return stack, lambda statement: postgres.run(url, statement)

    return run


def records(first, last, step_ms):
    return ((0, None, b'{"k":"a","ts":%d,"v":1}' % (T0 + step_ms * n)) for n in range(first, last))


def test_b30_a_locked_table_costs_neither_partitions_nor_a_restart(trial, postgres):
    """The lock lasts longer than a group waits for a member that does not poll."""
    stack, rows = trial("b30", partitions=2)
    with stack:
        stack.start()
        for slot in ("0", "1"):
            stack.start("sink", slot=slot, KAFKA_MAX_POLL_INTERVAL_MS="10000")
        stack.await_partitions()
        with psycopg.connect(postgres.url("b30")) as db:
            db.execute("LOCK TABLE out IN ACCESS EXCLUSIVE MODE")
            values = [b'{"k":"k%d","ts":%d,"v":1}' % (n % 10, T0 + 20 * n) for n in range(500)]
            stack.produce((0, None, value) for value in values)
            stack.produce([(0, None, b'{"k":"_flush","ts":%d,"v":0}' % (T0 + 60_000))])
            logs = [lambda slot=slot: stack.log("sink", slot) for slot in ("0", "1")]
            wait_until(
                lambda: all("trying again" in log() for log in logs), "a log line about the lock"
            )
            time.sleep(8)  # after the 5 s in which each asked for the table
        wait_until(lambda: rows("SELECT count(*) FROM out") == [(10,)], "all rows")
        counts = 'SELECT k, "count", "sum" FROM out ORDER BY k'
        assert rows(counts) == [(f"k{n}", 50, 50) for n in range(10)]
        assert all(process.poll() is None for process in stack.processes.values())
        assert sum(log().count("was given") for log in logs) <= 3
        assert set(stack.stop().values()) == {0}


def test_b45_a_sink_that_dies_before_its_offsets_are_known_writes_nothing_twice(trial):
    stack, rows = trial("b45")
    with stack:
        stack.start()
        bounds = [200 * n // (LIVES + 1) for n in range(LIVES + 2)]
        for life, (first, last) in enumerate(pairwise(bounds)):
            stack.produce(records(first, last, 1_000))
            # A static member is not waited for when it comes back.
            crash = {"TEST_CRASH": "1"} if life < LIVES else {}
            stack.start("sink", TIDEMARK_STATIC_MEMBERSHIP="true", **crash)
            if life < LIVES:
                assert stack.process("sink").wait() == dying.STATUS, stack.log("sink")
        stack.produce([(0, None, b'{"k":"_flush","ts":%d,"v":0}' % (T0 + 600_000))])
        asked = 'SELECT count(*), count(DISTINCT (k, window_start)), sum("count") FROM out '
        wait_until(lambda: rows(f"{asked} WHERE k = 'a'") == [(20, 20, 200)], "all rows")
        wait_until(lambda: stack.figures("sink").get("lag") == "0", "no lag")
        assert rows(f"{asked} WHERE k = 'a'") == [(20, 20, 200)]
        assert set(stack.stop(*stack.plan.services(), "sink").values()) == {0}


def test_b46_a_hundred_updates_of_one_window_are_one_row(trial):
    stack, rows = trial("b46", emit="every_update")
    with stack:
        stack.start(*stack.plan.services(), "sink")
        stack.await_partitions()
        stack.produce(records(0, 100, 10))
        asked = "SELECT count(*), max(\"count\") FROM out WHERE k = 'a'"
        wait_until(lambda: _there(rows) and rows(asked) == [(1, 100)], "the last update")
        wait_until(lambda: stack.figures("sink").get("lag") == "0", "no lag")
        assert rows(asked) == [(1, 100)]
        assert len(stack.results("out")) > 1
        assert " ERROR " not in stack.log("sink")
        assert set(stack.stop(*stack.plan.services(), "sink").values()) == {0}


def _there(rows):
    return rows("SELECT to_regclass('out') IS NOT NULL") == [(True,)]
