"""Run one case through its operator and collect what it published, in the words of the case."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemark.conformance.case import Case, Fields
from tidemark.conformance.feed import Feed, Step
from tidemark.conformance.rules import NotOfferedError
from tidemark.conformance.translate import Translation, translate
from tidemark.conformance.values import TIMES
from tidemark.core.operators.operator import Changes, Operator
from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import LATE, PANES
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import EVENT_TIME
from tidemark.core.windows.pane import EARLY, END, FINAL, RETRACTED, START, TIMING, WINDOW


@dataclass
class RunResult:
    """Results of a run in order, and the counts that cases may ask for."""

    results: list[dict[str, Any]] = field(default_factory=list)
    late: int = 0
    without_key: int = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Counts by the names that cases give them."""
        return {"late": self.late, "dropped": self.late + self.without_key}


class _Restartable:
    """An operator task and its changelog, as a service holds them."""

    def __init__(self, operator: Operator) -> None:
        self._task = OperatorTask(operator)
        self._changelog: list[Changes] = []

    @property
    def clock_ms(self) -> int:
        return self._task.clock_ms

    def take(self, step: Step) -> Output:
        if step.segment is None:
            return self._task.finish()
        output = self._task.step(step.segment)
        self._changelog.append(self._task.checkpoint().changes)
        return output

    def compact(self) -> None:
        """Replace the changelog by a snapshot."""
        self._changelog = list(self._task.snapshot())

    def restart(self) -> None:
        """Go on with nothing but the changelog and the clock."""
        task = OperatorTask(self._task.operator)
        task.restore(self._changelog, self._task.clocks.state(), self._task.next_offset)
        task.state.validate()
        self._task = task


def outputs(
    operator: Operator, steps: Iterable[Step], *, restart_often: bool
) -> Iterator[tuple[Step, Output, tuple[int, int]]]:
    """Yield what an operator publishes: the step, the output, and the clock before and after it.

    ``restart_often``: restart after each step.
    """
    task = _Restartable(operator)
    for step in steps:
        if step.restart:
            task.compact()
        if step.restart or restart_often:
            task.restart()
        if step.segment is not None or step.finish:
            before_ms = task.clock_ms
            output = task.take(step)
            yield step, output, (before_ms, task.clock_ms)


def run(case: Case, *, restart_often: bool = False) -> RunResult:
    """Run a case; ``restart_often``: restart after each step, which must not show."""
    translated = translate(case)
    operator = translated.plan.operator
    (side,) = operator.inputs
    feed = Feed(case, side.streams[0], side.columns, translated.row)
    collected = RunResult()
    for step, output, span in outputs(operator, feed.steps(), restart_often=restart_often):
        collected.results += _panes(case, translated, output, span, step.after)
        collected.results += _late(output, step.after)
        collected.late += output.late
    collected.without_key = feed.without_key
    return collected


def _panes(
    case: Case, translated: Translation, output: Output, span: tuple[int, int], after: int
) -> Iterator[dict[str, Any]]:
    lowest = case.window.get("min_start_ms")
    for pane in output[PANES].iter_rows(named=True):
        if lowest is not None and pane[START] < lowest:
            raise NotOfferedError("D11")
        if pane[FINAL] and "repeatedly" in case.spec.get("trigger", {}):
            raise NotOfferedError("last rows")
        result = {
            "key": pane["key"],
            "start": pane[START],
            "end": pane[END],
            "value": translated.value(pane),
        }
        if WINDOW in pane:
            result["window"] = pane[WINDOW]
        if TIMES in pane:
            result |= {"first_ts": pane[TIMES][0], "last_ts": pane[TIMES][-1]}
        for kind in _kinds(case, pane, span):
            yield {**result, "kind": kind, "after": after}


def _kinds(case: Case, pane: Fields, span: tuple[int, int]) -> tuple[str, ...]:
    """Say what a pane is to a case: whether it is the first since the clock reached its end.

    A session that a late row joined and that closes only now is ``on_time`` in that sense, though
    its timing is ``late``.  A window that a row of its own closes has one pane, which is the update
    by that row, too.
    """
    updates = case.emit.startswith("on_update")
    if pane[RETRACTED]:
        return ("retract",)
    if case.emit in ("on_update", "on_batch_update"):
        return ("update",)
    if pane[TIMING] == EARLY:
        return ("update",) if updates else ("early",)
    if case.emit == "on_final":
        return ("on_time",)
    if WINDOW in pane:
        return ("update", "on_time") if updates else ("on_time",)
    return ("on_time",) if span[0] < pane[END] <= span[1] else ("update",)


def _late(output: Output, after: int) -> Iterator[dict[str, Any]]:
    for row in output[LATE].iter_rows(named=True):
        value = row.get("value")
        yield {
            "key": row["key"],
            "ts": row[EVENT_TIME],
            "value": value,
            "kind": "late",
            "after": after,
        }
