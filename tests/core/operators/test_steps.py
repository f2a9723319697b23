"""Segments taken together: whatever goes at once, each gives what it gives alone."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.logs import EventLog, event_logs
from tests.support.operators.families import FAMILIES
from tests.support.operators.published import in_order_of_results, published
from tidemark.core.operators.aligned import state as slices
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import Segment


@st.composite
def groups(draw, segments):
    """Draw which segments go together."""
    rest, made = list(segments), []
    while rest:
        size = draw(st.integers(1, len(rest)))
        made.append(rest[:size])
        rest = rest[size:]
    return made


def together(
    task: OperatorTask, batches: Sequence[Sequence[Segment]]
) -> dict[str, list[list[Any]]]:
    """Take segments in groups; return by port what each segment published."""
    shown: dict[str, list[list[Any]]] = {port.name: [] for port in task.operator.outputs}
    for segments in batches:
        for made in shown.values():
            made += [[] for _ in segments]
        for steps in task.steps(segments):
            for name, numbers in steps.segment_of.items():
                assert (np.diff(numbers) >= 0).all()
                made = shown[name][-len(segments) :]
                for number, row in zip(
                    numbers.tolist(), published(task, name, steps.output), strict=True
                ):
                    made[number].append(row)
            task.state.purge(steps.clock_ms)
            task.state.validate()
    return shown


@pytest.mark.parametrize("family", FAMILIES)
@fewer(4)
@given(data=st.data(), log=event_logs())
def test_segments_taken_together_give_what_each_gives_alone(
    family: str, data: Any, log: EventLog
) -> None:
    case = FAMILIES[family](data.draw, log)
    alone, task = OperatorTask(case.operator), OperatorTask(case.operator)
    outputs = [alone.step(segment) for segment in case.segments]
    with (
        patch.object(WindowAggregate, "max_late_segments", data.draw(st.sampled_from((1, 2, 32)))),
        patch.object(slices, "_PORTION_BYTES", data.draw(st.sampled_from((100, 2**25)))),
    ):
        shown = together(task, data.draw(groups(case.segments)))
    for name, made in shown.items():
        wanted = [published(alone, name, output) for output in outputs]
        # Portions of a segment come one after the other, so only the order of a result is the same.
        assert [*map(in_order_of_results, made)] == [*map(in_order_of_results, wanted)]
    assert (task.tally, task.clock_ms) == (alone.tally, alone.clock_ms)
