"""Whether patterns of a run find what plain Python finds in the rows of the raw records."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.chaos.judging.chains import Log, operator_of
from tests.chaos.judging.rows import differing, published_id, rows_of_input, rows_published
from tests.chaos.matching import Pattern, output_names, patterns_of
from tests.chaos.pipelines import END
from tests.chaos.recorded import Recorded
from tests.oracles.clock import Judged, RowId, by_time, row_id
from tidemark.plan.physical import OperatorPlan, Plan

Matched = tuple[str | None, tuple[RowId, ...], int]
"""The key, the rows in order, and the time of a result."""


class Found(NamedTuple):
    """The results of a pattern."""

    matches: list[Matched]
    timeouts: list[Matched]
    absences: list[Matched]


def found_in(pattern: Pattern, key: str | None, rows: Sequence[Judged]) -> Found:
    """Return what a pattern finds in the rows of a key that are not late."""
    found, open_rows, last = Found([], [], []), list[Judged](), None
    for row in sorted(rows, key=by_time):
        while open_rows and open_rows[0].at_ms + pattern.within_ms <= row.at_ms:
            found.timeouts.append(_timed(key, open_rows.pop(0), pattern))
        value = _value(row)
        if value >= pattern.high and open_rows:
            found.matches.append((key, (row_id(open_rows[0]), row_id(row)), row.at_ms))
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


def _timed(key: str | None, row: Judged, pattern: Pattern) -> Matched:
    return key, (row_id(row),), row.at_ms + pattern.within_ms - 1


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
        late = Counter(row_id(row) for row in rows if row.at_ms < row.w_ms)
        of_keys = [
            found_in(pattern, key, [row for row in timely if row.key == key])
            for key in {row.key for row in timely}
        ]
        for place, operator in enumerate(outputs):
            results = Counter(each for found in of_keys for each in found[place])
            yield from differing(operator.results.topic, _results(operator, recorded), results)
            port = operator.port("late")
            got = Counter(map(published_id, rows_published(port, recorded)))
            yield from differing(port.topic, got, late)


def _results(plan: OperatorPlan, recorded: Recorded) -> Counter[Matched]:
    return Counter(
        (row["key"], tuple(map(published_id, row["_rows"])), row["_event_time_ms"])
        for row in rows_published(plan.results, recorded)
        if row["key"] != END
    )
