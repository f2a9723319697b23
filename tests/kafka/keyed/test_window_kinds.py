"""Every window kind, trigger and holding aggregate through the services, killed twice.

Records of several keys come out of order, some too late, some without a use.  What the services
publish is compared with one run in process over the same records.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.kafka.pipelines import kinds
from tests.kafka.support.stack import Stack
from tests.kafka.support.visits import visits
from tidemark.core.operators.ports import APPEND
from tidemark.local.run import LocalRun, OperatorResults
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.testing.in_process import decoded

CHUNK = 120
KEYED = ("windowing", "sessions")
BY_CLOCK = ("clock-tumbling", "clock-sessions")
EVERY_CLOCK = "every-clock"

NAMES = ("revision", "timing", "retracted")
"""What, with the window, names a pane."""

HANGING = {"final", "end_of_input"}
Pane = dict[str, Any]


def in_process(name: str) -> LocalRun:
    local = LocalRun(kinds.build(name).plan())
    list(local.run({f"{name}-moves": visits()}))
    return local


@pytest.mark.long
def test_killing_windows_of_every_kind_changes_nothing(broker, tmp_path):
    """State is on disk here; tests/spark kills windows of every kind whose state is in memory."""
    expected = in_process("kinds-on-disk")
    records = visits()
    env: dict[str, Any] = {
        "TIDEMARK_SNAPSHOT_COMMITS": "2",
        "TIDEMARK_STATE_BACKEND": "rocksdb",
        "TIDEMARK_STATE_DIR": str(tmp_path),
        "TIDEMARK_STATE_MEMORY_MB": "0",
    }
    with Stack(broker, "kinds-on-disk", module=kinds, **env) as stack:
        stack.start()
        for begin in range(0, len(records), CHUNK):
            stack.produce((0, None, value) for value in records[begin : begin + CHUNK])
            if begin in (3 * CHUNK, 7 * CHUNK):
                for name in ("rolling", "sessions-updates"):
                    stack.await_results(name, _more_than(begin // 2))
                stack.kill(*KEYED)
                damaged = list(_damaged(tmp_path)) if begin == 7 * CHUNK else []
                stack.start(*KEYED)
            time.sleep(0.1)
        # Heartbeats alone close these, so by then all else is done.
        for name in BY_CLOCK:
            stack.await_results(name, _of_rows(expected.published[name].tally.rows))
        assert set(stack.stop().values()) == {0}
        logs = "".join(text for _, text in stack.logs())
        assert logs.count("is built anew: ") == len(damaged)
        assert damaged
        names = [name for each in stack.plan.operators for name in each.topics]
        seen = {
            name: [value or b"" for _, value in records]
            for name, records in stack.all_committed(names).items()
        }
        dead = Counter(row["offset"] for row in stack.results("dead-letters"))
        assert dead == Counter(letter.offset for letter in expected.dead_letters)
    faults = [fault for each in expected.published.values() for fault in _faults(seen, each)]
    assert faults == []


def _more_than(count: int) -> Callable[[list[Pane]], bool]:
    return lambda panes: len(panes) > count


def _of_rows(count: int) -> Callable[[list[Pane]], bool]:
    return lambda panes: sum(pane["n"] for pane in panes) == count


def _damaged(state: Path) -> Iterator[str]:
    """Damage every other mirror of a changelog; yield the names of those."""
    for number, mirror in enumerate(sorted((state / "changelogs").glob("*[0-9]"))):
        if number % 2:
            (mirror / "CURRENT").write_bytes(b"MANIFEST-9\n")
            yield mirror.name


def _faults(seen: Mapping[str, list[bytes]], local: OperatorResults) -> Iterator[str]:
    """Name what differs between the topics of an operator and its run in process."""
    plan, name = local.plan, local.plan.operator.name
    results, missed = plan.results, plan.port("late")
    encoder = encoder_of(results)
    panes = decoded(encoder, seen[results.topic])
    here = local.every("panes")
    if name not in (*BY_CLOCK, EVERY_CLOCK):
        here = here.filter(~pl.col("end_of_input"))
    wanted = decoded(encoder, encoder.encode(here)[1])
    assert wanted, f"{name} publishes nothing"
    yield from _differences(name, _held(plan, panes), _held(plan, wanted))
    late = local.every("late")
    there = encoder_of(missed).encode(late)[1] if late.height else []
    if sorted(seen[missed.topic]) != sorted(there):
        yield f"{name}: {len(seen[missed.topic])} late rows, wanted {late.height}"
    names = Counter(tuple(map(pane.get, (*_window(plan), *NAMES))) for pane in panes)
    yield from (f"{name}: {n} times {named}" for named, n in names.items() if n > 1)


def _window(plan: OperatorPlan) -> tuple[str, ...]:
    return plan.results.port.identity


def _held(plan: OperatorPlan, panes: Iterable[Pane]) -> dict[tuple[Any, ...], Pane]:
    """Return what a sink holds of each window: the last pane, or the sum of what is discarded.

    Left out is what hangs on cuts or on the wall clock.
    """
    held: dict[tuple[Any, ...], Pane] = {}
    by_clock = plan.operator.name in BY_CLOCK
    for pane in panes:
        names = plan.results.port.key if by_clock else _window(plan)
        window = tuple(pane[name] for name in names)
        if pane.get("retracted"):
            del held[window]
        elif plan.results.port.mode == APPEND or by_clock:
            held[window] = _added(held.get(window, {}), pane)
        else:
            left_out = HANGING | ({"timing"} if plan.operator.name == EVERY_CLOCK else set())
            held[window] = {name: v for name, v in pane.items() if name not in left_out}
    return held


def _added(held: Pane, pane: Pane) -> Pane:
    return {name: held.get(name, 0) + (pane.get(name) or 0) for name in ("n", "v")}


def _differences(name: str, got: Mapping[Any, Pane], wanted: Mapping[Any, Pane]) -> Iterator[str]:
    for window in [*wanted, *(window for window in got if window not in wanted)]:
        if got.get(window) != wanted.get(window):
            yield f"{name} {window}: {got.get(window)}, wanted {wanted.get(window)}"
