"""Replays of random chains in this process: from recorded rows, and with stages that run again.

docs/replay.md, "Chains".
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.chain import Stage, Windows
from tests.spark.support.remade import (
    Logs,
    end_of,
    live,
    logs_of,
    raw_only,
    replayed,
    stopped_after,
    with_stages,
    written,
)
from tests.support.random_chains import (
    LATE_ACTIONS,
    RUNNING,
    SECOND,
    build,
    build_late,
    happen,
    late_stages,
)
from tidemark.core.time.segment import operator_source
from tidemark.serde.segments import decode_segment
from tidemark.spark.replay.stages import remade_stage
from tidemark.testing import InProcess

WINDOWS = st.one_of(
    st.builds(lambda n: Windows("hopping", n * SECOND, n * SECOND), st.integers(3, 12)),
    st.builds(lambda n: Windows("hopping", 2 * n * SECOND, n * SECOND), st.integers(2, 5)),
    st.builds(lambda n: Windows("sliding", n * SECOND), st.integers(1, 6)),
    st.builds(lambda n: Windows("session", n * SECOND), st.integers(2, 9)),
)
STAGES = st.builds(
    Stage,
    WINDOWS,
    st.sampled_from([0, 0, 3 * SECOND]),
    st.integers(1, 2),
    st.sampled_from(["value", "all"]),
    st.just("final"),
    st.just("close"),
)
CHAINS = st.lists(STAGES, min_size=2, max_size=3).map(tuple)
CHANGES = st.lists(
    st.tuples(st.sampled_from([0, 3 * SECOND]), st.integers(1, 2)), min_size=3, max_size=3
)
ACTIONS = st.lists(RUNNING, min_size=1, max_size=10)


def ran(stages: tuple[Stage, ...], partitions: int, actions: Sequence[Any]) -> InProcess:
    """Return a run over two raw partitions that ends with silence, so that all windows close."""
    run = InProcess(build(stages, partitions, SECOND), raw_partitions=2)
    happen(run, actions, SECOND)
    return run


@settings(max_examples=6)
@given(CHAINS, st.sampled_from([1, 2, 4]), ACTIONS, st.integers(1, 3))
def test_recorded_logs_are_replayed_and_run_again_to_the_bit(stages, partitions, actions, slices):
    run = ran(stages, partitions, actions)
    logs = logs_of(run)
    assert replayed(run.plan, logs, slices) == live(run)
    assert with_stages(run.plan, run.plan.derived, logs) == logs


LATE = late_stages(WINDOWS, SECOND)
LATE_RUNNING = LATE_ACTIONS.filter(lambda action: action[0] != "crash")


def ran_late(chain: tuple[Stage, ...], partitions: int, actions: Sequence[Any]) -> InProcess:
    """Return a run whose stages read the late rows of those before."""
    run = InProcess(build_late(chain, partitions, SECOND), raw_partitions=2)
    happen(run, actions, SECOND)
    return run


@settings(max_examples=6)
@given(LATE, st.sampled_from([1, 2, 4]), st.lists(LATE_RUNNING, min_size=1), st.integers(1, 3))
def test_late_rows_are_replayed_and_run_again_to_the_bit(chain, partitions, actions, slices):
    run = ran_late(chain, partitions, actions)
    logs = logs_of(run)
    assert replayed(run.plan, logs, slices) == live(run)
    assert with_stages(run.plan, run.plan.derived, logs) == logs


@settings(max_examples=6)
@given(LATE, st.sampled_from([1, 2]), st.lists(LATE_RUNNING, min_size=1), st.integers(0, 9))
def test_late_rows_of_other_windows_are_what_services_would_give(chain, partitions, actions, more):
    """The first windows accept other rows than the recorded ones, or the stages are new."""
    before = ran_late(chain, partitions, actions)
    lateness_ms = chain[0].lateness_ms + more * SECOND
    wanted = ran_late((chain[0]._replace(lateness_ms=lateness_ms), *chain[1:]), partitions, actions)
    for old in (logs_of(before), raw_only(logs_of(wanted))):
        logs: Logs = {at: [] for at in logs_of(wanted)} | old
        made = with_stages(wanted.plan, wanted.plan.derived, logs)
        assert last_of_all(replayed(wanted.plan, made)) == last_of_all(live(wanted))


def last_of_all(topics: dict[str, Counter[str]]) -> dict[str, Any]:
    """Return the last pane of each key and window by topic, and all late rows."""
    found: dict[str, Any] = {}
    for topic, lines in topics.items():
        if topic.endswith(".late"):
            found[topic] = lines
            continue
        panes = sorted(map(json.loads, lines), key=lambda pane: pane["revision"])
        found[topic] = {(p["key"], p["start"], p["end"]): (p["n"], p["total"]) for p in panes}
    return found


@settings(max_examples=4)
@given(CHAINS, st.sampled_from([1, 2, 4]), ACTIONS, CHANGES, st.lists(st.floats(0, 1), min_size=1))
def test_changed_and_new_stages_give_what_services_would(
    stages, partitions, actions, changes, shares
):
    """The logs have the marks of the stages before the change, or neither rows nor marks of them.

    Logs are written anew where the services of the stages stopped somewhere, and ingest went on.
    """
    before = ran(stages, partitions, actions)
    changed = tuple(
        stage._replace(lateness_ms=lateness_ms, least=least)
        for stage, (lateness_ms, least) in zip(stages, changes, strict=False)
    )
    wanted = ran(changed, partitions, actions)
    logs: Logs = {at: [] for at in logs_of(wanted)} | logs_of(before)
    for old in (logs, raw_only(logs_of(wanted))):
        made = with_stages(wanted.plan, wanted.plan.derived, old)
        assert finals(replayed(wanted.plan, made, 2)) == finals(live(wanted))
    stopped = stopped_after(logs, shares)
    made = written(with_stages(wanted.plan, wanted.plan.derived, stopped, whole=True))
    assert finals(replayed(wanted.plan, made)) == finals(live(wanted))
    _require_all_reached(wanted, made)


def _require_all_reached(wanted: InProcess, made: Logs) -> None:
    """Require that the last marks in the logs are those that the stages have reached."""
    ends = {at: end_of(wanted.plan, at, values) for at, values in made.items()}
    for derived in wanted.plan.derived:
        name = derived.operator
        (log,) = (each.log for each in wanted.plan.operators if each.name == name)
        own = {at.number: end for at, end in ends.items() if at.topic == log}
        reached = [end.progress()[name] for end in own.values()]
        lowest = min(each.watermark_ms for each in reached), all(each.is_idle for each in reached)
        for at in remade_stage(wanted.plan, derived, [*made]).fed:
            marks = [mark for _, value in made[at] for mark in decode_segment(value, ()).sources]
            of_stage = [mark for mark in marks if mark.source == derived.source]
            assert (of_stage[-1].watermark_ms, of_stage[-1].idle) == lowest
            for number, end in own.items():
                (rows,) = {p.handed_on for each, p in end.snapshots() if each.name == name}
                source = operator_source(name, number)
                assert all(mark.next_offset <= rows for mark in marks if mark.source == source)


def finals(topics: dict[str, Counter[str]]) -> tuple[dict[Any, Any], dict[str, Counter[str]]]:
    """Return the last pane of each key and window of the output, and all late rows."""
    shown = ("n", "total", "last")
    panes = [json.loads(line) for line in topics.get("chain.out", ())]
    panes.sort(key=lambda pane: pane["revision"])
    last = {
        (pane.get("key"), pane["start"], pane["end"]): [pane[name] for name in shown]
        for pane in panes
    }
    return last, {name: each for name, each in topics.items() if name.endswith(".late")}
