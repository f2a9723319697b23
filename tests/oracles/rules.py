"""Rules as slow Python, from docs/semantics.md, "Rules".

Every version and every row is kept for ever.  Each rule is looked at in each of its periods, with
the oracle of patterns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from tests.oracles.aligned import LateRow
from tests.oracles.clock import Judged, Table, heard
from tests.oracles.pattern import Found, Key, PatternRules, Result
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS, Segment


@dataclass(frozen=True)
class RulesRules:
    """Rows of a topic, and rules of a topic; ``text``: of a value, None if the row is refused.

    ``patterns``: by text; a text without one deletes the rule.
    """

    left: str
    right: str
    text: Callable[[int | None], str | None]
    patterns: Mapping[str, PatternRules]
    keep_ms: int
    by_arrival: bool


class Version(NamedTuple):
    rank: tuple[int, str, int, int]
    from_ms: int
    until_ms: int
    text: str


@dataclass
class RulesFound:
    """What a log gives; ``ended``: first rows of partial matches that their rule's end drops."""

    matches: list[tuple[str, Result]] = field(default_factory=list)
    timeouts: list[tuple[str, Result]] = field(default_factory=list)
    refused: list[tuple[str, int, int]] = field(default_factory=list)
    ended: list[tuple[str, int, int, str]] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)
    late_rules: list[LateRow] = field(default_factory=list)
    dead: list[tuple[str, int, int]] = field(default_factory=list)


class Period(NamedTuple):
    from_ms: int
    until_ms: int
    text: str | None


def run_rules(segments: Sequence[Segment], rules: RulesRules) -> RulesFound:
    found = RulesFound()
    rows: dict[str | None, list[Judged]] = {}
    versions: dict[str, list[Version]] = {}
    table = Table(sorted({rules.left, rules.right}))
    clock_ms = NEVER_MS
    for step in heard(segments, table):
        for row in step.rows:
            topic = row.source.rpartition("/")[0]
            if topic == rules.left:
                if row.at_ms < row.w_ms:
                    by_ms = row.w_ms - row.at_ms - 1
                    found.late.append(LateRow(row, row.at_ms, row.at_ms + 1, by_ms))
                else:
                    rows.setdefault(row.key, []).append(row)
            if topic == rules.right:
                _take_rule(row, rules, clock_ms, versions, found)
        clock_ms = step.clock
    for each in rows.values():
        each.sort(key=lambda row: (row.at_ms, row.source, row.offset, row.sub_row))
        for name, of_rule in versions.items():
            _run_key(name, periods(of_rule, rules), each, rules, found)
    return found


def _take_rule(
    row: Judged,
    rules: RulesRules,
    clock_ms: int,
    versions: dict[str, list[Version]],
    found: RulesFound,
) -> None:
    place = (row.source, row.offset, row.sub_row)
    at_ms, from_ms, until_ms = row.at_ms, max(row.at_ms, row.w_ms), row.at_ms + rules.keep_ms + 1
    if rules.by_arrival:
        at_ms, from_ms, until_ms = clock_ms, clock_ms, FOREVER_MS
    elif until_ms <= row.w_ms:
        late = LateRow(row, row.at_ms, until_ms, row.w_ms - until_ms)
        found.late_rules.append(late)
        return
    text = rules.text(row.value)
    if text is None or (row.key is None and text in rules.patterns):
        found.dead.append(place)
    elif row.key is not None:
        version = Version((at_ms, *place), from_ms, until_ms, text)
        versions.setdefault(row.key, []).append(version)


def periods(versions: Sequence[Version], rules: RulesRules) -> list[Period]:
    """Return what a rule says over all time, None where it says nothing."""
    edges = sorted(
        {NEVER_MS, FOREVER_MS}
        | {each.from_ms for each in versions}
        | {each.until_ms for each in versions}
    )
    found = []
    for edge in edges[:-1]:
        known = [each for each in versions if each.from_ms <= edge]
        best = max(known, default=None)
        visible = best is not None and edge < best.until_ms and best.text in rules.patterns
        found.append((edge, best.text if best is not None and visible else None))
    joined = []
    for text, each in groupby(found, key=lambda one: one[1]):
        joined.append((next(each)[0], text))
    starts = [start for start, _ in joined]
    return [
        Period(start, end, text)
        for (start, text), end in zip(joined, [*starts[1:], FOREVER_MS], strict=True)
    ]


def _run_key(
    name: str,
    of_rule: Sequence[Period],
    rows: Sequence[Judged],
    rules: RulesRules,
    found: RulesFound,
) -> None:
    for number, period in enumerate(of_rule):
        own = [row for row in rows if period.from_ms <= row.at_ms < period.until_ms]
        if period.text is None or not own:
            continue
        key, made = Key(rules.patterns[period.text], own), Found()
        key.begin, key.gone = 0, set()
        for at, row in enumerate(own):
            key.time_passes(row.at_ms, made)
            key.emit([t for t in key.sequences if key.decided_by(t) == at], at, made)
            key.limit(at, made)
        key.time_passes(period.until_ms, made)
        found.matches += [(name, each) for each in made.matches]
        found.timeouts += [(name, each) for each in made.timeouts]
        found.refused += made.refused
        followed = number + 1 < len(of_rule) and of_rule[number + 1].text is not None
        reason = f"rule {name} {'changed' if followed else 'ended'}"
        firsts = {
            taken[0][0]
            for taken in key.sequences
            if taken not in key.gone
            and taken[0][0] >= key.begin
            and key.decided_by(taken) in (None, key.stop(taken))
            and key.is_open(taken, len(own) - 1)
        }
        for first in firsts:
            row = own[first]
            found.ended.append((row.source, row.offset, row.sub_row, reason))
