"""Late panes by count: those of on_close() that have enough rows, and the rest when final."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import COLUMNS, Commit, EventLog, Raw, Read, Record, event_logs, record
from tests.support.operators.late import KINDS, innermost, plain, waiting
from tests.support.running import AGGREGATION, Task, incidents, over
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.late_panes import LateAggregate
from tidemark.core.operators.sessions.operator import STRICT, SessionAggregate
from tidemark.core.operators.task import OperatorTask
from tidemark.core.windows.trigger import every, on_close
from tidemark.core.windows.window import Hopping, Session
from tidemark.errors import PipelineError

Pane = dict[str, Any]


@dataclass
class Waiting:
    """What is published of the accumulating panes of on_close(), pane by pane."""

    rows: int
    lateness_ms: int
    shown: dict[Any, Pane] = field(default_factory=dict)
    held: dict[Any, Pane] = field(default_factory=dict)

    def step(self, panes: list[Pane], before_ms: int, clock_ms: int) -> list[Pane]:
        gone = {(pane["key"], pane["start"]) for pane in panes if pane["retracted"]}
        found = []
        for pane in panes:
            at = pane["key"], pane["start"]
            if pane["retracted"]:
                last = self.shown.pop(at)
                self.held.pop(at, None)
                found.append({**pane, "end": last["end"], "revision": last["revision"]})
            elif self._is_published(pane, gone, before_ms, clock_ms):
                self.held.pop(at, None)
                found.append(pane)
                self.shown[at] = pane
            else:
                self.held[at] = pane
        for at in [at for at in self.held if self.held[at]["end"] + self.lateness_ms <= clock_ms]:
            self.shown[at] = self.held.pop(at)
            found.append({**self.shown[at], "final": True})
        return found

    def _is_published(self, pane: Pane, gone: set[Any], before_ms: int, clock_ms: int) -> bool:
        shown = self.shown.get((pane["key"], pane["start"]))
        corrects = pane["timing"] == "late" and pane["end"] <= before_ms
        replaces = any(
            key == pane["key"] and pane["start"] <= start < pane["end"] for key, start in gone
        )
        return (
            shown is None
            or (not corrects and pane["end"] > before_ms)
            or pane["end"] + self.lateness_ms <= clock_ms
            or replaces
            or pane["revision"] - shown["revision"] >= self.rows
        )


def ordered(panes: list[Pane]) -> list[str]:
    return sorted(map(repr, panes))


def steps(task: Any, log: EventLog, happen: Any = None) -> list[tuple[list[Pane], int, int]]:
    made = []
    for number, segment in enumerate(log.segments):
        before_ms = task.clock_ms
        panes = task.step(segment)["panes"].rows(named=True)
        made.append((panes, before_ms, task.clock_ms))
        if happen is not None:
            task.meet(happen, number)
    before_ms = task.clock_ms
    panes = task.finish()["panes"].drop("end_of_input").rows(named=True)
    return [*made, (panes, before_ms, task.clock_ms)]


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), log=event_logs(), happen=incidents(), rows=st.sampled_from((2, 3, 5)))
def test_panes_with_enough_rows_are_published_and_the_rest_when_final(  # D12
    kind: str, early: bool, data: Any, log: EventLog, happen: Any, rows: int
) -> None:
    operator = plain(data.draw, kind, log, early=early)
    inner = innermost(operator.body)
    found = steps(Task(waiting(operator, rows), happen.store), log, happen)
    expected = steps(OperatorTask(operator), log)
    if inner.discarding:
        for name in ("n", "total"):
            assert sums(found, kind, name) == sums(expected, kind, name)
        require_rows(found, rows, inner.allowed_lateness_ms)
    elif kind == "sessions" and early:
        # Early panes of sessions count from the last pane, so they fire at other rows.
        assert at_the_end(found) == at_the_end(expected)
    else:
        rule = Waiting(rows, inner.allowed_lateness_ms)
        for (panes, _, _), (all_, before_ms, clock_ms) in zip(found, expected, strict=True):
            assert ordered(panes) == ordered(rule.step(all_, before_ms, clock_ms))


def sums(made: list[Any], kind: str, name: str) -> Counter[Any]:
    """Add up discarding panes; those of sessions by key, since sessions merge."""
    totals: Counter[Any] = Counter()
    for panes, _, _ in made:
        for pane in panes:
            at = pane["key"] if kind == "sessions" else (pane["key"], pane["start"])
            totals[at] += pane[name] or 0
    return totals


def require_rows(made: list[Any], rows: int, lateness_ms: int) -> None:
    """Check that late panes of published windows have enough rows."""
    seen = set()
    for panes, before_ms, clock_ms in made:
        for pane in panes:
            at = pane["key"], pane["start"]
            correction = pane["timing"] == "late" and pane["end"] <= before_ms
            final = pane["end"] + lateness_ms <= clock_ms
            if correction and not final and at in seen and pane["revision"] > pane["n"]:
                assert pane["n"] >= rows or pane["end"] > before_ms, pane
            seen.add(at)


def at_the_end(made: list[Any]) -> dict[Any, Any]:
    held: dict[Any, Any] = {}
    for panes, _, _ in made:
        for pane in panes:
            at = pane["key"], pane["start"]
            if pane["retracted"]:
                held.pop(at, None)
            else:
                held[at] = {**pane, "final": None, "timing": None}
    return held


TRIGGER = on_close(late=every(rows=3))

BODIES = {
    "tumbling": LateAggregate(
        WindowAggregate(Hopping(10, 10), AGGREGATION, ("key",), COLUMNS, 10, TRIGGER)
    ),
    "sessions": SessionAggregate(Session(7), AGGREGATION, ("key",), COLUMNS, 10, TRIGGER, STRICT),
}


def shown(body: Any, times: tuple[int, ...]) -> list[str]:
    """Return the panes of the window that ends at 10 after each event, each in a segment."""
    records = tuple(Record(at, (("a", 1),)) for at in times)
    log = record(Raw({"t/0": records}, 0), [Commit((Read("t/0", 1),)) for _ in times])
    task, found = OperatorTask(over(("t",), body)), []
    for segment in log:
        panes = task.step(segment)["panes"].rows(named=True)
        found.append(
            " ".join(
                f"r{pane['revision']} {pane['timing']}" + ", final" * pane["final"]
                for pane in panes
                if pane["end"] == 10
            )
        )
    return found


def test_the_timeline_of_the_specification():
    times = (1, 3, 12, 2, 2, 3, 2, 21)

    assert shown(BODIES["tumbling"], times) == [
        "",
        "",
        "r2 on_time",
        "",
        "",
        "r5 late",
        "",
        "r6 late, final",
    ]
    assert shown(BODIES["sessions"], times) == shown(BODIES["tumbling"], times)


def test_only_counts_of_rows_are_taken():
    with pytest.raises(PipelineError, match=r"on_close\(late\): .* is not every\(rows=...\)"):
        on_close(late=every(event_time="1s"))
    assert on_close(late=every(rows=1)) == on_close()
    assert str(TRIGGER) == "on close, late every 3 rows"
    assert repr(TRIGGER) == "on_close(late=every(rows=3))"
