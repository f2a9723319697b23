"""The rows and timers of one key through the automaton of a pattern.

See docs/semantics.md, "Patterns".  It goes row by row, over few rows: those that a partial match
may take, or that end one.
"""

from collections.abc import Generator, Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from tidemark.core.operators.patterns.automaton import NOT_TAKEN, Automaton, Moves
from tidemark.core.operators.patterns.findings import MATCH, REFUSED, TIMEOUT
from tidemark.core.operators.patterns.near import NearAnswers
from tidemark.core.operators.patterns.partial import Partial, Refs, place_of, ref_of
from tidemark.core.time.segment import FOREVER_MS


class Found(NamedTuple):
    """A finding of a key: the fields are as those of ``Findings``."""

    kind: int
    at_ms: int
    is_timer: bool
    place: int
    number: int
    refs: Refs


class Question(NamedTuple):
    """Whether the condition ``on`` of a step holds for a row and the rows of a partial match."""

    step: int
    place: int
    refs: Refs


Row = tuple[int, int, int]
"""A row: its place, its time, and a bit for each condition that it fulfils."""

Run = Generator[Sequence[Question], Sequence[bool], None]


class KeyRun:
    """The partial matches of one key, and the results of its rows and timers."""

    __slots__ = ("_due_ms", "automaton", "found", "near", "partials", "within_ms")

    def __init__(self, automaton: Automaton, partials: list[Partial], near: NearAnswers) -> None:
        """Start with the partial matches of the state; ``near``: answers that are known."""
        self.automaton = automaton
        self.near = near
        self.partials = partials
        self.found: list[Found] = []
        self.within_ms = automaton.pattern.within_ms
        self._due_ms = self._first_due_ms()  # no partial match is over before

    def _first_due_ms(self) -> int:
        if not self.partials:
            return FOREVER_MS
        return min(first_ms for first_ms, _, _, _ in self.partials) + self.within_ms

    def run(self, rows: Iterable[Row], until_ms: int) -> Run:
        """Take rows in order, with the timers between them, then the timers before a time.

        Yields questions and takes the answers.
        """
        for row in rows:
            if self._due_ms <= row[1]:
                self._time_passes(row[1])
            holds: Iterable[int] = repeat(0)
            if self.automaton.asks:
                holds = yield from self._asked(row)
            self._take(row, holds)
        if self._due_ms <= until_ms:
            self._time_passes(until_ms)

    def _asked(self, row: Row) -> Generator[Sequence[Question], Sequence[bool], Sequence[int]]:
        """Return the bits of the steps that hold, for each partial match, then for a new one."""
        (place, _, bits), automaton, near = row, self.automaton, self.near
        steps = [automaton.asked(stage, closed, bits) for _, closed, stage, _ in self.partials]
        steps.append(automaton.first_asked(bits))
        of_each = [*(refs for _, _, _, refs in self.partials), ()]
        holds, asked, asks = [0] * len(steps), list[Question](), list[int]()
        for at, (some, refs) in enumerate(zip(steps, of_each, strict=True)):
            for step in some:
                known = near.answer(step, place, refs)
                if known is None:
                    asked.append(Question(step, place, refs))
                    asks.append(at)
                elif known:
                    holds[at] |= 1 << step
        if asked:
            answers = yield asked
            for at, question, answer in zip(asks, asked, answers, strict=True):
                holds[at] |= answer << question.step
        return holds

    def _take(self, row: Row, holds: Iterable[int]) -> None:
        """Let each partial match, and a new one, take the row where they can."""
        (place, at_ms, bits), automaton = row, self.automaton
        stages, of_each, complete = automaton.stages, iter(holds), list[Refs]()
        before, self.partials = self.partials, []
        for each, held in zip(before, of_each, strict=False):
            first_ms, closed, number, refs = each
            stage = stages[number]
            wakes = bits & stage.wakes
            if wakes or stage.is_next:
                moves = automaton.moves(number, closed, wakes, held)
                self._follow(moves, first_ms, place, refs, complete)
            else:
                self.partials.append(each)
        if bits & automaton.starting:
            self._follow(automaton.begins(bits, next(of_each)), at_ms, place, (), complete)
            self._due_ms = min(self._due_ms, at_ms + self.within_ms)
        if complete:
            self._publish(at_ms, place, sorted(complete))
        if len(self.partials) > automaton.max_partial:
            self._limit(at_ms, place)

    def _follow(
        self, moves: Moves, first_ms: int, place: int, refs: Refs, complete: list[Refs]
    ) -> None:
        """Keep what is open after moves, and add what is complete to ``complete``."""
        for step, stage, closed, completes, is_open in moves:
            taken = refs if step == NOT_TAKEN else (*refs, ref_of(place, step))
            if completes:
                complete.append(taken)
            if is_open:
                self.partials.append(Partial(first_ms, closed, stage, taken))

    def _publish(self, at_ms: int, place: int, complete: Sequence[Refs]) -> None:
        """Add the matches that a row completes, as far as skips let them begin."""
        begin = 0
        for refs in complete:
            if place_of(refs[0]) >= begin:
                self._add(at_ms, place, MATCH, refs)
                begin = max(begin, self.automaton.may_begin_from(refs))
        self._drop_before(begin)

    def _time_passes(self, until_ms: int) -> None:
        """End the partial matches whose time is over before ``until_ms``."""
        automaton, over_ms = self.automaton, until_ms - self.within_ms
        due = [each for each in self.partials if each[0] <= over_ms]
        self.partials = [each for each in self.partials if each[0] > over_ms]
        begin = 0
        for first_ms, closed, stage, refs in sorted(due, key=lambda each: each.refs):
            at_ms, place = first_ms + self.within_ms - 1, place_of(refs[0])
            if place < begin:
                continue
            if automaton.ends(stage, closed):
                self._add(at_ms, place, MATCH, refs, is_timer=True)
                begin = max(begin, automaton.may_begin_from(refs))
            elif not closed & automaton.complete:
                self._add(at_ms, place, TIMEOUT, refs, is_timer=True)
        self._drop_before(begin)
        self._due_ms = self._first_due_ms()

    def _add(
        self, at_ms: int, place: int, kind: int, refs: Refs, *, is_timer: bool = False
    ) -> None:
        self.found.append(Found(kind, at_ms, is_timer, place, len(self.found), refs))

    def _drop_before(self, begin: int) -> None:
        """Drop the partial matches that begin before a place."""
        if begin:
            first = ref_of(begin, 0)
            self.partials = [each for each in self.partials if each[3][0] >= first]

    def _limit(self, at_ms: int, place: int) -> None:
        """Refuse the oldest first rows while there are too many partial matches."""
        while len(self.partials) > self.automaton.max_partial:
            oldest = min(refs[0] for _, _, _, refs in self.partials)
            self._add(at_ms, place, REFUSED, (oldest,))
            self._drop_before(place_of(oldest) + 1)
