"""Rows in order of event time on Kafka: kills change nothing; one process publishes the same."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests.kafka.pipelines.chains import in_order
from tests.kafka.support.chains import in_parts, produced
from tests.kafka.support.readings import START_MS, readings
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.ports import LATE, PANES, ROWS
from tidemark.core.windows.pane import END_OF_INPUT, FINAL, RETRACTED
from tidemark.local.run import LocalRun

Row = Mapping[str, Any]


def shown(rows: Iterable[Row]) -> list[str]:
    """Return the rows that the last readings have passed, without what differs between runs."""
    past_ms = START_MS + 200_000
    hidden = (END_OF_INPUT, FINAL, RETRACTED)
    kept = [row for row in rows if row.get("at", row.get("end", 0)) < past_ms]
    return sorted(
        json.dumps({name: row[name] for name in sorted(row) if name not in hidden}) for row in kept
    )


@pytest.mark.parametrize("backend", ["memory", pytest.param("rocksdb", marks=pytest.mark.long)])
def test_rows_in_order_survive_kills(broker, tmp_path, backend):
    values = readings()
    name = f"in-order-{backend}"
    local = LocalRun(in_order.build(name).plan())
    list(local.run({f"{name}-moves": values}))
    env: dict[str, Any] = {"TIDEMARK_SNAPSHOT_COMMITS": "3", "TIDEMARK_STATE_BACKEND": backend}
    if backend == "rocksdb":
        env |= {"TIDEMARK_STATE_DIR": str(tmp_path), "TIDEMARK_STATE_MEMORY_MB": "0"}
    with Stack(broker, name, module=in_order, **env) as stack:
        expected = {
            output: shown(local.published[output].every(port).to_dicts())
            for output, port in (("once", ROWS), ("scanned", ROWS), ("rising", PANES))
        }
        assert all(expected.values())
        late = local.published["once"].every(LATE).height
        assert late
        stack.start()
        for number, part in enumerate(in_parts(values, 4)):
            produced(stack, part)
            if number < 3:
                wait_until(lambda: bool(stack.results("once")), "first rows")
                stack.kill("windowing")
                stack.start("windowing")
        found: dict[str, list[str]] = {}

        def is_complete() -> bool:
            found.update((each, shown(stack.results(each))) for each in expected)
            return found == expected

        wait_until(is_complete, f"the rows of {stack.name}")
        assert len(stack.results("once.late")) == late
        for derived in stack.plan.derived[1:]:
            assert stack.results(f"{derived.operator}.late") == []
