"""Whether patterns of a run find what plain Python finds in the rows of the raw records."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.chaos.judging.chains import Log, operator_of
from tests.chaos.judging.joins import differing
from tests.chaos.judging.log_rows import rows_of_input
from tests.chaos.matching import Pattern, output_names, patterns_of
from tests.chaos.pipelines import END
from tests.chaos.recorded import Recorded
from tests.oracles.clock import Judged
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.testing.in_process import decoded

Place = tuple[str, int, int]
Matched = tuple[str, tuple[Place, ...], int]
"""The key, the rows in order, and the time of a result."""


class Found(NamedTuple):
    """The results of a pattern."""

    matches: list[Matched]
    timeouts: list[Matched]
    absences: list[Matched]


def found_in(pattern: Pattern, key: str, rows: Sequence[Judged]) -> Found:
    """Return what a pattern finds in the rows of a key that are not late."""
    found, open_rows, last = Found([], [], []), list[Judged](), None
    in_order = sorted(rows, key=lambda row: (row.at_ms, row.source, row.offset, row.sub_row))
    for row in in_order:
        while open_rows and open_rows[0].at_ms + pattern.within_ms <= row.at_ms:
            found.timeouts.append(_timed(key, open_rows.pop(0), pattern))
        value = _value(row)
        if value >= pattern.high and open_rows:
            found.matches.append((key, (_place(open_rows[0]), _place(row)), row.at_ms))
            open_rows = []
        if value < pattern.low:
            if last is not None and last.at_ms + pattern.within_ms <= row.at_ms:
                found.absences.append(_timed(key, last, pattern))
            open_rows.append(row)
            last = row
    found.timeouts.extend(_timed(key, row, pattern) for row in open_rows)
    if last is not None:
        found.absences.append(_timed(key, last, pattern))
    return found


def _timed(key: str, row: Judged, pattern: Pattern) -> Matched:
    return key, (_place(row),), row.at_ms + pattern.within_ms - 1


def _place(row: Judged) -> Place:
    return row.source, row.offset, row.sub_row


def _value(row: Judged) -> int:
    assert row.value is not None, f"{row} has no value"
    return row.value


def pattern_differences(
    plan: Plan, patterns: Sequence[Any], wanted: Mapping[str, Log], recorded: Recorded
) -> Iterator[str]:
    """Yield what differs in results and late rows; ``patterns``: as ``build`` takes them."""
    for number, pattern in enumerate(patterns_of(patterns)):
        outputs = [operator_of(plan, name) for name in output_names(number)]
        (name,) = {each.name for operator in outputs for each in operator.operator.inputs}
        rows = rows_of_input(outputs[0], name, wanted[outputs[0].log])
        timely = [row for row in rows if row.at_ms >= row.w_ms]
        late = Counter(_place(row) for row in rows if row.at_ms < row.w_ms)
        of_keys = [
            found_in(pattern, key, [row for row in timely if row.key == key])
            for key in {row.key or "" for row in timely}
        ]
        for place, operator in enumerate(outputs):
            results = Counter(each for found in of_keys for each in found[place])
            yield from differing(operator.results.topic, _results(operator, recorded), results)
            late_topic = operator.port("late").topic
            yield from differing(late_topic, _late(operator, recorded), late)


def _results(plan: OperatorPlan, recorded: Recorded) -> Counter[Matched]:
    return Counter(
        (row["key"], tuple(map(_shown_place, row["_rows"])), row["_event_time_ms"])
        for row in _decoded(plan, plan.results.port.name, recorded)
        if row["key"] != END
    )


def _late(plan: OperatorPlan, recorded: Recorded) -> Counter[Place]:
    return Counter(map(_shown_place, _decoded(plan, "late", recorded)))


def _shown_place(row: Mapping[str, Any]) -> Place:
    return f"{row['topic']}/{row['partition']}", row["offset"], row["sub_row"]


def _decoded(plan: OperatorPlan, port: str, recorded: Recorded) -> list[dict[str, Any]]:
    each = plan.port(port)
    return decoded(encoder_of(each), recorded.values(each.topic))
