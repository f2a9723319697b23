"""Patterns as slow Python, from docs/semantics.md, "Patterns": all matches by their definition.

``Key`` lists every sequence of rows that the rules allow, and asks each rule for itself.  It knows
neither partial matches in a state nor the order in which an automaton would find them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracles.aligned import LateRow, late_of
from tests.oracles.clock import Judged, RowId, Table, by_time, heard, row_id
from tidemark.core.time.segment import FOREVER_MS, Segment

Holds = Callable[[Judged], bool]
Earlier = dict[str, Judged]


def never_true(_row: Judged) -> bool:
    return False


class StepRules(NamedTuple):
    """A step; ``on`` gets the row and the last rows of the steps so far, by name."""

    name: str
    fits: Holds
    after: str = "followed_by"
    least: int = 1
    most: int | None = 1
    between: str = "followed_by"
    greedy: bool = False
    until: Holds = never_true
    on: Callable[[Judged, Earlier], bool] = lambda _row, _earlier: True
    never: tuple[Holds, ...] = ()


class PatternRules(NamedTuple):
    """A pattern."""

    steps: tuple[StepRules, ...]
    within_ms: int
    never: tuple[Holds, ...] = ()
    skip: str = "past_last"
    to: int = 0
    max_partial: int = 1000


Taken = tuple[tuple[int, int], ...]
"""Rows of a match, by their numbers in the key, each with the number of its step."""

END = -1


class Result(NamedTuple):
    """A match or timeout of a key: its rows with their steps, and its event time."""

    key: str | None
    rows: tuple[tuple[str, int, int, str], ...]
    at_ms: int


@dataclass
class Found:
    """What the rows of a log give; ``refused``: rows that more partial matches push out."""

    matches: list[Result] = field(default_factory=list)
    timeouts: list[Result] = field(default_factory=list)
    refused: list[RowId] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)


class Key:
    """The rows of one key, in order."""

    def __init__(self, rules: PatternRules, rows: Sequence[Judged]) -> None:
        self.rules = rules
        self.rows = rows
        self.steps = rules.steps
        self.sequences = [*self._sequences()]

    # Rules about one row

    def could_have(self, taken: Taken, step: int, row: int) -> bool:
        """Whether a row fulfils the conditions of a step after these rows."""
        each, rules = self.rows[row], self.steps[step]
        earlier = {self.steps[s].name: self.rows[r] for r, s in taken}
        return rules.fits(each) and not rules.until(each) and rules.on(each, earlier)

    def is_banned(self, taken: Taken, step: int, row: int) -> bool:
        """Whether a row between fulfils a ``never`` before a step."""
        begin = taken[-1][1] + 1
        stop = len(self.steps) if step == END else step + 1
        bans = [ban for each in self.steps[begin:stop] for ban in each.never]
        bans += self.rules.never if step == END else ()
        return any(ban(self.rows[row]) for ban in bans)

    def count(self, taken: Taken) -> int:
        """Return the number of rows of the last step."""
        return sum(step == taken[-1][1] for _, step in taken)

    def reachable(self, taken: Taken) -> list[int]:
        """Return the steps that may have the next row, and END, by their numbers alone."""
        step, count = taken[-1][1], self.count(taken)
        most = self.steps[step].most
        found = [step] if most is None or count < most else []
        if count >= self.steps[step].least:
            for later in range(step + 1, len(self.steps)):
                found.append(later)
                if self.steps[later].least:
                    return found
            found.append(END)
        return found

    # Rules about the rows between two rows of a match

    def may_follow(self, taken: Taken, step: int, row: int, *, has_come: bool = True) -> bool:
        """Whether contiguity, until, never and greedy let a step have a row after these rows.

        ``has_come``: whether it is a row, or one that may still come before it.
        """
        last, last_step = taken[-1]
        between = range(last + 1, row)
        is_loop = step == last_step
        if step != END:
            rules = self.steps[step]
            how = rules.between if is_loop else rules.after
            if how == "next" and between:
                return False
            if how == "followed_by" and any(self.could_have(taken, step, r) for r in between):
                return False
            if is_loop and any(rules.until(self.rows[r]) for r in between):
                return False
        if not is_loop and any(self.is_banned(taken, step, r) for r in between):
            return False
        until = row if has_come else row - 1
        return not any(
            self.has_taken(taken, greedy, until) for greedy in self.greedy_before(taken, step)
        )

    def greedy_before(self, taken: Taken, step: int) -> list[int]:
        """Return the greedy steps that come before a step, and can have a row."""
        reachable = self.reachable(taken)
        before = reachable[: reachable.index(step)]
        return [each for each in before if self.steps[each].greedy]

    def has_taken(self, taken: Taken, greedy: int, until: int) -> bool:
        """Whether a greedy step can have one of the rows up to ``until``."""
        rows = range(taken[-1][0] + 1, until + 1)
        return any(
            self.could_have(taken, greedy, row) and self.may_follow(taken, greedy, row)
            for row in rows
        )

    def begins(self, step: int, row: int) -> bool:
        """Whether a match can begin with a step at a row."""
        if any(each.least for each in self.steps[:step]):
            return False
        greedy = [s for s in range(step) if self.steps[s].greedy]
        return self.could_have((), step, row) and not any(
            self.could_have((), each, row) for each in greedy
        )

    def _sequences(self) -> Iterator[Taken]:
        """Yield every beginning of a match."""
        begun: list[Taken] = [
            ((row, step),)
            for row in range(len(self.rows))
            for step in range(len(self.steps))
            if self.begins(step, row)
        ]
        while begun:
            yield from begun
            begun = [
                (*taken, (row, step))
                for taken in begun
                for step in self.reachable(taken)
                for row in range(taken[-1][0] + 1, self.stop(taken))
                if step != END
                and self.could_have(taken, step, row)
                and self.may_follow(taken, step, row)
            ]

    # The end of a match

    def over_ms(self, taken: Taken) -> int:
        """Return the time at which the time of a match is over."""
        return self.rows[taken[0][0]].at_ms + self.rules.within_ms

    def stop(self, taken: Taken) -> int:
        """Return the number of the first row that is too late for a match."""
        return sum(row.at_ms < self.over_ms(taken) for row in self.rows)

    def decided_by(self, taken: Taken) -> int | None:
        """Return the row that makes a match complete, ``stop`` for time; None: it is no match."""
        if END not in self.reachable(taken):
            return None
        last, stop = taken[-1][0], self.stop(taken)
        candidates = [] if self.rules.never else range(last, stop)
        for row in candidates:
            waits = any(
                self.may_follow(taken, greedy, row + 1, has_come=False)
                for greedy in self.greedy_before(taken, END)
            )
            if not waits:
                return row if self.may_follow(taken, END, row + 1, has_come=False) else None
        return stop if self.may_follow(taken, END, stop, has_come=False) else None

    def is_open(self, taken: Taken, row: int) -> bool:
        """Whether a beginning can go on with a row after ``row``, or can still become a match."""
        decided = self.decided_by(taken)
        goes_on = any(
            self.may_follow(taken, step, row + 1, has_come=False)
            for step in self.reachable(taken)
            if step != END
        )
        if END not in self.reachable(taken) or (decided is not None and decided <= row):
            return goes_on
        return goes_on or self.may_follow(taken, END, row + 1, has_come=False)

    # Time

    def run(self, found: Found, until_ms: int = FOREVER_MS) -> None:
        """Add the results of the key before a time."""
        self.begin = 0
        self.gone: set[Taken] = set()
        for number, row in enumerate(self.rows):
            self.time_passes(row.at_ms, found)
            self.emit([t for t in self.sequences if self.decided_by(t) == number], number, found)
            self.limit(number, found)
        self.time_passes(until_ms, found)

    def emit(self, complete: Sequence[Taken], row: int, found: Found) -> None:
        for taken in sorted(complete):
            if row < self.stop(taken) and taken[0][0] >= self.begin:
                found.matches.append(self.result(taken, self.rows[row].at_ms))
                self.skip(taken)

    def time_passes(self, until_ms: int, found: Found) -> None:
        """Publish what timers before ``until_ms`` decide."""
        for taken in sorted(self.sequences):
            over_ms, stop = self.over_ms(taken), self.stop(taken)
            if over_ms > until_ms or taken in self.gone:
                continue
            self.gone.add(taken)
            if taken[0][0] < self.begin:
                continue
            decided = self.decided_by(taken)
            if decided == stop:
                found.matches.append(self.result(taken, over_ms - 1))
                self.skip(taken)
            elif decided is None and self.is_open(taken, stop - 1):
                found.timeouts.append(self.result(taken, over_ms - 1))

    def open_rows(self) -> set[int]:
        """Return the first rows of what can still become a match after all rows."""
        return {
            taken[0][0]
            for taken in self.sequences
            if taken not in self.gone
            and taken[0][0] >= self.begin
            and self.decided_by(taken) in (None, self.stop(taken))
            and self.is_open(taken, len(self.rows) - 1)
        }

    def skip(self, taken: Taken) -> None:
        """Let later matches begin where the skip says."""
        rows = [row for row, step in taken if step == self.rules.to]
        begin = {
            "none": lambda: 0,
            "past_last": lambda: taken[-1][0] + 1,
            "to_next": lambda: taken[0][0] + 1,
            "to_first": lambda: rows[0],
            "to_last": lambda: rows[-1],
        }[self.rules.skip]()
        self.begin = max(self.begin, begin)

    def limit(self, number: int, found: Found) -> None:
        """Refuse the oldest first rows of too many partial matches."""
        known = [
            taken
            for taken in self.sequences
            if taken[-1][0] <= number < self.stop(taken) and self.is_open(taken, number)
        ]
        while len([t for t in known if t[0][0] >= self.begin]) > self.rules.max_partial:
            first = min(taken[0][0] for taken in known if taken[0][0] >= self.begin)
            found.refused.append(row_id(self.rows[first]))
            self.begin = first + 1

    def result(self, taken: Taken, at_ms: int) -> Result:
        rows = tuple((*row_id(self.rows[row]), self.steps[step].name) for row, step in taken)
        return Result(self.rows[0].key, rows, at_ms)


def run_pattern(segments: Sequence[Segment], topics: Sequence[str], rules: PatternRules) -> Found:
    """Return all results of a log, in no order."""
    found, keys = Found(), dict[str | None, list[Judged]]()
    for step in heard(segments, Table(topics)):
        for row in step.rows:
            if row.at_ms < row.w_ms:
                found.late.append(late_of(row, row.at_ms + 1))
            else:
                keys.setdefault(row.key, []).append(row)
    for rows in keys.values():
        rows.sort(key=by_time)
        Key(rules, rows).run(found)
    return found
