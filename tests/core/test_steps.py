"""Segments taken together: whatever goes at once, each gives what it gives alone."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import (
    test_early_properties,
    test_early_session_properties,
    test_early_sliding_properties,
    test_session_properties,
    test_sliding_properties,
    test_window_properties,
)
from tests.core.logs import event_logs
from tests.core.running import late_row, panes, run
from tidemark.core.windowed import WindowAggregate

KINDS = {
    "windows": (test_window_properties, test_window_properties.specs()),
    "discarding_windows": (test_early_properties, test_early_properties.specs((None,))),
    "early": (test_early_properties, test_early_properties.specs()),
    "sliding": (test_sliding_properties, test_sliding_properties.specs()),
    "discarding_sliding": (
        test_early_sliding_properties,
        test_early_sliding_properties.specs((None,)),
    ),
    "sessions": (test_session_properties, test_session_properties.specs()),
    "early_sessions": (test_early_session_properties, test_early_session_properties.specs()),
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


def together(operator, segments_of):
    """Take segments in groups; return panes and late rows of each segment, and what was counted."""
    clocks, state = operator.clocks(), operator.body.fresh()
    shown, late, rows = [], [], 0
    for segments in segments_of:
        begun, behind = [[] for _ in segments], []
        for steps in operator.steps(segments, clocks, state):
            made = panes(steps.output.panes, operator.key)
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
    operator = module.operator(spec, log.topics)
    alone = run(operator, segments)
    with patch.object(WindowAggregate, "most_pressing", data.draw(st.sampled_from((1, 2, 32)))):
        shown, late, rows, clock_ms = together(operator, data.draw(groups(segments)))
    assert shown == alone.steps[:-1]
    assert late == alone.late
    assert (rows, clock_ms) == (alone.rows, alone.clocks[-1])
