"""Late rows as a stream on Kafka: kills change nothing; one process publishes the same."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tests.kafka.pipelines.chains import late
from tests.kafka.support.chains import in_parts, produced
from tests.kafka.support.readings import START_MS, readings
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.ports import LATE, PANES, ROWS
from tidemark.local.run import LocalRun

SHOWN = {
    "seconds": ("sensor", "start", "end", "n"),
    "lates": ("id", "v", "start", "late_by_ms", "own_watermark", "_event_time_ms"),
    "again": ("v", "start", "end", "n", "most"),
}


def shown(name: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what the last readings have passed: rows, or the last pane of each window."""
    past = [row for row in rows if row.get("_event_time_ms", row["end"]) < START_MS + 200_000]
    if name != "lates":
        last = {(row[SHOWN[name][0]], row["start"]): row for row in past}
        past = [*last.values()]
    return sorted(json.dumps([_ms(row[each]) for each in SHOWN[name]]) for row in past)


def _ms(value: Any) -> Any:
    """Return a time of a result, which one process has as a datetime and Kafka as a text."""
    if isinstance(value, str) and value.endswith("Z"):
        value = datetime.fromisoformat(value)
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


def test_late_rows_survive_kills(broker):
    values, name = readings(), "late-rows-killed"
    local = LocalRun(late.build(name).plan())
    list(local.run({f"{name}-moves": values}))
    ports = {"seconds": PANES, "lates": ROWS, "again": PANES}
    expected = {
        output: shown(output, local.published[output].every(port).to_dicts())
        for output, port in ports.items()
    }
    again_late = local.published["again"].every(LATE).height
    assert all(expected.values())
    assert again_late
    with Stack(broker, name, module=late, TIDEMARK_SNAPSHOT_COMMITS="3") as stack:
        stack.start()
        for number, part in enumerate(in_parts(values, 2)):
            produced(stack, part)
            if number < 1:
                wait_until(lambda: bool(stack.results("lates")), "first late rows")
                stack.kill("windowing")
                stack.start("windowing")
        found: dict[str, list[str]] = {}

        def is_complete() -> bool:
            found.update((each, shown(each, stack.results(each))) for each in expected)
            return found == expected

        wait_until(is_complete, f"the late rows of {name}")
        assert len(stack.results("seconds.late")) == len(stack.results("lates"))
        assert len(stack.results("again.late")) == again_late
