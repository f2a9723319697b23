"""The automaton of a pattern: which rows of one key make a match.

See docs/semantics.md, "Patterns".  It knows rows as numbers only: a place, a time, and a bit for
each condition that the row fulfils.  Only conditions on earlier rows are asked for, see
``Question``.  It goes row by row, over few rows: those that a partial match may take.
"""

from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from tidemark.core.operators.patterns.partial import Partial, Refs, place_of, ref_of, step_of
from tidemark.core.operators.patterns.pattern import Pattern


class Question(NamedTuple):
    """Whether the condition ``on`` of a step holds for a row and the rows of a partial match."""

    step: int
    place: int
    refs: Refs


class Row(NamedTuple):
    """A row: its place, its time, and a bit for each condition that it fulfils."""

    place: int
    at_ms: int
    bits: int


class Target(NamedTuple):
    """What a partial match may take next: a row of a step, or its end.

    ``bit``: of the target among those of a partial match.  ``stage``: after the row.  ``needs``,
    ``until``, ``bans``: bits of conditions.  ``asks``: whether the step has a condition on earlier
    rows.
    """

    bit: int
    step: int
    stage: int
    needs: int
    until: int = 0
    bans: int = 0
    is_next: bool = False
    is_any: bool = False
    is_greedy: bool = False
    asks: bool = False
    is_loop: bool = False


class Stage(NamedTuple):
    """What a partial match may take next, by its last step and the number of rows of that step.

    ``bits``: of all targets.  ``greedy``: of those of greedy steps.  ``wakes``: bits of conditions:
    without one of them, a row changes nothing unless a target ``is_next``.
    """

    targets: tuple[Target, ...]
    bits: int
    greedy: int
    wakes: int
    is_next: bool

    @classmethod
    def of(cls, targets: tuple[Target, ...]) -> "Stage":
        """Return the stage with these targets."""
        bits = greedy = wakes = 0
        for target in targets:
            bits |= target.bit
            greedy |= target.bit if target.is_greedy else 0
            wakes |= target.needs | target.bans | target.until
        return cls(targets, bits, greedy, wakes, any(target.is_next for target in targets))


@dataclass(frozen=True)
class Automaton:
    """A pattern as targets; ``max_partial``: the number of partial matches of a key."""

    pattern: Pattern
    max_partial: int

    @cached_property
    def end(self) -> int:
        """The bit of the end of the pattern."""
        return 1 << len(self.pattern.steps)

    @cached_property
    def complete(self) -> int:
        """The bit of partial matches that were complete once."""
        return self.end << 1

    @cached_property
    def asks(self) -> bool:
        """Whether a step has a condition on earlier rows."""
        return any(step.on is not None for step in self.pattern.steps)

    @cached_property
    def _bits(self) -> tuple[list[int], list[int], int]:
        """The bits of until and of never by step, and those of never at the end."""
        until, never, bit = [], [], 1 << len(self.pattern.steps)
        for step in self.pattern.steps:
            until.append(bit if step.until is not None else 0)
            bit <<= step.until is not None
            never.append(((1 << len(step.never)) - 1) * bit)
            bit <<= len(step.never)
        return until, never, ((1 << len(self.pattern.never)) - 1) * bit

    @cached_property
    def starts(self) -> tuple[Target, ...]:
        """The targets of a match without rows."""
        found = self._later(-1)
        return tuple(each._replace(bans=0, is_next=False) for each in found if each.bit != self.end)

    @cached_property
    def starting(self) -> int:
        """The bits of conditions of which a first row fulfils one."""
        bits = 0
        for each in self.starts:
            bits |= each.needs
        return bits

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of all steps, in order."""
        found = []
        for number, step in enumerate(self.pattern.steps):
            for taken in range(1, self._counted(number) + 1):
                more = step.most is None or taken < step.most
                loop = (self._loop(number, taken),) if more else ()
                later = self._later(number) if taken >= step.least else ()
                found.append(Stage.of((*loop, *later)))
        return tuple(found)

    def _counted(self, number: int) -> int:
        """Return how many rows of a step make a difference: with more, nothing changes."""
        step = self.pattern.steps[number]
        return max(1, step.least) if step.most is None else step.most

    @cached_property
    def _first_stages(self) -> tuple[int, ...]:
        """The stage of the first row of each step."""
        counted = (self._counted(number) for number, _ in enumerate(self.pattern.steps))
        return tuple(accumulate(counted, initial=0))

    def _loop(self, number: int, taken: int) -> Target:
        step, (until, _, _) = self.pattern.steps[number], self._bits
        return Target(
            1 << number,
            number,
            self._first_stages[number] + min(taken, self._counted(number) - 1),
            1 << number,
            until=until[number],
            is_next=step.between == "next",
            is_any=step.between == "followed_by_any",
            is_greedy=step.greedy,
            asks=step.on is not None,
            is_loop=True,
        )

    def _later(self, number: int) -> tuple[Target, ...]:
        """Return the targets after a step: later ones up to one that a match must have."""
        found, bans, (until, never, at_end) = [], 0, self._bits
        for later, step in enumerate(self.pattern.steps[number + 1 :], number + 1):
            bans |= never[later]
            found.append(
                Target(
                    1 << later,
                    later,
                    self._first_stages[later],
                    1 << later,
                    until=until[later],
                    bans=bans,
                    is_next=step.after == "next",
                    is_any=step.after == "followed_by_any",
                    is_greedy=step.greedy,
                    asks=step.on is not None,
                )
            )
            if step.least:
                return tuple(found)
        return (*found, Target(self.end, -1, -1, 0, bans=bans | at_end))

    def may_begin_from(self, refs: Refs) -> int:
        """Return the place from which the next match may begin after a match."""
        skip = self.pattern.skip
        if skip.to == "none":
            return 0
        if skip.to == "past_last":
            return place_of(refs[-1]) + 1
        if skip.to == "to_next":
            return place_of(refs[0]) + 1
        wanted = next(n for n, step in enumerate(self.pattern.steps) if step.name == skip.step)
        places = [place_of(ref) for ref in refs if step_of(ref) == wanted]
        return places[0] if skip.to == "to_first" else places[-1]

    def begun(self, row: Row, holds: Container[Question]) -> list[Partial]:
        """Return the partial matches that begin with a row."""
        found = []
        for target in self.starts:
            if _can_take(target, row, (), holds):
                refs = (ref_of(row.place, target.step),)
                found.append(Partial(row.at_ms, 0, target.stage, refs))
                if target.is_greedy:
                    break
        return found

    def moved(self, each: Partial, row: Row, holds: Container[Question]) -> list[Partial]:
        """Return the partial matches that take a row, and what is left without it."""
        found: list[Partial] = []
        closed, has_taken = each.closed, False
        for target in self.stages[each.stage].targets:
            if closed & target.bit:
                continue
            if has_taken:  # by a greedy step before it
                closed |= target.bit
            elif _can_take(target, row, each.refs, holds):
                refs = (*each.refs, ref_of(row.place, target.step))
                found.append(Partial(each.first_ms, 0, target.stage, refs))
                closed |= 0 if target.is_any else target.bit
                has_taken = target.is_greedy
            elif target.is_next or (target.is_loop and row.bits & target.until):
                closed |= target.bit
            if row.bits & target.bans:
                closed |= target.bit
        found.append(each.with_closed(closed))
        return found

    def is_complete(self, each: Partial) -> bool:
        """Whether a partial match is a match now, for the first time.

        It is not while a greedy step can still take a row, or while only time can end it.
        """
        stage = self.stages[each.stage]
        ends = stage.bits & self.end and not each.closed & self.end
        return bool(ends and not self.pattern.never and not stage.greedy & ~each.closed)

    def is_open(self, each: Partial) -> bool:
        """Whether a partial match can take a row, or end."""
        return bool(self.stages[each.stage].bits & ~each.closed)

    def is_match_in_the_end(self, each: Partial) -> bool:
        """Whether a partial match is a match once its time is over."""
        return bool(self.stages[each.stage].bits & self.end & ~each.closed)

    def questions(self, each: Partial, row: Row) -> list[Question]:
        """Return what decides whether a partial match can take a row."""
        return [
            Question(target.step, row.place, each.refs)
            for target in self.stages[each.stage].targets
            if target.asks and row.bits & target.needs and not each.closed & target.bit
        ]

    def first_questions(self, row: Row) -> list[Question]:
        """Return what decides whether a match can begin with a row."""
        return [
            Question(target.step, row.place, ())
            for target in self.starts
            if target.asks and row.bits & target.needs
        ]


def _can_take(target: Target, row: Row, refs: Refs, holds: Container[Question]) -> bool:
    if not row.bits & target.needs or row.bits & target.until:
        return False
    return not target.asks or Question(target.step, row.place, refs) in holds
