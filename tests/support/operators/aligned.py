"""Aligned windows with drawn settings."""

from hypothesis import strategies as st

from tests.oracles.aligned import Aligned
from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION, over
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.core.windows.window import Hopping


def operator(spec, topics):
    windows = Hopping(spec.size_ms, spec.slide_ms, spec.offset_ms)
    trigger = on_final() if spec.on_final else on_close()
    body = WindowAggregate(
        windows, AGGREGATION, ("key",), COLUMNS, spec.allowed_lateness_ms, trigger
    )
    return over(topics, body)


@st.composite
def specs(draw):
    size_ms = draw(st.sampled_from((1, 4, 10, 12, 30)))
    slide_ms = draw(st.just(size_ms) | st.integers(1, size_ms))
    offset_ms = draw(st.integers(1 - slide_ms, slide_ms - 1))
    return Aligned(
        size_ms, slide_ms, offset_ms, draw(st.sampled_from((0, 3, 10, 40))), draw(st.booleans())
    )
