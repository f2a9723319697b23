"""Late rows, updates and pairs of a join, run again in this process (docs/replay.md, "Chains")."""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache

import pytest

from tests.kafka.pipelines.chains import stages
from tests.kafka.support.chains import Panes, in_parts, moves, panes
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
from tidemark.testing import InProcess


@cache
def ran(least: int) -> InProcess:
    run = InProcess(stages.build("kinds", least))
    for part in in_parts(moves(seed=31, count=160), 8):
        run.send("kinds-moves", *map(json.loads, part))
    return run


def standing(topics: Mapping[str, Counter[str]]) -> dict[str, Panes]:
    """Return the last pane of each key and window, by output."""
    found = {}
    for name in ("again", "sums", "pairs"):
        lines = [*map(json.loads, topics[f"kinds.{name}"])]
        found[name] = panes(sorted(lines, key=lambda line: line["revision"]))
    assert all(found.values())
    return found


def test_the_same_stages_of_each_kind_give_the_same_segments():
    run = ran(1)
    logs = logs_of(run)
    assert replayed(run.plan, logs, 2) == live(run)
    assert with_stages(run.plan, run.plan.derived, logs) == logs


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_a_hand_over_of_changed_stages_of_each_kind_gives_what_services_would(share):
    wanted = ran(3)
    logs: Logs = {at: [] for at in logs_of(wanted)} | stopped_after(logs_of(ran(1)), [share])
    made = written(with_stages(wanted.plan, wanted.plan.derived, logs, whole=True))
    assert standing(replayed(wanted.plan, made)) == standing(live(wanted)) != standing(live(ran(1)))


def test_new_stages_of_each_kind_give_what_services_would():
    run = ran(1)
    made = with_stages(run.plan, run.plan.derived, raw_only(logs_of(run)))
    assert standing(replayed(run.plan, made, 2)) == standing(live(run))
