"""Windows and sessions whose late panes wait for rows, beside the same without waiting."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.support.logs import EventLog
from tests.support.operators import early_aligned, early_sessions, early_sliding
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.early import EarlyAggregate
from tidemark.core.operators.late_panes import LateAggregate
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.sessions.early import EarlySessionAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.windows.trigger import EveryRows, OnClose

KINDS = {
    "aligned": early_aligned,
    "sliding": early_sliding,
    "sessions": early_sessions,
}


def plain(draw: st.DrawFn, kind: str, log: EventLog, *, early: bool) -> Operator:
    """Draw an operator that publishes at the close and at once for each row behind."""
    if kind == "sessions":
        spec = draw(early_sessions.specs(("rows",)))._replace(closes=True, strict=True)
        if not early:
            spec = spec._replace(every=0)
        elif not spec.every:
            spec = spec._replace(every=2)
        made: Operator = early_sessions.operator(spec, log.topics)
        return made
    module = KINDS[kind]
    spec = draw(module.specs(("rows",) if early else (None,)))._replace(closes=True)
    windows: Operator = module.operator(spec, log.topics)
    return windows


def waiting(operator: Operator, rows: int) -> Operator:
    """Return the operator with late panes that wait for ``rows`` rows."""
    return replace(operator, body=_waiting(operator.body, rows))


def _waiting(body: Any, rows: int) -> Any:
    if isinstance(body, EarlyAggregate | EarlySessionAggregate):
        return replace(body, inner=_waiting(body.inner, rows))
    assert isinstance(body, WindowAggregate | SlidingAggregate | SessionAggregate)
    early = body.trigger.early if isinstance(body.trigger, OnClose) else None
    made = replace(body, trigger=OnClose(early, EveryRows(rows)))
    return made if isinstance(made, SessionAggregate) else LateAggregate(made)


def innermost(body: Any) -> Any:
    """Return the windows inside of wrappers."""
    return innermost(body.inner) if hasattr(body, "inner") else body
