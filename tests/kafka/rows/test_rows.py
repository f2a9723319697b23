"""Rows as they are on Kafka: each once, in order, in a table too, whatever is killed or changed."""

import json
from collections import defaultdict

from tests.kafka.rows import asis
from tests.kafka.rows.orders import PARTITIONS, await_rows, await_table, expected, orders
from tests.kafka.support.stack import Stack, wait_until
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset

CHUNK = 120


def by_key(stack):
    """Return the rows of ``by-user`` by message key: partition and offset of each, in order."""
    found = defaultdict(list)
    port = next(plan.results for plan in stack.plan.operators if plan.name == "by-user")
    avro = encoder_of(port).avro
    assert avro is not None
    for key, value in stack.committed(port.topic):
        row = avro.decode(value)
        assert [row["user"]] == json.loads(key)
        found[row["user"]].append((row["_partition"], row["_offset"]))
    return found


def some_of(stack, step):
    return len(stack.results("large")) > step * CHUNK // 3


def test_each_row_is_published_once_although_services_are_killed(broker, tmp_path):
    path = tmp_path / "rows.db"
    sink = f"sqlite:{path}"
    with Stack(broker, "as-it-is", PARTITIONS, module=asis, TIDEMARK_SINK=sink) as stack:
        services = (*stack.plan.services(), "sink")
        stack.start(*services)
        for step in range(4):
            stack.produce(orders(step * CHUNK, (step + 1) * CHUNK))
            if step < 3:
                wait_until(lambda: some_of(stack, step), "some rows")  # noqa: B023 - called now
                stack.kill(services[step])
                stack.start(services[step])
        await_rows(stack, 4 * CHUNK, least=2)
        await_table(path, 4 * CHUNK, least=2)
        everything = expected(4 * CHUNK, least=0)
        wanted = defaultdict(list)
        for partition, rows in everything.items():
            for offset, user, *_ in rows:
                wanted[user].append((partition, offset))
        wait_until(
            lambda: {k: sorted(rows) for k, rows in by_key(stack).items()} == wanted, "rows by user"
        )
        for rows in by_key(stack).values():
            for partition in range(PARTITIONS):
                offsets = [offset for number, offset in rows if number == partition]
                assert offsets == sorted(offsets)
        keys = [json.loads(key or b"") for key, _ in stack.committed("as-it-is.large")]
        assert {len(key) for key in keys} == {4}
        assert set(stack.stop(*services).values()) == {0}


def test_a_changed_filter_of_rows_is_refused_and_accepted_by_a_reset(broker, tmp_path):
    path = tmp_path / "rows.db"
    sink = f"sqlite:{path}"
    name = "asis-changed"
    with Stack(broker, name, PARTITIONS, module=asis, TIDEMARK_SINK=sink) as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.produce(orders(0, CHUNK))
        await_table(path, CHUNK, least=2)
        counts = stack.committed(f"{name}.counts")
        assert set(stack.stop(*stack.plan.services(), "sink").values()) == {0}
    with Stack(broker, name, 0, asis, {"least": 1}, TIDEMARK_SINK=sink) as stack:
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        assert "in output large, the choice of rows was filter" in stack.log("ingest")
        stack.kill("ingest")
        Reset(stack.config, stack.admin, Scope(stack.compiled, only=("large",))).run()
    with Stack(broker, name, 0, asis, {"least": 1}, TIDEMARK_SINK=sink) as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.produce(orders(CHUNK, 2 * CHUNK))
        await_rows(stack, 2 * CHUNK, least=1)
        await_table(path, 2 * CHUNK, least=1)
        assert stack.committed(f"{name}.counts")[: len(counts)] == counts
        assert set(stack.stop(*stack.plan.services(), "sink").values()) == {0}


def test_a_new_column_of_rows_comes_from_the_deployment_on(broker):
    name = "asis-wider"
    with Stack(broker, name, PARTITIONS, module=asis) as stack:
        stack.start()
        stack.produce(orders(0, CHUNK))
        await_rows(stack, CHUNK, least=2)
        assert set(stack.stop().values()) == {0}
    with Stack(broker, name, 0, asis, {"more": True}) as stack:
        stack.start()
        stack.produce(orders(CHUNK, 2 * CHUNK))
        await_rows(stack, 2 * CHUNK, least=2)
        for row in stack.results("large"):
            is_old = row["_offset"] < CHUNK // PARTITIONS
            assert row.get("twice") == (None if is_old else 2 * row["amount"])
        assert set(stack.stop().values()) == {0}
