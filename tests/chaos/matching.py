"""Patterns of the chaos runs: matches, timeouts and absences of the rows of a person."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidemark import absence, col, sequence, step
from tidemark.language.keyed import KeyedStream


class Pattern(NamedTuple):
    """A row with a value below ``low``, then one of ``high`` or more, in less than a time."""

    low: int
    high: int
    within_ms: int


def patterns_of(patterns: Sequence[Any]) -> list[Pattern]:
    """Return patterns that may have been JSON."""
    return [Pattern._make(each) for each in patterns]


def output_names(number: int) -> tuple[str, str, str]:
    """Return the names of the outputs of a pattern: matches, timeouts, and absences of low rows."""
    return f"match-{number}", f"match-{number}-timeouts", f"absence-{number}"


def publish_matches(rows: KeyedStream, patterns: Sequence[Any]) -> None:
    """End a stream with the outputs of patterns."""
    for number, each in enumerate(patterns_of(patterns)):
        matches, timeouts, absences = output_names(number)
        low, within = col("value") < each.low, f"{each.within_ms}ms"
        pattern = sequence(low=step(low), high=step(col("value") >= each.high)).within(within)
        found = rows.match(pattern).select(low="low.value", high="high.value")
        found.to(matches)
        found.timeouts.to(timeouts)
        rows.match(absence(of=low, for_=within)).select(last="of.value").to(absences)
