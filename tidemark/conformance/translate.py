"""Translate a case's parameters to a pipeline, with the operator that the services would run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.conformance.feed import TOPIC
from tidemark.conformance.values import aggregates_of, as_type, type_of
from tidemark.core.time.watermark import monotonic
from tidemark.core.windows.trigger import Trigger, every, on_close, on_final, on_update
from tidemark.language.arrival_windows import count_window, global_window
from tidemark.language.pipeline import Pipeline
from tidemark.language.windows import hopping, processing_time, session, sliding, tumbling
from tidemark.plan.physical import OperatorPlan

UNBOUNDED_MS = 2**53
"""An allowed lateness that no row exceeds: every window is kept, even at FAR_MS."""


@dataclass(frozen=True)
class Translation:
    """A translated case: the operator's plan, and functions from elements to rows and from panes.

    ``row`` returns the columns of an element.  ``value`` returns the case's value of a pane.
    """

    plan: OperatorPlan
    row: Callable[[Fields], Mapping[str, Any]]
    value: Callable[[Fields], Any]


def translate(case: Case) -> Translation:
    """Return the operator that a case describes.

    Raises:
        ConformanceError: a parameter is unknown.
    """
    elements = list(case.elements())
    values = _Values([element.get("value") for element in elements])
    schema: dict[str, Any] = {"key": str, "ts": int, **values.schema}
    if any("gap_ms" in element for element in elements):
        schema["gap_ms"] = int
    pipeline = Pipeline("conformance", partitions=1)
    keyed = pipeline.source(TOPIC, schema=schema, event_time="ts", watermark=monotonic()).key_by(
        "key"
    )
    shown = aggregates_of(case)
    stream = keyed if _is_rolling(case) else keyed.window(window_of(case.window), **_options(case))
    stream.aggregate(**shown.aggregates).to("results")
    (plan,) = pipeline.plan().operators
    return Translation(plan, values.row, shown.value)


def window_of(window: Fields) -> Any:
    """Return the window that parameters describe, as a user writes it."""
    match window["type"]:
        case _ if window.get("time") == "processing":
            return processing_time(window_of({**window, "time": "event"}))
        case "tumbling":
            return tumbling(_ms(window["size_ms"]), offset=_ms(window.get("offset_ms", 0)))
        case "hopping":
            offset = _ms(window.get("offset_ms", 0))
            return hopping(_ms(window["size_ms"]), _ms(window["slide_ms"]), offset=offset)
        case "sliding_record":
            return sliding(_ms(window["difference_ms"]))
        case "session" if window["gap_ms"] == "per_element":
            return session("gap_ms")
        case "session":
            return session(_ms(window["gap_ms"]))
        case "count":
            return count_window(window["size"])
        case "count_hopping":
            return count_window(window["size"], window["step"])
        case "global":
            return global_window()
    raise ConformanceError(f"window {window['type']!r} is unknown")


def _is_rolling(case: Case) -> bool:
    return case.window["type"] == "global" and case.emit == "state"


def _options(case: Case) -> dict[str, Any]:
    options: dict[str, Any] = {"trigger": _trigger(case)}
    lateness = case.spec.get("allowed_lateness_ms", 0)
    if lateness:
        options["allowed_lateness"] = _ms(UNBOUNDED_MS if lateness == "unbounded" else lateness)
    if case.window["type"] == "session" and case.window.get("time") != "processing":
        options["lateness"] = "after_merging"  # the rule that is closest to those of peers
    if case.spec.get("accumulation") == "discarding":
        options["accumulation"] = "discarding"
    return options


def _ms(number: int) -> str:
    return f"{number}ms"


def _trigger(case: Case) -> Trigger:
    match case.emit:
        case "on_close" | "assign" | "state":
            return on_close()
        case "on_final":
            return on_final()
        case "on_update":
            return on_update()
        case "on_batch_update":
            return every(processing_time="1ms")
        case "on_update+on_close":
            return on_close(early=every(rows=1))
        case "on_update+on_final" if not case.spec.get("allowed_lateness_ms"):
            return on_close(early=every(rows=1))
        case "trigger":
            return _composed(case.spec["trigger"])
    raise ConformanceError(f"emit {case.emit!r} is unknown")


def _composed(trigger: Fields) -> Trigger:
    match trigger:
        case {"after_watermark": dict(parts)}:
            counts = {name: every(rows=part["count"]) for name, part in parts.items()}
            return on_close(**counts)
        case {"repeatedly": {"count": rows}}:
            return every(rows=rows)
    raise ConformanceError(f"trigger {trigger!r} is unknown")


class _Values:
    """The value columns of a case: one, or several if each value is a list."""

    def __init__(self, values: list[Any]) -> None:
        lists = [value for value in values if isinstance(value, list)]
        self._wide = max(map(len, lists)) if lists and len(lists) == len(values) else 0
        columns = [[value[n] for value in lists] for n in range(self._wide)] or [values]
        self.schema = {_name(n, self._wide): type_of(column) for n, column in enumerate(columns)}

    def row(self, element: Fields) -> Mapping[str, Any]:
        """Return the columns of an element."""
        value = element.get("value")
        values: list[Any] = list(value or ()) if self._wide else [value]
        columns = {
            _name(n, self._wide): as_type(self.schema[_name(n, self._wide)], each)
            for n, each in enumerate(values)
        }
        lead = {"key": str(element["key"]), "ts": element["ts"], "gap_ms": element.get("gap_ms")}
        return {**lead, **columns}


def _name(number: int, wide: int) -> str:
    return f"value{number}" if wide else "value"
