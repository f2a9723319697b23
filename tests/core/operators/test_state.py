"""The promises of ``State``, kept by every family of operators (core/operators/operator.py)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.examples import fewer
from tests.support.logs import EventLog, event_logs
from tests.support.operators.families import FAMILIES
from tests.support.stores import stores
from tidemark.core.operators.operator import Changes, State
from tidemark.core.operators.output import Output
from tidemark.core.operators.task import OperatorTask
from tidemark.core.state import blocks, line_table
from tidemark.core.state.block_store import BlockStore
from tidemark.core.time.segment import NEVER_MS


def as_one(pieces: Sequence[Changes]) -> Changes:
    """Join pieces as a restore does."""
    names = dict.fromkeys(name for piece in pieces for name in piece)
    return {
        name: pl.concat([piece[name] for piece in pieces if name in piece], how="diagonal")
        for name in names
    }


def assert_same(got: Iterable[Changes], wanted: Iterable[Changes]) -> None:
    """Compare the lines of snapshots, in whichever order and pieces.

    A part that no line has may be a column of nulls, or no column.
    """
    there, expected = as_one([*got]), as_one([*wanted])
    assert there.keys() == expected.keys()
    for name, lines in expected.items():
        found = pl.concat([there[name], lines.clear()], how="diagonal")
        lines = pl.concat([lines, there[name].clear()], how="diagonal")
        assert_frame_equal(found, lines, check_row_order=False, check_column_order=False)


def assert_equal(got: Output, wanted: Output) -> None:
    """Compare what two tasks published in a step."""
    assert (got.rows, got.late, got.dead) == (wanted.rows, wanted.late, wanted.dead)
    assert got.frames.keys() == wanted.frames.keys()
    for port, frame in wanted.frames.items():
        assert got[port].columns == frame.columns
        assert got[port].equals(frame), port


def check_bounds(state: State, *, all_have: bool) -> None:
    """Check that open windows end after they begin; ``all_have``: whether all have bounds."""
    found = [*state.open_bounds()]
    bounded = sum(each.count_from(NEVER_MS) for each in found)
    assert bounded <= state.open_windows()
    assert bounded == state.open_windows() or not all_have
    for each in found:
        assert each.counts is None or each.counts.size == each.begin_ms.size
        ends = [each.end_of(place) for place in range(each.begin_ms.size)]
        assert bool((each.begin_ms <= ends).all())


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    """Make snapshots of many pieces, although states are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "PIECE_BYTES", 300)
        patch.setattr(line_table, "PIECE_LINES", 3)
        yield


@pytest.mark.parametrize("family", FAMILIES)
@fewer(4)
@given(data=st.data(), log=event_logs())
def test_changes_in_order_are_the_state(family: str, data: Any, log: EventLog) -> None:
    case = FAMILIES[family](data.draw, log)
    task, told = OperatorTask(case.operator), OperatorTask(case.operator)
    assert (task.state.size_bytes(), task.state.open_windows()) == (0, 0)
    assert [*task.state.snapshot()] == []
    for segment in case.segments:
        task.step(segment)
        task.state.validate()
        assert task.state.size_bytes() >= 0
        check_bounds(task.state, all_have=case.closes and not case.versions)
        changes = task.state.changes()
        assert all(frame.height for frame in changes.values())
        assert task.state.changes() == {}
        told.state.apply(changes)
        told.state.validate()
        assert_same(told.state.snapshot(), task.state.snapshot())
        assert told.state.open_windows() == task.state.open_windows()
    told.resume(task.clocks.state(), task.next_offset)
    assert_equal(told.finish(), task.finish())
    task.state.purge(task.clock_ms)
    if case.closes:
        assert task.state.open_windows() == 0
    if case.forgets:
        assert [*task.state.snapshot()] == []
        assert task.state.size_bytes() == 0


@pytest.mark.parametrize("family", FAMILIES)
@fewer(4)
@given(data=st.data(), log=event_logs(), store=stores())
def test_a_snapshot_is_the_state_of_its_moment_and_purges_show_nowhere(
    family: str, data: Any, log: EventLog, store: BlockStore
) -> None:
    """Compare a task that is purged and restored with one that is not.

    The snapshot is taken after one step and made into pieces after a later one.
    """
    case = FAMILIES[family](data.draw, log)
    steps = st.integers(0, len(case.segments) - 1)
    purges, taken = data.draw(st.frozensets(steps)), data.draw(steps)
    moved = data.draw(st.integers(taken, len(case.segments) - 1))
    kept, task = OperatorTask(case.operator), OperatorTask(case.operator, store)
    later: Iterator[Changes] = iter(())
    at_once: list[Changes] = []
    since: list[Changes] = []
    for number, segment in enumerate(case.segments):
        assert_equal(task.step(segment), kept.step(segment))
        task.state.validate()
        since.append(task.state.changes())
        if number in purges:
            task.state.purge(task.clock_ms)
            task.state.validate()
        if number == taken:
            at_once, later, since = [*task.state.snapshot()], task.state.snapshot(), []
        if number == moved:
            pieces = [*later]
            assert_same(pieces, at_once)
            order = data.draw(st.permutations(pieces))
            whole = [as_one(order)] if order and data.draw(st.booleans()) else order
            restored = OperatorTask(case.operator, store)
            restored.restore(whole, task.clocks.state(), task.next_offset)
            assert_same(restored.state.snapshot(), at_once)
            for changes in since:
                restored.state.apply(changes)
            restored.state.validate()
            task = restored
    assert_equal(task.finish(), kept.finish())
