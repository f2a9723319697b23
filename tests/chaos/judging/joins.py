"""Whether joins of a run hold what slow Python makes of the rows of the raw records."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.chaos.joining import Join, join_name, joins_of
from tests.chaos.judging.chains import Log, operator_of
from tests.chaos.judging.rows import differing, published_id, rows_of_input, rows_published
from tests.chaos.pipelines import END, TOPICS
from tests.chaos.recorded import Recorded
from tests.oracles import broadcast_join, window_join
from tests.oracles.chain import Result, Row, results
from tests.oracles.clock import Judged, RowId, row_id
from tests.oracles.join import Joined, JoinRun, gathered, joined
from tests.oracles.table_join import answered_at_the_end
from tidemark.plan.logical import SIDES
from tidemark.plan.physical import OperatorPlan, Plan

Published = dict[str, Any]

_SHOWN = ("key", "at", "value", "key_right", "at_right", "value_right", "_event_time_ms")


class JudgedJoin:
    """A join with the rows that ingest makes of the raw records."""

    def __init__(self, plan: Plan, number: int, join: Join, wanted: Log) -> None:
        """Join rows; ``wanted``: the rows of the log of the join."""
        self._plan, self._join, self._name = plan, join, join_name(number)
        self.operator = operator_of(plan, self._name)
        left, right = (rows_of_input(self.operator, side, wanted) for side in SIDES)
        self._rows = {row_id(row): row for row in (*left, *right)}
        self._is_broadcast = join.bounds.kind == "broadcast"
        if self._is_broadcast:
            runs = [_run(join, left, right)]
        else:
            runs = [
                _run(join, *([row for row in rows if row.key == key] for rows in (left, right)))
                for key in {row.key for row in self._rows.values()}
            ]
        self.results: list[Joined] = [each for run in runs for each in run.standing]
        self._late = Counter((each.side, each.row) for run in runs for each in run.rejected)

    def differences(self, recorded: Recorded) -> Iterator[str]:
        """Yield what differs in the rows that a sink holds at the end, and in the late rows."""
        wanted = Counter(map(self._shown, self.results))
        got = Counter(tuple(map(row.get, _SHOWN)) for row in self._held(recorded))
        yield from differing(self.operator.results.topic, got, wanted)
        late = Counter(
            (side, published_id(row))
            for side in SIDES
            for row in rows_published(self.operator.port(f"late-{side}"), recorded)
        )
        yield from differing(f"late rows of {self._name}", late, self._late)

    def _held(self, recorded: Recorded) -> Iterable[Published]:
        rows: dict[str, Published] = {}
        for row in rows_published(self.operator.results, recorded):
            if row.get("retracted"):
                del rows[row["_id"]]
            elif row["key"] != END:
                rows[row["_id"]] = row
        return rows.values()

    def sums(self) -> Iterator[tuple[OperatorPlan, set[Result]]]:
        """Yield the output of the chain that follows, if there is one, with its results."""
        if self._join.stages:
            values = (self._shown(each) for each in self.results)
            rows = [Row(shown[-1], shown[0], shown[2] or 0) for shown in values]
            yield operator_of(self._plan, f"{self._name}-sums"), results(self._join.stages, rows)

    def _shown(self, result: Joined) -> tuple[Any, ...]:
        """Return the columns of a result; those of the key are of the side that is there."""
        left, right = (self._of(each) for each in (result.left, result.right))
        shown = right if self._join.how not in ("semi", "anti") else ()
        there = left or right
        return (
            there[0],
            *(left[1:] if left else (None, None)),
            shown[0] if shown and self._is_broadcast else None,
            *(shown[1:] if shown else (None, None)),
            result.at_ms,
        )

    def _of(self, row: RowId | None) -> tuple[Any, ...]:
        if row is None:
            return ()
        found = self._rows[row]
        return found.key, found.at_ms, found.value


def _run(join: Join, left: Sequence[Judged], right: Sequence[Judged]) -> JoinRun:
    """Return what slow Python makes of rows, of one key unless the table is a broadcast one."""
    match join.bounds.kind:
        case "time":
            return joined(join.rules, left, right)
        case "first":
            return gathered(join.rules, left, right, lambda row: row.value)
        case "window":
            return window_join.joined(join.window_rules, left, right)
        case "table":
            return answered_at_the_end(join.table_rules(*TOPICS), left, right)
        case "broadcast":
            rules = join.broadcast_rules(*TOPICS)
            return broadcast_join.answered_at_the_end(rules, left, right)


def judged_joins(
    plan: Plan, joins: Sequence[Any], wanted: Mapping[str, Log]
) -> Iterator[JudgedJoin]:
    """Yield the joins of a run; ``joins``: as ``build`` takes them."""
    for number, join in enumerate(joins_of(joins)):
        log = operator_of(plan, join_name(number)).log
        yield JudgedJoin(plan, number, join, wanted[log])
