"""Find cases of joins whose result depends on a rule that other systems have.

A model of the join, row by row, finds the cases that differ.
"""

from collections.abc import Iterator

from tidemark.conformance.case import Case, Fields
from tidemark.conformance.feed import stated_ms
from tidemark.conformance.joins import bounds_ms, kind_of, sources_of
from tidemark.core.time.segment import NEVER_MS
from tidemark.plan.logical import SIDES


def joins_differ(case: Case) -> str | None:
    """Return the rule by which a join of the case differs, a key of RULES."""
    if "join" not in case.spec or case.spec["join"]["type"] == "asof":
        return None
    if case.emit == "state":
        return "join state"
    if "unmatched_on_arrival" in case.emit or _is_dated_later(case):
        return "D13"
    return "join lateness" if _is_late_here_alone(case) else None


def _is_dated_later(case: Case) -> bool:
    """Return whether an unmatched row comes that has the time of a last partner, not its own."""
    lower_ms, upper_ms = bounds_ms(case)
    shown = {"left": SIDES[:1], "full": SIDES}.get(kind_of(case), ())
    reach_ms = {"left": upper_ms, "right": -lower_ms}
    *_, (_, clock_ms) = _timed(case)
    return any(
        reach_ms[row["side"]] > 0
        and row["ts"] + reach_ms[row["side"]] + case.spec["allowed_lateness_ms"] < clock_ms
        and not any(_pair(case, row, other) for other in case.elements())
        for row in case.elements()
        if row["side"] in shown
    )


def _is_late_here_alone(case: Case) -> bool:
    """Return whether a row is late here that another system takes.

    Flink takes a row whose time is 1 ms before its watermark here.  Kafka Streams takes a row while
    a partner of it may come.
    """
    lateness_ms = case.spec["allowed_lateness_ms"]
    late_by_ms = [
        watermark_ms - item["ts"] - lateness_ms
        for item, watermark_ms in _timed(case)
        if "ts" in item
    ]
    if case.watermark["type"] == "stream_time":
        return any(by_ms > 0 for by_ms in late_by_ms)
    return 1 in late_by_ms


def _pair(case: Case, row: Fields, other: Fields) -> bool:
    if row["side"] == other["side"] or row["key"] != other["key"]:
        return False
    left, right = (row, other) if row["side"] == "left" else (other, row)
    lower_ms, upper_ms = bounds_ms(case)
    return bool(left["ts"] + lower_ms <= right["ts"] <= left["ts"] + upper_ms)


def _timed(case: Case) -> Iterator[tuple[Fields, int]]:
    """Yield each item with the watermark of its source before it; at the end, with the clock."""
    topics = sources_of(case)
    watermarks_ms = dict.fromkeys(topics.values(), NEVER_MS)
    for item in case.input:
        if "side" not in item:
            continue
        topic = topics[item["side"]]
        yield item, watermarks_ms[topic]
        if "watermark" in item:
            watermarks_ms[topic] = stated_ms(item)
        elif case.watermark["type"] == "stream_time":
            watermarks_ms[topic] = max(watermarks_ms[topic], item["ts"])
    yield {}, min(watermarks_ms.values())
