"""Sliding windows with drawn settings."""

from hypothesis import strategies as st

from tests.oracles.sliding import Spec
from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION, over
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.core.windows.window import Sliding


def operator(spec, topics):
    body = SlidingAggregate(
        Sliding(spec.reach_ms),
        AGGREGATION,
        ("key",),
        COLUMNS,
        spec.allowed_lateness_ms,
        on_final() if spec.on_final else on_close(),
    )
    return over(topics, body)


def specs():
    reaches, lateness = st.sampled_from((1, 2, 5, 10, 25, 70)), st.sampled_from((0, 3, 10, 200))
    return st.builds(Spec, reaches, lateness, st.booleans())
