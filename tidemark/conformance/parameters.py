"""Check the parameters of a case: one that the runner does not know is an error of the run.

A parameter that is ignored would make a case assert less than it says.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Fields = Mapping[str, Any]

_TIMES = ("time", "min_start_ms")

_WINDOWS: Mapping[str, tuple[Iterable[str], Iterable[str]]] = {
    "tumbling": (("size_ms",), ("offset_ms", *_TIMES)),
    "hopping": (("size_ms", "slide_ms"), ("offset_ms", *_TIMES)),
    "sliding_record": (("difference_ms",), ("early", "emit_left_windows_only")),
    "session": (("gap_ms",), ("native_gap_ms", "gap_boundary", "time")),
    "count": (("size",), ()),
    "count_hopping": (("size", "step"), ()),
    "count_evicting": (("fire_every", "keep_after_fire"), ()),
    "global": ((), ()),
    "dedup": (("ttl_ms",), ()),
    "chain": (("stages",), ()),
    "none": ((), ()),
}
"""Parameters of each kind of window: those that it needs, and those that it may have."""

_WATERMARKS: Mapping[str, tuple[Iterable[str], Iterable[str]]] = {
    "none": ((), ()),
    "explicit": ((), ()),
    "stream_time": (("delay_ms",), ("scope",)),
    "bounded_out_of_orderness": (("delay_ms",), ()),
    "batch_delay": (("delay_ms",), ("no_data_batches",)),
    "batch_delay_multi": (("delays_ms",), ("policy",)),
    "combine": (("partitions",), ("policy",)),
    "idleness_timer": (("timeout_ms",), ()),
    "event_clock": (("wait_ms",), ("advances_with_system_time", "scope")),
}

_JOINS: Mapping[str, tuple[Iterable[str], Iterable[str]]] = {
    "interval": (("lower_ms", "upper_ms", "lower_inclusive", "upper_inclusive", "kind"), ()),
    "asof": (("grace_ms", "kind"), ()),
}

_PATTERN = ("steps", "skip", "within_ms", "within_type")
_STEP = ("name", "where", "contiguity", "quantifier", "times")

_SPEC = (
    *("window", "join", "pattern", "aggregate", "allowed_lateness_ms", "watermark", "emit"),
    *("accumulation", "late_output", "late_rule", "state", "time_limit_ms", "trigger"),
    "assert_final_only",
)
_VALIDATED = (
    *("size_ms", "slide_ms", "offset_ms", "grace_ms", "delay_ms", "allowed_lateness_ms"),
    *("gap_ms", "difference_ms", "size", "step"),
)
_ELEMENT = ("key", "ts", "value", "gap_ms", "partition", "side", "id", "type")
_ITEMS = (
    *("watermark", "native", "checkpoint", "end_batch", "bundle", "clock"),
    *("partition", "status", "probe", "advance_ms", "activity", "window", "op", "time"),
)
_MORE = (
    *("source", "note2", "end_semantics", "reference_disagrees"),
    *("counters", "order_independent", "expect_from", "assert_subset"),
)
COUNTERS = ("late", "dropped")
"""Counters that are compared."""

OTHER_COUNTERS = ("dropped_window_assignments", "open_windows")
"""Counters of other systems that Tidemark does not have: assignments, and windows of all keys."""

_VALUES: Mapping[str, tuple[Any, ...]] = {
    "accumulation": ("accumulating", "discarding"),
    "kind": ("inner", "left", "outer"),
    "gap_boundary": ("exclusive", "inclusive"),
    "late_rule": ("element_ts_lt_watermark",),
    "policy": ("min", "max"),
    "scope": ("key", "task", "partition"),
    "time": ("event", "processing"),
}


def faults_of(spec: Fields, items: Iterable[Fields], more: Fields) -> Iterator[str]:
    """Yield what is unknown or missing in a case, as text that names the parameter."""
    yield from _unknown("spec", spec, _SPEC)
    yield from _kind("spec.window", spec["window"], _WINDOWS, validated=spec["emit"] == "validate")
    if isinstance(spec.get("watermark"), Mapping):
        yield from _kind("spec.watermark", spec["watermark"], _WATERMARKS)
    if "join" in spec:
        yield from _kind("spec.join", spec["join"], _JOINS)
    if "pattern" in spec:
        yield from _unknown("spec.pattern", spec["pattern"], _PATTERN)
        for number, step in enumerate(spec["pattern"]["steps"]):
            yield from _unknown(f"spec.pattern.steps {number}", step, _STEP)
    yield from _values("spec", spec)
    for number, item in enumerate(items):
        known = (*_ELEMENT, *_ITEMS, *_VALIDATED * (spec["emit"] == "validate"))
        yield from _unknown(f"input {number}", item, known)
        for element in item.get("bundle", ()):
            yield from _unknown(f"input {number}: bundle", element, _ELEMENT)
    yield from _unknown("the case", more, _MORE)
    yield from _unknown("counters", more.get("counters", {}), (*COUNTERS, *OTHER_COUNTERS))


def _kind(
    where: str,
    fields: Fields,
    kinds: Mapping[str, tuple[Iterable[str], Iterable[str]]],
    *,
    validated: bool = False,
) -> Iterator[str]:
    kind = str(fields.get("type"))
    if kind not in kinds:
        yield f"{where}.type {kind!r} is unknown"
        return
    needed, optional = kinds[kind]
    yield from _unknown(where, fields, ("type", *needed, *optional))
    yield from _values(where, fields)
    if not validated:  # then each input has the parameters
        yield from (f"{where}.{name} is missing" for name in needed if name not in fields)


def _unknown(where: str, fields: Fields, known: Iterable[str]) -> Iterator[str]:
    return (f"{where}: {name!r} is unknown" for name in fields if name not in known)


def _values(where: str, fields: Fields) -> Iterator[str]:
    for name, known in _VALUES.items():
        if name in fields and fields[name] not in known:
            yield f"{where}.{name} {fields[name]!r} is unknown"
