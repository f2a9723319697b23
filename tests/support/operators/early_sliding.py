"""Sliding windows with early or discarding panes, with drawn settings."""

from hypothesis import strategies as st

from tests.oracles.early_sliding import Spec
from tests.support.operators.early import early_operator
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.windows.window import Sliding


def operator(spec, topics):
    return early_operator(SlidingAggregate, Sliding(spec.reach_ms), spec, topics)


@st.composite
def specs(draw, kinds=("rows", "rows", "event_time", "processing_time", None)):
    kind = draw(st.sampled_from(kinds))
    interval = 1_500 if kind == "processing_time" else draw(st.sampled_from((1, 2, 3, 7)))
    return Spec(
        draw(st.sampled_from((1, 2, 5, 10, 25))),
        draw(st.sampled_from((0, 3, 10, 60))),
        kind is None or draw(st.booleans()),
        kind,
        interval,
        kind is None or draw(st.booleans()),
    )
