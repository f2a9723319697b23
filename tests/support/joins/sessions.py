"""Session joins with drawn settings, over the logs of ``tests.support.joins.stream``."""

from collections.abc import Mapping, Sequence
from typing import cast

from hypothesis import strategies as st

from tests.oracles.session_join import SessionRules
from tests.support.joins.stream import JOINED, KINDS, ORDERED, SIDES, ordered, over_sides
from tidemark.core.operators.joins.sessions.operator import SessionJoin
from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.operator import Operator
from tidemark.core.windows.window import Session


@st.composite
def session_rules(draw: st.DrawFn) -> SessionRules:
    """Draw a session join."""
    gap_ms = draw(st.sampled_from((1, 2, 3, 5, 9, 20)))
    lateness_ms = draw(st.sampled_from((0, 0, 4, 12, 30)))
    on = draw(st.sampled_from((None, None, ordered)))
    return SessionRules(draw(st.sampled_from(KINDS)), gap_ms, lateness_ms, on)


def session_join(drawn: SessionRules, sides: Mapping[str, Sequence[str]] = SIDES) -> Operator:
    """Return the operator of a session join."""
    body = SessionJoin(
        ("key",),
        *JOINED,
        cast(Kind, drawn.how),
        Session(drawn.gap_ms),
        drawn.lateness_ms,
        ORDERED if drawn.on else None,
        drawn.max_pairs,
    )
    return over_sides(body, sides)
