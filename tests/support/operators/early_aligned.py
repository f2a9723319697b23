"""Aligned windows with early or discarding panes, with drawn settings."""

from hypothesis import strategies as st

from tests.oracles.early import Spec
from tests.support.operators.early import early_operator
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.windows.window import Hopping


def operator(spec, topics):
    return early_operator(WindowAggregate, Hopping(spec.size_ms, spec.slide_ms), spec, topics)


@st.composite
def specs(draw, kinds=("rows", "event_time", "processing_time", None)):
    size_ms = draw(st.sampled_from((4, 10, 30)))
    slide_ms = draw(st.just(size_ms) | st.integers(1, size_ms))
    kind = draw(st.sampled_from(kinds))
    interval = 1_500 if kind == "processing_time" else draw(st.sampled_from((1, 2, 3, 7)))
    return Spec(
        size_ms,
        slide_ms,
        draw(st.sampled_from((0, 3, 40))),
        kind is None or draw(st.booleans()),
        kind,
        interval,
        draw(st.booleans()),
    )
