"""Sessions with early or discarding panes, with drawn settings."""

from hypothesis import strategies as st

from tests.oracles.early_session import Spec
from tests.support.logs import COLUMNS
from tests.support.operators.early import interval
from tests.support.running import AGGREGATION, over
from tidemark.core.operators.sessions.early import EarlySessionAggregate
from tidemark.core.operators.sessions.operator import AFTER_MERGING, STRICT, SessionAggregate
from tidemark.core.windows.trigger import every, on_close
from tidemark.core.windows.window import Session


def operator(spec, topics):
    trigger = every(**{spec.by: interval(spec.by, spec.every)}) if spec.every else None
    body = SessionAggregate(
        Session(spec.gap_ms),
        AGGREGATION,
        ("key",),
        COLUMNS,
        spec.allowed_lateness_ms,
        on_close(trigger) if spec.closes or trigger is None else trigger,
        STRICT if spec.strict else AFTER_MERGING,
        spec.discarding,
    )
    early = EarlySessionAggregate(body) if spec.every else body
    return over(topics, early)


@st.composite
def specs(draw, kinds=("rows", "rows", "event_time", "processing_time")):
    by = draw(st.sampled_from(kinds))
    some = {"rows": (1, 1, 2, 3, 0), "event_time": (1, 3, 10), "processing_time": (1_500,)}
    number = draw(st.sampled_from(some[by]))
    return Spec(
        draw(st.sampled_from((1, 4, 10, 25))),
        draw(st.sampled_from((0, 3, 40))),
        draw(st.booleans()),
        not number or draw(st.booleans()),
        number,
        # Without early panes, accumulating ones are another test's.
        not number or draw(st.booleans()),
        by,
    )
