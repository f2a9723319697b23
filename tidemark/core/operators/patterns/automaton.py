"""The automaton of a pattern: which rows of one key make a match.

See docs/semantics.md, "Patterns".  It knows rows as numbers only: a bit for each condition that
the row fulfils, and a bit for each step with a condition on earlier rows that holds.  What a
partial match does with a row depends on these numbers, its stage and its closed targets.  So it is
remembered (``Automaton.moves``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

from tidemark.core.operators.patterns.partial import Refs, place_of, step_of
from tidemark.core.operators.patterns.pattern import Pattern

NOT_TAKEN = -1

_REMEMBERED = 1 << 14
"""Maximum number of moves that are remembered of each kind."""


class Move(NamedTuple):
    """A partial match after a row.

    ``step``: that takes the row, or ``NOT_TAKEN``.  ``stage``, ``closed``: see ``Partial``.
    ``completes``: whether it is a match now.  ``is_open``: whether it can take a row, or end.
    """

    step: int
    stage: int
    closed: int
    completes: bool
    is_open: bool


Moves = tuple[Move, ...]


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

    @cached_property
    def moves(self) -> Callable[[int, int, int, int], Moves]:
        """By stage, closed targets, bits of a row and steps that hold: what is left after the row.

        First the partial matches that take the row, then the one that is left without it.
        """
        return lru_cache(_REMEMBERED)(self._moves)

    def _moves(self, stage: int, closed: int, bits: int, holds: int) -> Moves:
        found, has_taken = list[Move](), False
        for target in self.stages[stage].targets:
            if closed & target.bit:
                continue
            if has_taken:  # by a greedy step before it
                closed |= target.bit
            elif _can_take(target, bits, holds):
                found.append(self._move(target.step, target.stage, 0))
                closed |= 0 if target.is_any else target.bit
                has_taken = target.is_greedy
            elif target.is_next or (target.is_loop and bits & target.until):
                closed |= target.bit
            if bits & target.bans:
                closed |= target.bit
        return (*found, self._move(NOT_TAKEN, stage, closed))

    @cached_property
    def begins(self) -> Callable[[int, int], Moves]:
        """By bits of a row and steps that hold: the partial matches that begin with the row."""
        return lru_cache(_REMEMBERED)(self._begins)

    def _begins(self, bits: int, holds: int) -> Moves:
        found = list[Move]()
        for target in self.starts:
            if _can_take(target, bits, holds):
                found.append(self._move(target.step, target.stage, 0))
                if target.is_greedy:
                    break
        return tuple(found)

    def _move(self, step: int, stage: int, closed: int) -> Move:
        completes = self._is_complete(stage, closed)
        if completes:
            closed |= self.end | self.complete
        return Move(step, stage, closed, completes, bool(self.stages[stage].bits & ~closed))

    def _is_complete(self, stage: int, closed: int) -> bool:
        """Whether a partial match is a match now, for the first time.

        It is not while a greedy step can still take a row, or while only time can end it.
        """
        ends = self.ends(stage, closed)
        return ends and not self.pattern.never and not self.stages[stage].greedy & ~closed

    def ends(self, stage: int, closed: int) -> bool:
        """Whether a partial match is a match once its time is over."""
        return bool(self.stages[stage].bits & self.end & ~closed)

    @cached_property
    def asked(self) -> Callable[[int, int, int], tuple[int, ...]]:
        """By stage, closed targets and bits of a row: the steps that earlier rows decide."""
        return lru_cache(_REMEMBERED)(self._asked)

    def _asked(self, stage: int, closed: int, bits: int) -> tuple[int, ...]:
        targets = self.stages[stage].targets
        return tuple(
            each.step
            for each in targets
            if each.asks and bits & each.needs and not closed & each.bit
        )

    def first_asked(self, bits: int) -> tuple[int, ...]:
        """Return the steps of which earlier rows decide whether a match begins with a row."""
        return tuple(each.step for each in self.starts if each.asks and bits & each.needs)


def _can_take(target: Target, bits: int, holds: int) -> bool:
    if not bits & target.needs or bits & target.until:
        return False
    return not target.asks or bool(holds & target.bit)
