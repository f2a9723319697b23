"""Window joins as slow Python, from docs/semantics.md, "Window joins".

``joined`` gives the results that stand once time has passed everything: it looks at each window
alone, and knows neither clock nor segments.  ``run_join`` gives them step by step.  Results are
those of ``tests.oracles.join``; the time of a result tells its window.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.oracles.aligned import Spec
from tests.oracles.clock import Judged, Step, row_id
from tests.oracles.join import (
    LEFT,
    RIGHT,
    Condition,
    Joined,
    JoinRun,
    Rejected,
    arrivals,
)
from tidemark.core.time.segment import FOREVER_MS

SHOWN_ALONE = {"left": (LEFT,), "anti": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}
"""The sides whose rows without a partner are results."""


class WindowRules(NamedTuple):
    """A window join.

    ``withdraws``: rows without a partner come before the allowed lateness has passed.
    """

    how: str
    windows: Spec
    withdraws: bool = False
    on: Condition | None = None
    max_pairs: int = 1_000_000

    def ends(self, row: Judged) -> list[int]:
        """Return the ends of the windows in which a row counts."""
        lateness_ms = self.windows.allowed_lateness_ms
        return [end for end in self.windows.ends(row.at_ms) if end + lateness_ms > row.w_ms]

    def pairs(self, left: Judged, right: Judged) -> bool:
        """Return whether rows of one window pair."""
        return _meet(left, right) and (self.on is None or self.on(left, right))


Member = tuple[str, Judged, int]
"""The side, a row, and the end of a window in which it counts."""


def joined(rules: WindowRules, left: Sequence[Judged], right: Sequence[Judged]) -> JoinRun:
    """Return what stands at the end for rows with their W, without ``max_pairs``."""
    run, results = JoinRun(), []
    for side, rows in ((LEFT, left), (RIGHT, right)):
        run.rejected += [Rejected(side, row_id(r), "late") for r in rows if not rules.ends(r)]
    for end in sorted({end for row in (*left, *right) for end in rules.ends(row)}):
        here = {
            LEFT: [row for row in left if end in rules.ends(row)],
            RIGHT: [row for row in right if end in rules.ends(row)],
        }
        pairs = [(a, b) for a in here[LEFT] for b in here[RIGHT] if rules.pairs(a, b)]
        matched = {LEFT: {a for a, _ in pairs}, RIGHT: {b for _, b in pairs}}
        if rules.how == "semi":
            results += [_alone((LEFT, row, end)) for row in matched[LEFT]]
        elif rules.how != "anti":
            results += [_pair(a, b, end) for a, b in pairs]
        for side in SHOWN_ALONE.get(rules.how, ()):
            results += [_alone((side, r, end)) for r in here[side] if r not in matched[side]]
    run.steps.append(results)
    return run


def run_join(
    rules: WindowRules, steps: Sequence[Step], sides: Mapping[str, Sequence[str]]
) -> JoinRun:
    """Return what each step publishes; ``sides``: the topics of each side."""
    run, log = JoinRun(), _Log(rules)
    for step in [*steps, Step([], 0, 0, FOREVER_MS)]:
        made: list[Joined] = []
        gone: list[Joined] = []
        for row, side in arrivals(step.rows, sides):
            ends = rules.ends(row)
            if not ends:
                run.rejected.append(Rejected(side, row_id(row), "late"))
            elif any(len(log.near((side, row, end))) > rules.max_pairs for end in ends):
                run.rejected.append(Rejected(side, row_id(row), "max_pairs"))
            else:
                log.add((side, row, end) for end in ends)
                for end in ends:
                    log.match((side, row, end), made, gone)
        log.due(step.clock, made)
        run.steps.append(made)
        run.withdrawn.append(gone)
    return run


class _Log:
    """The members of windows so far, which are matched, and which were published alone."""

    def __init__(self, rules: WindowRules) -> None:
        self.rules = rules
        self.members: list[Member] = []
        self.matched: set[Member] = set()
        self.alone: set[Member] = set()

    def add(self, members: Iterable[Member]) -> None:
        self.members += members

    def near(self, member: Member) -> list[Member]:
        """Return the members of the other side that may pair, whatever ``on`` says."""
        side, row, end = member
        return [
            other
            for other in self.members
            if other[0] != side and other[2] == end and _meet(row, other[1])
        ]

    def match(self, member: Member, made: list[Joined], gone: list[Joined]) -> None:
        """Add the pairs of a member with those before it, and what they withdraw."""
        for other in self.near(member):
            left, right = sorted((member, other))
            assert (left[0], right[0]) == (LEFT, RIGHT)
            if not self.rules.pairs(left[1], right[1]):
                continue
            if self.rules.how == "semi" and left not in self.matched:
                made.append(_alone(left))
            if self.rules.how not in ("semi", "anti"):
                made.append(_pair(left[1], right[1], left[2]))
            gone += [_alone(each) for each in (left, right) if each in self.alone]
            self.matched |= {left, right}
            self.alone -= {left, right}

    def due(self, clock_ms: int, made: list[Joined]) -> None:
        """Add the members that are due without a partner."""
        wait_ms = 0 if self.rules.withdraws else self.rules.windows.allowed_lateness_ms
        for each in self.members:
            shown = each[0] in SHOWN_ALONE.get(self.rules.how, ())
            if shown and each[2] + wait_ms <= clock_ms and each not in self.alone | self.matched:
                self.alone.add(each)
                made.append(_alone(each))


def open_rows(rules: WindowRules, rows: Sequence[Judged], clock_ms: int) -> int:
    """Count the accepted rows of windows in which a row to come may still count."""
    lateness_ms = rules.windows.allowed_lateness_ms
    return sum(end + lateness_ms > clock_ms for row in rows for end in rules.ends(row))


def _meet(one: Judged, other: Judged) -> bool:
    """Whether rows of one window have the same key and are not the same row."""
    return one.key == other.key and row_id(one) != row_id(other)


def _pair(left: Judged, right: Judged, end_ms: int) -> Joined:
    return Joined(row_id(left), row_id(right), end_ms - 1)


def _alone(member: Member) -> Joined:
    side, row, end_ms = member
    left, right = (row_id(row), None) if side == LEFT else (None, row_id(row))
    return Joined(left, right, end_ms - 1)
