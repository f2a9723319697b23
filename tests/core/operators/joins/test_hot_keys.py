"""A join with a hot key makes few pairs at once: the same results, within bounded memory."""

import json
import subprocess
import sys
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.join import run_join
from tests.patience import PATIENCE_S
from tests.support.joins import hot_key
from tests.support.joins.stream import LOGS, SIDES, heard_by, operator, read, rules, run, same
from tests.support.logs import EventLog, event_logs
from tests.support.operators.families import FAMILIES
from tests.support.operators.published import published
from tests.support.running import incidents
from tidemark.core.operators.joins import pairs
from tidemark.core.operators.task import OperatorTask

FEW_AT_ONCE = patch.object(pairs, "_PORTION_PAIRS", 2)


@given(LOGS, rules(), st.sampled_from((1, 2, 100)), incidents())
def test_portions_with_few_pairs_change_no_result(log, drawn, most, happen):
    drawn = drawn._replace(max_pairs=most)
    expected = run_join(drawn, heard_by(SIDES, log.segments), SIDES)

    with FEW_AT_ONCE:
        same(run(operator(drawn), read(log), happen), expected)


@given(st.data(), event_logs())
def test_a_batch_with_too_many_pairs_is_taken_segment_by_segment(data: Any, log: EventLog) -> None:
    case = FAMILIES["join"](data.draw, log)
    alone, task = OperatorTask(case.operator), OperatorTask(case.operator)

    outputs = [alone.step(segment) for segment in case.segments]
    with FEW_AT_ONCE:
        steps = [*task.steps(case.segments)]

    for port in case.operator.outputs:
        found = [row for each in steps for row in published(task, port.name, each.output)]
        assert found == [row for each in outputs for row in published(alone, port.name, each)]


def test_a_key_with_billions_of_pairs_needs_little_memory() -> None:
    """The first portion of rows has 64 rows with 200,000 partners each."""
    ran = subprocess.run(
        [sys.executable, "-m", hot_key.__name__], capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert ran.returncode == 0, ran.stderr[-2_000:]
    found = json.loads(ran.stdout)
    assert found["pairs"] == [200_000] * 3
    assert found["refused"] == {"more than 100000 pairs": 20_000}
    assert found["grown_bytes"] < 400 * 2**20
