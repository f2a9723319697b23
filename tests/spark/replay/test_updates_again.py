"""Replays in this process of random chains whose stages hand on every result, and run again.

docs/replay.md, "Chains".  What stands at the end is what services give.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.oracles.chain import Stage, Windows
from tests.spark.support.remade import (
    Logs,
    live,
    logs_of,
    raw_only,
    replayed,
    stopped_after,
    with_stages,
    written,
)
from tests.support.random_chains import RUNNING, SECOND, WINDOWS, build, happen, updating
from tidemark.testing import InProcess

RUNS = st.tuples(
    updating(WINDOWS, SECOND),
    st.sampled_from([1, 2, 4]),
    st.lists(RUNNING, min_size=1, max_size=8),
)
CHANGES = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 2)), min_size=3, max_size=3)
"""For each stage: seconds of allowed lateness to add, and the rows that a window needs."""


def ran(stages: tuple[Stage, ...], partitions: int, actions: Sequence[Any]) -> InProcess:
    """Return a run over two raw partitions that ends with silence, so that all windows close."""
    run = InProcess(build(stages, partitions, SECOND), raw_partitions=2)
    happen(run, actions, SECOND)
    return run


def changed(stages: tuple[Stage, ...], changes: Sequence[tuple[int, int]]) -> tuple[Stage, ...]:
    return tuple(
        stage._replace(lateness_ms=stage.lateness_ms + more * SECOND, least=least)
        for stage, (more, least) in zip(stages, changes, strict=False)
    )


def standing(topics: Mapping[str, Counter[str]]) -> tuple[dict[Any, Any], dict[str, Counter[str]]]:
    """Return the pane that stands of each key and window of the output, and all late rows."""
    panes = sorted(map(json.loads, topics.get("chain.out", ())), key=lambda it: it["revision"])
    last = {(pane.get("key"), pane["start"]): pane for pane in panes}
    shown = {
        window: [pane[name] for name in ("end", "n", "total", "last")]
        for window, pane in last.items()
        if not pane.get("retracted")
    }
    return shown, {name: each for name, each in topics.items() if name.endswith(".late")}


@settings(max_examples=4)
@given(RUNS, st.integers(1, 3))
def test_the_same_updates_are_replayed_and_run_again_to_the_bit(run_of, slices):
    run = ran(*run_of)
    logs = logs_of(run)
    assert replayed(run.plan, logs, slices) == live(run)
    assert with_stages(run.plan, run.plan.derived, logs) == logs


ROWS_AND_NO_MARK = (
    Stage(Windows("sliding", 5 * SECOND), after="every", trigger="update"),
    Stage(Windows("session", 6 * SECOND), key="all"),
    Stage(Windows("hopping", 10 * SECOND, 5 * SECOND)),
)
"""A chain whose first stage has rows in its log before it has a mark there."""


@settings(max_examples=4)
@given(RUNS, CHANGES, st.lists(st.floats(0, 1), min_size=1))
@example(
    (ROWS_AND_NO_MARK, 1, [("send", 1, [("b", 6, 4), ("b", -5, 2), ("c", 0, 2), ("b", 3, 4)])]),
    [(6, 1), (8, 2), (5, 1)],
    [0.35],
)
def test_changed_and_new_updates_give_what_services_would(run_of, changes, shares):
    """The logs have the marks of the stages before the change, or no marks of stages.

    Logs are written anew where the services of the stages stopped somewhere, and ingest went on.
    """
    stages, partitions, actions = run_of
    before = ran(stages, partitions, actions)
    wanted = ran(changed(stages, changes), partitions, actions)
    logs: Logs = {at: [] for at in logs_of(wanted)} | logs_of(before)
    for old in (logs, raw_only(logs_of(wanted))):
        made = with_stages(wanted.plan, wanted.plan.derived, old)
        assert standing(replayed(wanted.plan, made)) == standing(live(wanted))
    stopped = stopped_after(logs, shares)
    made = written(with_stages(wanted.plan, wanted.plan.derived, stopped, whole=True))
    assert standing(replayed(wanted.plan, made)) == standing(live(wanted))
