"""Find the cases of a dialect that need an option that Tidemark does not have.

A check reads parameters and input of a case, never its id or expected results.  So a new case is
treated as similar cases are.  A case that passes all checks is run and must pass.  A check returns
a key of RULES, or None.
"""

from collections.abc import Callable, Iterator, Sequence

from tidemark.conformance.case import Case, Fields
from tidemark.conformance.joins_offer import joins_differ
from tidemark.conformance.patterns_offer import patterns_differ
from tidemark.conformance.rules import NotOfferedError
from tidemark.conformance.session_lateness import keeps_start, lateness_differs, timed

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
    if case.dialect == "kafka-streams" and case.emit == "on_update" and keeps_start(case):
        return "D14"
    return "D6" if lateness_differs(case) else None


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
    return None


def _lateness(case: Case) -> str | None:
    """Check for rows before the watermark that a window still accepts here."""
    if case.spec.get("late_rule") != "element_ts_lt_watermark":
        return None
    lateness_ms = case.spec.get("allowed_lateness_ms", 0)
    accepted = any(
        element["ts"] < watermark_ms < _last_end_ms(case, element["ts"]) + lateness_ms
        for element, watermark_ms in timed(case)
    )
    return "D7" if accepted else None


def _last_end_ms(case: Case, at_ms: int) -> int:
    """Return the end of the last aligned window that contains a time."""
    size_ms, offset_ms = case.window["size_ms"], case.window.get("offset_ms", 0)
    slide_ms = case.window.get("slide_ms", size_ms)
    return int((at_ms - offset_ms) // slide_ms * slide_ms + offset_ms + size_ms)


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
    if any(element["ts"] < case.window["difference_ms"] for element in case.elements()):
        return "D10"
    return "D9" if _forgets_rows(case) else None


def _forgets_rows(case: Case) -> bool:
    """Return whether another system forgets a row that is late for the window that ends with it.

    Kafka Streams keeps such a row only in windows that are there already, and makes later windows
    from those.  So it forgets the row if no window that is there and accepts rows contains it,
    although a later one would.
    """
    reach_ms, lateness_ms = case.window["difference_ms"], case.spec["allowed_lateness_ms"]
    rows = [(str(each["key"]), each["ts"], watermark_ms) for each, watermark_ms in timed(case)]
    for number, (key, at_ms, watermark_ms) in enumerate(rows):
        before = [at for name, at, _ in rows[:number] if name == key]
        ever = [at for name, at, _ in rows if name == key]
        open_ms = watermark_ms - lateness_ms
        if at_ms + 1 > open_ms or any(end > open_ms for end in _ends(at_ms, before, reach_ms)):
            continue
        if any(end > open_ms for end in _ends(at_ms, ever, reach_ms)):
            return True
    return False


def _ends(at_ms: int, rows: Sequence[int], reach_ms: int) -> Iterator[int]:
    """Yield the ends of the record-aligned windows of rows, if they contain ``at_ms``.

    The window that follows a row is there only if it has another row.
    """
    for row in rows:
        if row - reach_ms <= at_ms <= row:
            yield row + 1
        first, last = row + 1, row + 1 + reach_ms
        if first <= at_ms <= last and any(first <= other <= last for other in rows):
            yield last + 1


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
    """Check for Quix's updates, which leave out the collected values."""
    named = case.spec.get("aggregate")
    collects = isinstance(named, list) and "collect" in named
    return (
        "D18" if case.dialect == "quix" and collects and case.emit.startswith("on_update") else None
    )


def _nothing_but_nulls(case: Case) -> str | None:
    """Check for Quix's sum of nothing, which is 0."""
    nulls = all(element.get("value") is None for element in case.elements())
    return (
        "D19" if case.dialect == "quix" and nulls and case.spec.get("aggregate") == "sum" else None
    )


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
    early = composed.get("early")
    if any(set(part) != {"count"} for part in composed.values()):
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
    joins_differ,
    patterns_differ,
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
