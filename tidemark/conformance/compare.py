"""Compare the results that a case expects with the results of a run.

An expected result matches a result if all fields that it states are equal.  Fields that a case does
not state are not compared.  ``native`` is another system's own notation of a bound, and is never
compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.conformance.case import Case, Fields
from tidemark.conformance.parameters import OTHER_COUNTERS

NOT_COMPARED = frozenset({"native"})

_UNORDERED = ("set", "collect_sorted")


@dataclass(frozen=True)
class Difference:
    """The expected results that are missing, and the results that were not expected.

    ``words``: other differences, as text.
    """

    missing: tuple[Fields, ...] = ()
    unexpected: tuple[Fields, ...] = ()
    words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs at all."""
        return bool(self.missing or self.unexpected or self.words)


def compare(case: Case, got: Sequence[Fields], counters: Mapping[str, int]) -> Difference:
    """Return the difference between the results of a case and its expected results."""
    expected = [_plain(case, result) for result in case.expected]
    results = [_plain(case, result) for result in _asserted(case, got)]
    if case.spec.get("assert_final_only"):
        expected, results = _final(expected), _final(results)
    if case.compare == "multiset":
        missing, unexpected = _unmatched(expected, results)
    elif case.compare == "ordered":
        missing, unexpected = _in_order(expected, results)
    else:
        missing, unexpected = _in_order_per_window(expected, results)
    return Difference(tuple(missing), tuple(unexpected), tuple(_counted(case, counters)))


def _asserted(case: Case, got: Sequence[Fields]) -> Iterable[Fields]:
    """Return the results that the case makes a statement about."""
    kinds = {result.get("kind") for result in case.expected}
    silent = {"retract", "timeout"} - kinds
    if not case.spec.get("late_output"):
        silent |= {"late"} - kinds
    first = case.more.get("expect_from", 0)
    return [r for r in got if r.get("kind") not in silent and r.get("after", first) >= first]


def _final(results: Sequence[Fields]) -> list[Fields]:
    """Return the last result with a watermark and the last with a status."""
    last = {name: r for r in results for name in ("watermark", "status") if name in r}
    return list(last.values())


def _plain(case: Case, result: Fields) -> Fields:
    plain = {name: value for name, value in result.items() if name not in NOT_COMPARED}
    if case.spec.get("aggregate") in _UNORDERED and isinstance(plain.get("value"), list):
        plain["value"] = sorted(plain["value"], key=repr)
    return plain


def _holds(expected: Fields, result: Fields) -> bool:
    return all(name in result and result[name] == value for name, value in expected.items())


def _unmatched(
    expected: Sequence[Fields], results: Sequence[Fields]
) -> tuple[list[Fields], list[Fields]]:
    """Match each expected result with one result, those with most fields first; return the rest."""
    left, missing = list(results), []
    for wanted in sorted(expected, key=len, reverse=True):
        found = next((result for result in left if _holds(wanted, result)), None)
        if found is None:
            missing.append(wanted)
        else:
            left.remove(found)
    return missing, left


def _in_order(
    expected: Sequence[Fields], results: Sequence[Fields]
) -> tuple[list[Fields], list[Fields]]:
    missing, unexpected = _unmatched(expected, results)
    if missing or unexpected:
        return missing, unexpected
    for wanted, result in zip(expected, results, strict=True):
        if not _holds(wanted, result):
            return [wanted], [result]
    return [], []


def _in_order_per_window(
    expected: Sequence[Fields], results: Sequence[Fields]
) -> tuple[list[Fields], list[Fields]]:
    missing: list[Fields] = []
    unexpected: list[Fields] = []
    for window in dict.fromkeys(map(_window, (*expected, *results))):
        less, more = _in_order(
            [wanted for wanted in expected if _window(wanted) == window],
            [result for result in results if _window(result) == window],
        )
        missing += less
        unexpected += more
    return missing, unexpected


def _window(result: Fields) -> tuple[Any, ...]:
    return tuple(result.get(name) for name in ("key", "start", "end"))


def _counted(case: Case, counters: Mapping[str, int]) -> Iterable[str]:
    """Yield differences of counters, except those of OTHER_COUNTERS."""
    for name, wanted in case.more.get("counters", {}).items():
        if name not in OTHER_COUNTERS and counters.get(name) != wanted:
            yield f"{name}: expected {wanted}, got {counters.get(name)}"
