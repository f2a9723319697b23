"""Nested records through the log, the state, a kill and the restore: equal to in process."""

import json
from typing import Any

from tests.kafka.support import nested_orders as pipeline
from tests.kafka.support.nested_orders import END, ended, order, records
from tests.kafka.support.stack import Stack, wait_until
from tidemark.local.run import LocalRun


def test_nested_records_survive_the_log_a_kill_and_a_restore(broker):
    values = records()
    with Stack(broker, "nested-records", module=pipeline) as stack:
        stack.produce((0, None, value) for value in values[:150])
        stack.start()
        stack.await_results("orders", lambda panes: len(panes) > 5)
        stack.kill("ingest", "windowing")
        stack.start("windowing", TIDEMARK_STATE=str(stack.folder / "empty"))
        stack.produce((0, None, value) for value in [*values[150:], *map(ended, ("u0", "u1"))])
        stack.start("ingest")
        wait_until(lambda: len(stack.results("orders.late")) == 1, "the late row")
        stack.await_results("orders", lambda panes: len(panes) >= len(local_panes(values)))
        panes, late = stack.results("orders"), stack.results("orders.late")
        dead = stack.results("dead-letters")
        spent = stack.committed(f"{stack.name}.spent")
        avro = stack.plan.operators[1].results
        assert set(stack.stop().values()) == {0}

    expected = local_panes(values)
    found = {(pane["id"], pane["start"]): pane for pane in panes}
    assert found.keys() == expected.keys()
    for place, pane in expected.items():
        for name in ("orders", "level", "items", "labels", "note"):
            assert found[place][name] == pane[name], (place, name)
    (row,) = (each["row"] for each in late)
    assert json.loads(row["body"]) == order(1)
    assert row["user"] == order(1)["user"]
    assert row["labels"] == [{"key": "a", "value": 1}, {"key": "b", "value": None}]
    assert [letter["reason"] for letter in dead] == [
        "column details.level: expected int, got 'high'",
        "element 1: column user: expected object, got int",
        "expected an object, got an empty array",
    ]
    assert avro.format == "avro"
    assert len(spent) > 20


def local_panes(values: list[bytes]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the panes of windows that have closed, computed in process."""
    local = LocalRun(pipeline.build("nested-records").plan())
    list(local.run({"nested-records-orders": [*values, ended("u0"), ended("u1")]}))
    panes = local.published["orders"].last("panes").to_dicts()
    return {(pane["id"], pane["start"]): pane for pane in panes if pane["start"] < END - 10_000}
