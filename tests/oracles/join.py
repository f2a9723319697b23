"""Joins of two streams as slow Python, from docs/semantics.md, "Joins".

``joined`` and ``gathered`` give the results that stand once time has passed everything.  They
compare every left row with every right row, and know neither clock nor segments.  ``run_join``
gives them step by step.
``of_raw`` gives rows of raw topics with the watermarks of their own sources.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.oracles.clock import Judged, RowId, Step, row_id
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS

LEFT, RIGHT = "left", "right"

Condition = Callable[[Judged, Judged], bool]


class JoinRules(NamedTuple):
    """A join.

    ``upper``: the upper bound of a left row in ms, None if it has none.  ``on``: whether rows of
    one key may pair.  ``withdraws``: unmatched rows come before the allowed lateness has passed.
    """

    how: str
    lower_ms: int
    upper_ms: int
    lateness_ms: int = 0
    withdraws: bool = False
    on: Condition | None = None
    upper: Callable[[Judged], int | None] | None = None
    max_pairs: int = 1_000_000

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides whose unmatched rows are results."""
        shown = {"left": (LEFT,), "anti": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}
        return shown.get(self.how, ())


class Joined(NamedTuple):
    """A result: the rows that it is of, and its event time."""

    left: RowId | None
    right: RowId | None
    at_ms: int


class Rejected(NamedTuple):
    """A row that does not take part."""

    side: str
    row: RowId
    reason: str


@dataclass
class JoinRun:
    """Results of each step, the end of input last, and rejected rows; withdrawals come apart."""

    steps: list[list[Joined]] = field(default_factory=list)
    withdrawn: list[list[Joined]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def standing(self) -> list[Joined]:
        """The results that were not withdrawn."""
        standing = [each for step in self.steps for each in step]
        for each in (each for step in self.withdrawn for each in step):
            standing.remove(each)
        return standing


def joined(rules: JoinRules, left: Sequence[Judged], right: Sequence[Judged]) -> JoinRun:
    """Return what stands at the end for rows with their W, without ``max_pairs``."""
    run = JoinRun()
    taken = _taken(rules, left, right, run)
    pairs = [(a, b) for a in taken[LEFT] for b in taken[RIGHT] if _pairs(rules, a, b)]
    matched = {(LEFT, row_id(a)) for a, _ in pairs} | {(RIGHT, row_id(b)) for _, b in pairs}
    results = []
    if rules.how not in ("semi", "anti"):
        results += [_pair(a, b) for a, b in pairs]
    for side in rules.sides:
        rows = taken[side]
        results += [_alone(rules, side, r) for r in rows if (side, row_id(r)) not in matched]
    if rules.how == "semi":
        rows = taken[LEFT]
        results += [_alone(rules, LEFT, r) for r in rows if (LEFT, row_id(r)) in matched]
    run.steps.append(results)
    return run


def gathered(
    rules: JoinRules,
    left: Sequence[Judged],
    right: Sequence[Judged],
    order: Callable[[Judged], Any],
) -> JoinRun:
    """Return each left row with its first partner, without ``max_pairs``.

    ``order``: of partners; the first of equals is the earliest.
    """
    run = JoinRun()
    taken = _taken(rules, left, right, run)
    results = []
    for row in taken[LEFT]:
        partners = [other for other in taken[RIGHT] if _pairs(rules, row, other)]
        if partners or rules.how == "left":
            first = min(partners, key=lambda each: (order(each), each.at_ms), default=None)
            at_ms = _due_ms(rules, LEFT, row) - 1
            results.append(Joined(row_id(row), None if first is None else row_id(first), at_ms))
    run.steps.append(results)
    return run


def run_join(
    rules: JoinRules, steps: Sequence[Step], sides: Mapping[str, Sequence[str]]
) -> JoinRun:
    """Return what each step publishes; ``sides``: the topics of each side."""
    run, log = JoinRun(), _Log(rules)
    for step in [*steps, Step([], 0, 0, FOREVER_MS)]:
        made: list[Joined] = []
        gone: list[Joined] = []
        for row, side in arrivals(step.rows, sides):
            if not _is_rejected(rules, side, row, run) and not log.has_many(side, row, run):
                for left, right in log.add(side, row):
                    made += log.new_results(left, right)
                    gone += log.match(left, right)
        made += log.due(step.clock)
        run.steps.append(made)
        run.withdrawn.append(gone)
    return run


class Gathered(NamedTuple):
    """A left row with its partners, ordered by their identities, and its time as a result."""

    left: RowId
    partners: tuple[RowId, ...]
    at_ms: int


def run_gathering(
    rules: JoinRules, steps: Sequence[Step], sides: Mapping[str, Sequence[str]]
) -> tuple[list[list[Gathered]], list[Rejected]]:
    """Return the left rows that each step publishes with all partners, and the rejected rows."""
    run, log, done = JoinRun(), _Log(rules), set()
    made: list[list[Gathered]] = []
    for step in [*steps, Step([], 0, 0, FOREVER_MS)]:
        for row, side in arrivals(step.rows, sides):
            if not _is_rejected(rules, side, row, run) and not log.has_many(side, row, run):
                log.taken[side].append(row)
        made.append([])
        for row in log.taken[LEFT]:
            if row_id(row) not in done and step.clock >= _published_ms(rules, LEFT, row):
                done.add(row_id(row))
                found = sorted(row_id(r) for r in log.taken[RIGHT] if _pairs(rules, row, r))
                if found or rules.how == "left":
                    at_ms = _due_ms(rules, LEFT, row) - 1
                    made[-1].append(Gathered(row_id(row), tuple(found), at_ms))
    return made, run.rejected


class _Log:
    """The rows taken so far, which of them are matched, and which were published alone."""

    def __init__(self, rules: JoinRules) -> None:
        self.rules = rules
        self.taken: dict[str, list[Judged]] = {LEFT: [], RIGHT: []}
        self.matched: set[tuple[str, RowId]] = set()
        self.alone: set[tuple[str, RowId]] = set()

    def _near(self, side: str, row: Judged) -> list[tuple[Judged, Judged]]:
        each = [_lr(side, row, other) for other in self.taken[_other(side)]]
        return [(left, right) for left, right in each if _are_near(self.rules, left, right)]

    def has_many(self, side: str, row: Judged, run: JoinRun) -> bool:
        """Whether a row is rejected for the number of rows near it, whatever ``on`` says."""
        many = len(self._near(side, row)) > self.rules.max_pairs
        if many:
            run.rejected.append(Rejected(side, row_id(row), "max_pairs"))
        return many

    def add(self, side: str, row: Judged) -> list[tuple[Judged, Judged]]:
        """Take a row and return its pairs with the rows before it."""
        self.taken[side].append(row)
        return [each for each in self._near(side, row) if _pairs(self.rules, *each)]

    def new_results(self, left: Judged, right: Judged) -> list[Joined]:
        """Return what a pair adds: itself, or with a semi join the left row, once."""
        if self.rules.how == "semi":
            is_new = (LEFT, row_id(left)) not in self.matched
            return [_alone(self.rules, LEFT, left)] if is_new else []
        return [] if self.rules.how == "anti" else [_pair(left, right)]

    def match(self, left: Judged, right: Judged) -> list[Joined]:
        """Note that rows have a partner; return the results that this withdraws."""
        sides = {LEFT: left, RIGHT: right}
        each = {(side, row_id(row)) for side, row in sides.items()}
        gone = [_alone(self.rules, side, sides[side]) for side, _ in each & self.alone]
        self.matched |= each
        self.alone -= each
        return gone

    def due(self, clock_ms: int) -> list[Joined]:
        """Return the rows that are due without a partner."""
        made = []
        for side in self.rules.sides:
            for row in self.taken[side]:
                each = (side, row_id(row))
                is_due = clock_ms >= _published_ms(self.rules, side, row)
                if is_due and each not in self.alone | self.matched:
                    self.alone.add(each)
                    made.append(_alone(self.rules, side, row))
        return made


def of_raw(
    records: Mapping[str, Sequence[tuple[int | None, Sequence[tuple[str | None, int | None]]]]],
    bound_ms: int,
) -> list[Judged]:
    """Return rows of raw partitions: W is the watermark of the partition before the record."""
    rows = []
    for source, each in records.items():
        w_ms = NEVER_MS
        for offset, (at_ms, values) in enumerate(each):
            if at_ms is None:
                continue
            rows += [
                Judged(source, offset, sub_row, at_ms, w_ms, key, value)
                for sub_row, (key, value) in enumerate(values)
            ]
            w_ms = max(w_ms, at_ms - bound_ms)
    return rows


def open_rows(rules: JoinRules, rows: Sequence[tuple[str, Judged]], clock_ms: int) -> int:
    """Count the accepted rows that a row to come may still pair with."""
    last = {LEFT: lambda row: row.at_ms + (_upper(rules, row) or 0)}
    last[RIGHT] = lambda row: row.at_ms - rules.lower_ms
    return sum(clock_ms <= last[side](row) + rules.lateness_ms for side, row in rows)


def arrivals(
    rows: Sequence[Judged], sides: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Judged, str]]:
    """Yield rows in log order with each side that reads them."""
    for row in rows:
        topic = row.source.rpartition("/")[0]
        for side in (LEFT, RIGHT):
            if topic in sides[side]:
                yield row, side


def _taken(
    rules: JoinRules, left: Sequence[Judged], right: Sequence[Judged], run: JoinRun
) -> dict[str, list[Judged]]:
    """Return the accepted rows of each side; the others are noted in the run."""
    return {
        side: [row for row in rows if not _is_rejected(rules, side, row, run)]
        for side, rows in ((LEFT, left), (RIGHT, right))
    }


def _is_rejected(rules: JoinRules, side: str, row: Judged, run: JoinRun) -> bool:
    reason = None
    if row.at_ms + rules.lateness_ms < row.w_ms:
        reason = "late"
    elif side == LEFT and _upper(rules, row) is None:
        reason = "dead"
    if reason is not None:
        run.rejected.append(Rejected(side, row_id(row), reason))
    return reason is not None


def _upper(rules: JoinRules, row: Judged) -> int | None:
    """Return the upper bound of a left row, None where it has none."""
    if rules.upper is None:
        return rules.upper_ms
    own = rules.upper(row)
    return None if own is None or own < rules.lower_ms else min(own, rules.upper_ms)


def _pairs(rules: JoinRules, left: Judged, right: Judged) -> bool:
    """Whether accepted rows pair."""
    return _are_near(rules, left, right) and (rules.on is None or rules.on(left, right))


def _are_near(rules: JoinRules, left: Judged, right: Judged) -> bool:
    """Whether accepted rows may pair by key and time; a row never pairs with itself."""
    upper_ms = _upper(rules, left)
    assert upper_ms is not None
    return (
        left.key == right.key
        and left.at_ms + rules.lower_ms <= right.at_ms <= left.at_ms + upper_ms
        and row_id(left) != row_id(right)
    )


def _pair(left: Judged, right: Judged) -> Joined:
    return Joined(row_id(left), row_id(right), max(left.at_ms, right.at_ms))


def _alone(rules: JoinRules, side: str, row: Judged) -> Joined:
    """Return a result of one row alone, unmatched or matched by a semi join."""
    at_ms = _due_ms(rules, side, row) - 1
    return Joined(row_id(row), None, at_ms) if side == LEFT else Joined(None, row_id(row), at_ms)


def _due_ms(rules: JoinRules, side: str, row: Judged) -> int:
    """Return the clock from which a row and all its partners are complete."""
    reach_ms = _upper(rules, row) if side == LEFT else -rules.lower_ms
    assert reach_ms is not None
    return row.at_ms + max(reach_ms, 0) + 1


def _published_ms(rules: JoinRules, side: str, row: Judged) -> int:
    return _due_ms(rules, side, row) + (0 if rules.withdraws else rules.lateness_ms)


def _other(side: str) -> str:
    return RIGHT if side == LEFT else LEFT


def _lr(side: str, row: Judged, other: Judged) -> tuple[Judged, Judged]:
    return (row, other) if side == LEFT else (other, row)
