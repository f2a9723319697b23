"""Keyed state of rules: their versions, rows that wait, and the partial matches of each rule."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import polars as pl

from tidemark.core.operators.joins.broadcast.state import BroadcastState
from tidemark.core.operators.joins.versions import Versions
from tidemark.core.operators.operator import Changes
from tidemark.core.operators.paired_state import PairedState
from tidemark.core.operators.patterns.rules.matcher import Matcher
from tidemark.core.operators.patterns.rules.matchers import Matchers
from tidemark.core.operators.patterns.state import Matching
from tidemark.core.operators.waiting_rows import WaitingRows
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds

BEGUN, ENDED = "rules", "ended-rules"
"""Frames of changes: rules that count, and the numbers of those that count no more.

All other frames are of the partial matches of a rule: ``NUMBER.NAME``.  Changelogs store the names,
so their values never change.
"""

_NUMBER, _RULE, _TEXT = "@number", "@rule", "@text"


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A rule with the text that counts, and its partial matches; ``number``: names its state."""

    number: int
    rule: Any
    text: str
    matcher: Matcher
    matching: Matching


class ActiveRules:
    """The rules that count, each with its partial matches."""

    def __init__(
        self,
        rule: pl.DataType,
        matchers: Matchers,
        matching: Callable[[Matcher], Matching],
    ) -> None:
        """Start empty.

        ``rule``: the type of the names of rules.  ``matchers``: of texts.  ``matching``: empty.
        """
        self._schema = {_NUMBER: pl.Int64(), _RULE: rule, _TEXT: pl.String()}
        self.matchers = matchers
        self._matching = matching
        self._rules: dict[int, ActiveRule] = {}
        self._next = 0
        self._begun: set[int] = set()
        self._ended: list[int] = []
        self._unknown: list[tuple[int, Changes]] = []  # of rules that a later piece names

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self._rules)

    def by_rule(self) -> Mapping[Any, ActiveRule]:
        """Return the rules by their names."""
        return {each.rule: each for each in self._rules.values()}

    def begin(self, rule: Any, text: str) -> ActiveRule:
        """Return a rule that begins to count."""
        found = self._add(self._next, rule, text)
        self._begun.add(found.number)
        return found

    def _add(self, number: int, rule: Any, text: str) -> ActiveRule:
        matcher = self.matchers.of(text)
        found = ActiveRule(number, rule, text, matcher, self._matching(matcher))
        self._rules[number] = found
        self._next = max(self._next, number + 1)
        return found

    def end(self, rule: ActiveRule) -> None:
        """Let a rule count no more; its partial matches go."""
        del self._rules[rule.number]
        if rule.number in self._begun:
            self._begun.remove(rule.number)
        else:
            self._ended.append(rule.number)

    def open_windows(self) -> int:
        """Return the number of pairs of a rule and a key with partial matches."""
        return sum(each.matching.open_windows() for each in self._rules.values())

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of the partial matches of all rules."""
        # Most of many rules have none, and each would cost an array.
        found = (each.matching for each in self._rules.values() if each.matching.open_windows())
        return chain.from_iterable(matching.open_bounds() for matching in found)

    def _frame(self, rules: list[ActiveRule]) -> pl.DataFrame:
        lines = [(each.number, each.rule, each.text) for each in rules]
        return pl.DataFrame(lines, schema=self._schema, orient="row")

    def changes(self) -> Changes:
        """Return, once, the changes since the last call."""
        made: dict[str, pl.DataFrame] = {}
        if self._ended:
            made[ENDED] = pl.DataFrame({_NUMBER: self._ended})
        if self._begun:
            made[BEGUN] = self._frame([self._rules[number] for number in sorted(self._begun)])
        self._begun, self._ended = set(), []
        for number, each in self._rules.items():
            made |= _named(number, each.matching.changes())
        return made

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces."""
        rules = [*self._rules.values()]
        of_rules = [(each.number, each.matching.snapshot()) for each in rules]
        own: list[Changes] = [{BEGUN: self._frame(rules)}] if rules else []
        parts = (_named(number, piece) for number, pieces in of_rules for piece in pieces)
        return chain(own, parts)

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        texts = sum(len(each.text) for each in self._rules.values())
        return texts + sum(each.matching.size_bytes() for each in self._rules.values())

    def apply(self, changes: Changes) -> None:
        """Apply one piece; pieces of a snapshot come in any order."""
        if ENDED in changes:
            for number in changes[ENDED][_NUMBER]:
                del self._rules[number]
        if BEGUN in changes:
            for line in changes[BEGUN].select(self._schema.keys()).iter_rows():
                self._add(*line)
        for name, frame in changes.items():
            number, dot, part = name.partition(".")
            if dot:
                self._unknown.append((int(number), {part: frame}))
        known = [each for each in self._unknown if each[0] in self._rules]
        self._unknown = [each for each in self._unknown if each[0] not in self._rules]
        for number, piece in _merged(known).items():
            self._rules[number].matching.apply(piece)

    def purge(self, clock_ms: int) -> None:
        """Drop the state that no row can reach."""
        for each in self._rules.values():
            each.matching.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self._unknown, "partial matches of a rule that does not count"
        assert len(self.by_rule()) == len(self._rules), "a rule counts twice"
        for each in self._rules.values():
            each.matching.validate()


def _named(number: int, changes: Changes) -> dict[str, pl.DataFrame]:
    """Return the frames of a rule's partial matches by their names in the state."""
    return {f"{number}.{name}": frame for name, frame in changes.items()}


def _merged(parts: list[tuple[int, Changes]]) -> Mapping[int, Changes]:
    """Return the frames of each rule as one piece."""
    found: dict[int, dict[str, pl.DataFrame]] = {}
    for number, piece in parts:
        own = found.setdefault(number, {})
        for name, frame in piece.items():
            own[name] = pl.concat([own[name], frame], how="diagonal") if name in own else frame
    return found


class RuleState(PairedState):
    """The versions of rules with the rows that wait, and the rules that count.

    ``clock_ms``: before the segment in progress, for rules that count on arrival; no part of the
    state.
    """

    def __init__(self, versions: Versions, waiting: WaitingRows, rules: ActiveRules) -> None:
        """Start with empty parts."""
        self._table = BroadcastState(versions, waiting)
        self.rules = rules
        self.clock_ms = NEVER_MS

    @property
    def versions(self) -> Versions:
        """The versions of rules."""
        return self._table.versions

    @property
    def waiting(self) -> WaitingRows:
        """The rows that wait for the clock."""
        return self._table.waiting

    @property
    def _parts(self) -> tuple[BroadcastState, ActiveRules]:
        return self._table, self.rules

    def open_windows(self) -> int:
        """Return the number of versions, of rows that wait, and of keys with partial matches."""
        return self._table.open_windows() + self.rules.open_windows()

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the event times of rows that wait, and the bounds of partial matches."""
        return chain(self._table.open_bounds(), self.rules.open_bounds())

    def pending(self) -> bool:
        """Whether rows wait, or partial matches whose time ends."""
        return len(self.waiting) > 0 or self.rules.open_windows() > 0
