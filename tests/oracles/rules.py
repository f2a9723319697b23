"""Rules as slow Python, from docs/semantics.md, "Rules".

Every version and every row is kept for ever.  Each rule is looked at in each of its periods, with
the oracle of patterns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from tests.oracles.aligned import LateRow, late_of
from tests.oracles.clock import Judged, RowId, Table, by_time, heard, row_id
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
    rank: tuple[int, RowId]
    from_ms: int
    until_ms: int
    text: str


@dataclass
class RulesFound:
    """What a log gives; ``ended``: first rows of partial matches that their rule's end drops."""

    matches: list[tuple[str, Result]] = field(default_factory=list)
    timeouts: list[tuple[str, Result]] = field(default_factory=list)
    refused: list[RowId] = field(default_factory=list)
    ended: list[tuple[str, int, int, str]] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)
    late_rules: list[LateRow] = field(default_factory=list)
    dead: list[RowId] = field(default_factory=list)


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
                    found.late.append(late_of(row, row.at_ms + 1))
                else:
                    rows.setdefault(row.key, []).append(row)
            if topic == rules.right:
                _take_rule(row, rules, clock_ms, versions, found)
        clock_ms = step.clock
    for each in rows.values():
        each.sort(key=by_time)
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
    at_ms, from_ms, until_ms = row.at_ms, max(row.at_ms, row.w_ms), row.at_ms + rules.keep_ms + 1
    if rules.by_arrival:
        at_ms, from_ms, until_ms = clock_ms, clock_ms, FOREVER_MS
    elif until_ms <= row.w_ms:
        found.late_rules.append(late_of(row, until_ms))
        return
    text = rules.text(row.value)
    if text is None or (row.key is None and text in rules.patterns):
        found.dead.append(row_id(row))
    elif row.key is not None:
        version = Version((at_ms, row_id(row)), from_ms, until_ms, text)
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
    begins = [next(each) for _, each in groupby(found, key=itemgetter(1))]
    ends = [*(begin_ms for begin_ms, _ in begins[1:]), FOREVER_MS]
    return [
        Period(begin_ms, end_ms, text)
        for (begin_ms, text), end_ms in zip(begins, ends, strict=True)
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
        key.run(made, period.until_ms)
        found.matches += [(name, each) for each in made.matches]
        found.timeouts += [(name, each) for each in made.timeouts]
        found.refused += made.refused
        followed = number + 1 < len(of_rule) and of_rule[number + 1].text is not None
        reason = f"rule {name} {'changed' if followed else 'ended'}"
        found.ended += [(*row_id(own[first]), reason) for first in key.open_rows()]
