"""Find session cases whose result depends on how a system decides lateness (D6).

Session cases run with ``lateness="after_merging"``: a row counts if its session after merging, with
visible sessions only, is not late.
Kafka Streams also merges with sessions past their time as long as its store has them.  Spark and
Beam decide by the row's own gap, whatever session it would join.  A model of the sessions, row by
row, finds the cases that differ.
"""

from collections.abc import Iterator

from tidemark.conformance.case import Case, Fields
from tidemark.core.time.segment import NEVER_MS

Span = tuple[int, int]


def lateness_differs(case: Case) -> bool:
    """Return whether the two rules accept or merge some row of the case differently."""
    if case.window["type"] != "session" or case.spec.get("allowed_lateness_ms") == "unbounded":
        return False
    keeps_past = case.dialect == "kafka-streams"
    by_own_gap = case.dialect in ("spark", "beam")
    lateness_ms = int(case.spec.get("allowed_lateness_ms", 0))
    sessions: dict[str, list[Span]] = {}
    for element, watermark_ms in timed(case):
        own = (element["ts"], element["ts"] + _gap_ms(case, element))
        mine = sessions.setdefault(str(element["key"]), [])
        reach_ms = watermark_ms - lateness_ms if watermark_ms > NEVER_MS else NEVER_MS
        touched = [span for span in mine if span[0] < own[1] and own[0] < span[1]]
        visible = [span for span in touched if span[1] > reach_ms]
        if keeps_past and len(visible) < len(touched) and _merged(own, touched)[1] > reach_ms:
            return True
        merged = _merged(own, visible)
        if by_own_gap and own[1] <= reach_ms < merged[1]:
            return True
        if merged[1] > reach_ms:
            mine[:] = [span for span in mine if span not in visible] + [merged]
    return False


def keeps_start(case: Case) -> bool:
    """Return whether some row joins a session of its key and leaves its start as it is (D14)."""
    if case.window["type"] != "session":
        return False
    sessions: dict[str, list[Span]] = {}
    for element in case.elements():
        own = (element["ts"], element["ts"] + _gap_ms(case, element))
        mine = sessions.setdefault(str(element["key"]), [])
        touched = [span for span in mine if span[0] < own[1] and own[0] < span[1]]
        merged = _merged(own, touched)
        if any(span[0] == merged[0] for span in touched):
            return True
        mine[:] = [span for span in mine if span not in touched] + [merged]
    return False


def _merged(own: Span, spans: list[Span]) -> Span:
    return min(span[0] for span in (own, *spans)), max(span[1] for span in (own, *spans))


def _gap_ms(case: Case, element: Fields) -> int:
    return int(element["gap_ms"] if "gap_ms" in element else case.window["gap_ms"])


def timed(case: Case) -> Iterator[tuple[Fields, int]]:
    """Yield each element with the watermark that decides whether it is late."""
    kind, delay_ms = case.watermark["type"], case.watermark.get("delay_ms", 0)
    watermark_ms = seen_ms = NEVER_MS
    for item in case.input:
        for element in item.get("bundle", [item] if "ts" in item else []):
            seen_ms = max(seen_ms, element["ts"])
            if kind == "stream_time":
                watermark_ms = max(watermark_ms, seen_ms - delay_ms)
            yield element, watermark_ms
        if kind == "batch_delay" and "end_batch" in item:
            watermark_ms = max(watermark_ms, seen_ms - delay_ms)
        elif "watermark" in item:
            watermark_ms = 2**62 if item["watermark"] == "+inf" else item["watermark"]
