"""Segments taken together: whatever goes at once, each gives what it gives alone."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import LateRow, Pane
from tests.oracles.arrival import NumberedPane
from tests.support.logs import event_logs
from tests.support.operators import (
    aligned,
    arrival,
    early_aligned,
    early_sessions,
    early_sliding,
    sessions,
    sliding,
)
from tests.support.running import late_row, panes, run
from tidemark.core.operators.aligned import state as slices
from tidemark.core.operators.aligned.operator import WindowAggregate

KINDS = {
    "windows": (aligned, aligned.specs()),
    "discarding_windows": (early_aligned, early_aligned.specs((None,))),
    "early": (early_aligned, early_aligned.specs()),
    "sliding": (sliding, sliding.specs()),
    "discarding_sliding": (
        early_sliding,
        early_sliding.specs((None,)),
    ),
    "sessions": (sessions, sessions.specs()),
    "arrival": (
        arrival,
        arrival.specs(triggers=st.none() | arrival.EVERY),
    ),
    "discarding_arrival": (arrival, arrival.discarding_specs()),
    "early_sessions": (early_sessions, early_sessions.specs()),
}


@st.composite
def groups(draw, segments):
    """Draw which segments go together."""
    rest, made = list(segments), []
    while rest:
        size = draw(st.integers(1, len(rest)))
        made.append(rest[:size])
        rest = rest[size:]
    return made


def together(operator, segments_of, shape):
    """Take segments in groups; return panes and late rows of each segment, and what was counted."""
    clocks, state = operator.clocks(), operator.body.fresh()
    shown, late, rows = [], [], 0
    for segments in segments_of:
        begun: list[list[Any]] = [[] for _ in segments]
        behind: list[tuple[int, LateRow]] = []
        for steps in operator.steps(segments, clocks, state):
            made = panes(steps.output.panes, operator.key, shape)
            for number, pane in zip(steps.of_pane.tolist(), made, strict=True):
                begun[number].append(pane)
            behind += zip(
                steps.of_late.tolist(),
                map(late_row, steps.output.late.iter_rows(named=True)),
                strict=True,
            )
            rows += steps.output.rows
            state.purge(steps.clock_ms)
            state.validate()
        assert [number for number, _ in behind] == sorted(number for number, _ in behind)
        shown += begun
        late += [row for _, row in behind]
    return shown, late, rows, clocks.clock_ms


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), log=event_logs())
def test_segments_taken_together_give_what_each_gives_alone(kind, data, log):
    module, specs = KINDS[kind]
    spec, segments = data.draw(specs), log.segments
    if kind == "sessions":
        segments = module.with_gaps(segments)
    numbered = module is arrival
    shape = NumberedPane if numbered else Pane
    operator = module.operator(*(spec if numbered else (spec,)), log.topics)
    alone = run(operator, segments, pane=shape)
    with (
        patch.object(WindowAggregate, "most_pressing", data.draw(st.sampled_from((1, 2, 32)))),
        patch.object(slices, "_PORTION_BYTES", data.draw(st.sampled_from((100, 2**25)))),
    ):
        shown, late, rows, clock_ms = together(operator, data.draw(groups(segments)), shape)
    assert shown == alone.steps[:-1]
    assert late == alone.late
    assert (rows, clock_ms) == (alone.rows, alone.clocks[-1])
