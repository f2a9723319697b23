"""Find the cases of a dialect that need an option that Tidemark does not have.

A check reads the parameters of a case, never its id.  So a new case is treated as similar cases
are.  A case that passes all checks is run and must pass.  A check returns a key of RULES, or None.
"""

from collections.abc import Callable

from tidemark.conformance.case import Case, Fields
from tidemark.conformance.rules import NotOfferedError
from tidemark.conformance.session_lateness import lateness_differs
from tidemark.core.time.segment import NEVER_MS

Check = Callable[[Case], str | None]


def require_offered(case: Case) -> None:
    """Raise NotOfferedError, with the rule followed instead, if a case needs a missing option."""
    for check in CHECKS:
        rule = check(case)
        if rule is not None:
            raise NotOfferedError(rule)


def _state(case: Case) -> str | None:
    """Check for keyed values with a time to live, deduplication, and updates held back."""
    if case.window["type"] == "dedup" or "state" in case.spec:
        return "D20"
    return "held updates" if case.emit == "time_limit" else None


def _sessions(case: Case) -> str | None:
    if case.window.get("gap_boundary") == "inclusive":
        return "D1"
    if _withdraws_the_same_start(case):
        return "D14"
    return "D6" if lateness_differs(case) else None


def _withdraws_the_same_start(case: Case) -> bool:
    """Return whether a session is withdrawn and published again with the same start."""
    withdrawn = {
        (result.get("after"), result.get("key"), result.get("start"))
        for result in case.expected
        if result.get("kind") == "retract"
    }
    return any(
        (result.get("after"), result.get("key"), result.get("start")) in withdrawn
        for result in case.expected
        if result.get("kind") != "retract"
    )


def _scope(case: Case) -> str | None:
    """Check for a clock per key; it differs if there are two keys."""
    keys = {element.get("key") for element in case.elements()} - {None}
    own = case.watermark.get("scope") == "key"
    return "D5" if own and len(keys) > 1 else None


def _system_time(case: Case) -> str | None:
    advances = any("advance_ms" in item for item in case.input)
    return "D5" if advances and case.watermark["type"] == "event_clock" else None


def _several_sources(case: Case) -> str | None:
    if case.watermark.get("policy") == "max":
        return "D17"
    idle: set[int] = set()
    for item in case.input:
        if "status" in item:
            (idle.add if item["status"] == "idle" else idle.discard)(item["partition"])
        elif "watermark" in item and item.get("partition") in idle:
            return "D16"
    return "idleness" if case.emit == "idle_probe" else None


def _lateness(case: Case) -> str | None:
    return "D7" if case.spec.get("late_rule") == "element_ts_lt_watermark" else None


def _null_key(case: Case) -> str | None:
    """Check for a record without a key; it moves time here, which affects later records."""
    elements = list(case.elements())
    without = [number for number, each in enumerate(elements) if each.get("key", "") is None]
    return "null key" if any(number < len(elements) - 1 for number in without) else None


def _sliding(case: Case) -> str | None:
    if case.window["type"] != "sliding_record":
        return None
    if case.window.get("emit_left_windows_only"):
        return "D10"
    if "reference_disagrees" in case.more:
        return "D9"
    if any(element["ts"] < case.window["difference_ms"] for element in case.elements()):
        return "D10"
    return "D9" if _forgets_rows(case) else None


def _forgets_rows(case: Case) -> bool:
    """Return whether a row is late for the window that ends with it, but not for later windows."""
    watermark_ms, lateness_ms = NEVER_MS, case.spec["allowed_lateness_ms"]
    for element in case.elements():
        watermark_ms = max(watermark_ms, element["ts"] - case.watermark.get("delay_ms", 0))
        end_ms = element["ts"] + 1 + lateness_ms
        if end_ms <= watermark_ms < end_ms + case.window["difference_ms"]:
            return True
    return False


def _parameters(case: Case) -> str | None:
    """Check for offsets beyond the slide, which are refused, and slides equal to the size."""
    if case.emit != "validate":
        step_ms = case.window.get("slide_ms", case.window.get("size_ms", 0))
        return "D12" if abs(case.window.get("offset_ms", 0)) >= step_ms > 0 else None
    allowed = any(
        0 < item.get("slide_ms", 0) == item.get("size_ms") and item.get("grace_ms", 0) >= 0
        for item in case.input
    )
    return "D12" if allowed else None


def _batches(case: Case) -> str | None:
    complete = case.emit == "on_batch_complete"
    delayed = case.watermark.get("no_data_batches") is False
    return "batches" if complete or delayed else None


def _chaining(case: Case) -> str | None:
    return "chaining" if case.window["type"] == "chain" else None


def _count_windows(case: Case) -> str | None:
    return "evictors" if case.window["type"] == "count_evicting" else None


def _empty_collect(case: Case) -> str | None:
    """Check for updates without the collected values."""
    values = [result.get("value") for result in case.expected if result.get("kind") == "update"]
    empty = any(isinstance(value, dict) and value.get("collect") == [] for value in values)
    return "D18" if empty else None


def _nothing_but_nulls(case: Case) -> str | None:
    nulls = all(element.get("value") is None for element in case.elements())
    summed = case.spec.get("aggregate") == "sum"
    zero = any(result.get("value") == 0 for result in case.expected)
    return "D19" if nulls and summed and zero else None


def _triggers(case: Case) -> str | None:
    trigger = case.spec.get("trigger")
    if trigger is None:
        return None
    if "continuous_event_time" in trigger:
        return "timers"
    if set(trigger) == {"repeatedly"} and set(trigger["repeatedly"]) == {"count"}:
        return None
    if set(trigger) != {"after_watermark"}:
        return "composed triggers"
    composed: Fields = trigger.get("after_watermark", {})
    if composed.get("late", {"count": 1}) != {"count": 1}:
        return "D8"
    early = composed.get("early")
    if early is not None and set(early) != {"count"}:
        return "composed triggers"
    return "D15" if early is not None and _cuts_bundles(case, early["count"]) else None


def _early_before_final(case: Case) -> str | None:
    """Check for updates until a window is final; here they come once per segment after its end."""
    lateness = case.spec.get("allowed_lateness_ms")
    return "D8" if case.emit == "on_update+on_final" and lateness else None


def _cuts_bundles(case: Case, count: int) -> bool:
    """Return whether a bundle continues after a row at which a trigger fires."""
    rows = 0
    for item in case.input:
        for position, _ in enumerate(item.get("bundle", ())):
            rows += 1
            if rows % count == 0 and position < len(item["bundle"]) - 1:
                return True
    return False


CHECKS: tuple[Check, ...] = (
    _state,
    _sessions,
    _scope,
    _system_time,
    _several_sources,
    _lateness,
    _null_key,
    _sliding,
    _parameters,
    _batches,
    _chaining,
    _count_windows,
    _empty_collect,
    _nothing_but_nulls,
    _triggers,
    _early_before_final,
)
