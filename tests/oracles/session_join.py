"""Joins in sessions as slow Python, from docs/semantics.md, "Session joins".

``run_join`` gives the results that each step publishes.  It makes all sessions anew at each step.
Results are those of ``tests.oracles.join``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.oracles.clock import Judged, RowId, Step, row_id
from tests.oracles.join import (
    LEFT,
    RIGHT,
    Condition,
    Joined,
    JoinRun,
    Rejected,
    arrivals,
)
from tests.oracles.window_join import SHOWN_ALONE
from tidemark.core.time.segment import FOREVER_MS

Member = tuple[str, Judged]
"""The side and a row."""


class SessionRules(NamedTuple):
    """A join in sessions."""

    how: str
    gap_ms: int
    lateness_ms: int = 0
    on: Condition | None = None
    max_pairs: int = 1_000_000


def run_join(
    rules: SessionRules, steps: Sequence[Step], sides: Mapping[str, Sequence[str]]
) -> JoinRun:
    """Return what each step publishes; ``sides``: the topics of each side."""
    run = JoinRun()
    taken: list[Member] = []
    done: set[tuple[str, RowId]] = set()
    for step in [*steps, Step([], 0, 0, FOREVER_MS)]:
        for row, side in arrivals(step.rows, sides):
            if row.at_ms + rules.lateness_ms < row.w_ms:
                run.rejected.append(Rejected(side, row_id(row), "late"))
            else:
                taken.append((side, row))
        made: list[Joined] = []
        for session in sessions(rules, taken):
            names = {(side, row_id(row)) for side, row in session}
            if _end_ms(rules, session) + rules.lateness_ms <= step.clock and not names & done:
                done |= names
                made += _results(rules, session, run)
        run.steps.append(made)
        run.withdrawn.append([])
    return run


def sessions(rules: SessionRules, members: Sequence[Member]) -> Iterator[list[Member]]:
    """Yield the sessions of all keys: rows that are less than a gap after the one before."""
    for key in {row.key for _, row in members}:
        session: list[Member] = []
        for member in sorted((m for m in members if m[1].key == key), key=_at_ms):
            if session and _at_ms(member) >= _end_ms(rules, session):
                yield session
                session = []
            session.append(member)
        yield session


def _results(rules: SessionRules, session: Sequence[Member], run: JoinRun) -> list[Joined]:
    """Return the results of a session; rows with too many others up to them go to ``run``."""
    kept = []
    for side, row in session:
        before = [
            other
            for name, other in session
            if name != side and other.at_ms <= row.at_ms and row_id(other) != row_id(row)
        ]
        if len(before) > rules.max_pairs:
            run.rejected.append(Rejected(side, row_id(row), "max_pairs"))
        else:
            kept.append((side, row))
    at_ms = _end_ms(rules, session) - 1
    lefts = [row for side, row in kept if side == LEFT]
    rights = [row for side, row in kept if side == RIGHT]
    pairs = [(a, b) for a in lefts for b in rights if _pairs(rules, a, b)]
    matched = {(LEFT, row_id(a)) for a, _ in pairs} | {(RIGHT, row_id(b)) for _, b in pairs}
    made = []
    if rules.how == "semi":
        made += [_alone((LEFT, row), at_ms) for row in lefts if (LEFT, row_id(row)) in matched]
    elif rules.how != "anti":
        made += [Joined(row_id(a), row_id(b), at_ms) for a, b in pairs]
    for side, row in kept:
        if side in SHOWN_ALONE.get(rules.how, ()) and (side, row_id(row)) not in matched:
            made.append(_alone((side, row), at_ms))
    return made


def open_sessions(rules: SessionRules, members: Sequence[Member], clock_ms: int) -> int:
    """Count the sessions of accepted rows that a row to come may still join."""
    limit_ms = clock_ms - rules.lateness_ms
    return sum(_end_ms(rules, each) > limit_ms for each in sessions(rules, members))


def _pairs(rules: SessionRules, left: Judged, right: Judged) -> bool:
    met = rules.on is None or rules.on(left, right)
    return left.key is not None and row_id(left) != row_id(right) and met


def _alone(member: Member, at_ms: int) -> Joined:
    side, row = member
    return Joined(row_id(row), None, at_ms) if side == LEFT else Joined(None, row_id(row), at_ms)


def _at_ms(member: Member) -> int:
    return member[1].at_ms


def _end_ms(rules: SessionRules, session: Sequence[Member]) -> int:
    return max(map(_at_ms, session)) + rules.gap_ms
