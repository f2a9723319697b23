"""Sliding windows with early or discarding panes, with drawn settings."""

from hypothesis import strategies as st

from tests.oracles.early_sliding import Spec
from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION
from tidemark.core.operators.early import EarlyAggregate
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.windows.trigger import every, on_close
from tidemark.core.windows.window import Sliding


def operator(spec, topics):
    trigger = every(**{spec.every: spec.interval}) if spec.every else None
    body = SlidingAggregate(
        Sliding(spec.reach_ms),
        AGGREGATION,
        ("key",),
        COLUMNS,
        spec.allowed_lateness_ms,
        on_close(trigger) if spec.closes or trigger is None else trigger,
        spec.discarding,
    )
    early_body = EarlyAggregate(body) if spec.every else body
    return Operator("s", topics, frozenset(topics), ("key",), COLUMNS, early_body)


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
