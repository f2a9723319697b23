"""The rows and timers of one key through the automaton of a pattern.

See docs/semantics.md, "Patterns".  It goes row by row, over few rows: those that a partial match
may take, or that end one.
"""

from collections.abc import Container, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemark.core.operators.patterns.automaton import Automaton, Question, Row
from tidemark.core.operators.patterns.findings import MATCH, REFUSED, TIMEOUT
from tidemark.core.operators.patterns.partial import Partial, Refs, place_of
from tidemark.core.time.segment import FOREVER_MS


class Found(NamedTuple):
    """A finding of a key: the fields are as those of ``Findings``."""

    kind: int
    at_ms: int
    is_timer: bool
    place: int
    number: int
    refs: Refs


Run = Generator[Sequence[Question], Sequence[bool], None]


@dataclass
class KeyRun:
    """The partial matches of one key, and the results of its rows and timers."""

    automaton: Automaton
    partials: list[Partial]
    found: list[Found] = field(default_factory=list)
    _due_ms: int = FOREVER_MS  # no partial match is over before

    def __post_init__(self) -> None:
        """Note when the first partial match is over."""
        self._due_ms = self._first_due_ms()

    def _first_due_ms(self) -> int:
        if not self.partials:
            return FOREVER_MS
        return min(each.first_ms for each in self.partials) + self.automaton.pattern.within_ms

    def run(self, rows: Iterable[Row], until_ms: int) -> Run:
        """Take rows in order, with the timers between them, then the timers before a time.

        Yields questions and takes the answers.
        """
        asks = self.automaton.asks
        for row in rows:
            if self._due_ms <= row.at_ms:
                self._time_passes(row.at_ms)
            holds: Container[Question] = ()
            if asks and (asked := self._questions(row)):
                answers = yield asked
                holds = {each for each, is_true in zip(asked, answers, strict=True) if is_true}
            self._take(row, holds)
        if self._due_ms <= until_ms:
            self._time_passes(until_ms)

    def _questions(self, row: Row) -> list[Question]:
        asked = [each for some in self.partials for each in self.automaton.questions(some, row)]
        return asked + self.automaton.first_questions(row)

    def _take(self, row: Row, holds: Container[Question]) -> None:
        """Let each partial match, and a new one, take the row where they can."""
        automaton, bits = self.automaton, row.bits
        kept, changed = list[Partial](), list[Partial]()
        for each in self.partials:
            stage = automaton.stages[each.stage]
            if stage.is_next or bits & stage.wakes:
                changed += automaton.moved(each, row, holds)
            else:
                kept.append(each)
        if bits & automaton.starting:
            changed += automaton.begun(row, holds)
            self._due_ms = min(self._due_ms, row.at_ms + automaton.pattern.within_ms)
        complete = []
        for each in changed:
            left = each
            if automaton.is_complete(each):
                complete.append(each.refs)
                closed = each.closed | automaton.end | automaton.complete
                left = each.with_closed(closed)
            if automaton.is_open(left):
                kept.append(left)
        self.partials = kept
        if complete:
            self._publish(row, sorted(complete))
        if len(kept) > automaton.max_partial:
            self._limit(row)

    def _publish(self, row: Row, complete: Sequence[Refs]) -> None:
        """Add the matches that a row completes, as far as skips let them begin."""
        begin = 0
        for refs in complete:
            if place_of(refs[0]) >= begin:
                self._add(row.at_ms, row.place, MATCH, refs)
                begin = max(begin, self.automaton.may_begin_from(refs))
        self._drop_before(begin)

    def _time_passes(self, until_ms: int) -> None:
        """End the partial matches whose time is over before ``until_ms``."""
        automaton, within_ms = self.automaton, self.automaton.pattern.within_ms
        due = [each for each in self.partials if each.first_ms + within_ms <= until_ms]
        self.partials = [each for each in self.partials if each.first_ms + within_ms > until_ms]
        begin = 0
        for each in sorted(due, key=lambda each: each.refs):
            at_ms = each.first_ms + within_ms - 1
            if each.first < begin:
                continue
            if automaton.is_match_in_the_end(each):
                self._add(at_ms, each.first, MATCH, each.refs, is_timer=True)
                begin = max(begin, automaton.may_begin_from(each.refs))
            elif not each.closed & automaton.complete:
                self._add(at_ms, each.first, TIMEOUT, each.refs, is_timer=True)
        self._drop_before(begin)
        self._due_ms = self._first_due_ms()

    def _add(
        self, at_ms: int, place: int, kind: int, refs: Refs, *, is_timer: bool = False
    ) -> None:
        self.found.append(Found(kind, at_ms, is_timer, place, len(self.found), refs))

    def _drop_before(self, begin: int) -> None:
        """Drop the partial matches that begin before a place."""
        if begin:
            self.partials = [each for each in self.partials if each.first >= begin]

    def _limit(self, row: Row) -> None:
        """Refuse the oldest first rows while there are too many partial matches."""
        while len(self.partials) > self.automaton.max_partial:
            oldest = min(self.partials, key=lambda each: each.first)
            self._add(row.at_ms, row.place, REFUSED, oldest.refs[:1])
            self._drop_before(oldest.first + 1)
