"""Rows in order of event time on Kafka: kills change nothing; one process publishes the same.

A sink puts them into a database: from a topic in JSON, and from one in Avro.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.pipelines.chains import in_order
from tests.kafka.support.chains import in_parts, produced
from tests.kafka.support.readings import START_MS, readings
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.ports import LATE, PANES, ROWS
from tidemark.core.operators.rows import EVENT_TIME_MS
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


def rows_in(path: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, as the messages have them; nothing before the table is there."""
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        if not database.execute("SELECT * FROM sqlite_master WHERE name = ?", [table]).fetchone():
            return []
        found = [dict(row) for row in database.execute(f'SELECT * FROM "{table}"')]
    for row in found:
        at = datetime.fromisoformat(row.pop("_event_time")).astimezone(UTC)
        row[EVENT_TIME_MS] = round(at.timestamp() * 1_000)
    return found


@pytest.mark.parametrize("backend", ["memory", pytest.param("rocksdb", marks=pytest.mark.long)])
def test_rows_in_order_survive_kills(broker, tmp_path, backend):
    values = readings()
    name = f"in-order-{backend}"
    local = LocalRun(in_order.build(name).plan())
    list(local.run({f"{name}-moves": values}))
    env: dict[str, Any] = {"TIDEMARK_SNAPSHOT_COMMITS": "3", "TIDEMARK_STATE_BACKEND": backend}
    database = tmp_path / "results.db"
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
        stack.start("sink", TIDEMARK_SINK=f"sqlite:{database}")
        for number, part in enumerate(in_parts(values, 4)):
            produced(stack, part)
            if number < 3:
                wait_until(lambda: bool(stack.results("once")), "first rows")
                stack.kill("windowing")
                stack.start("windowing")
        found: dict[str, list[str]] = {}

        def is_complete() -> bool:
            found.update((each, shown(stack.results(each))) for each in ("once", "rising"))
            found["scanned"] = shown(rows_in(database, "scanned"))
            return found == expected

        wait_until(is_complete, f"the rows of {stack.name}")
        assert len(stack.results("once.late")) == late
        wait_until(
            lambda: shown(rows_in(database, "once")) == expected["once"], "the rows in the database"
        )
        for derived in stack.plan.derived[1:]:
            assert stack.results(f"{derived.operator}.late") == []
