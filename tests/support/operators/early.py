"""Windows that are due by their end, with early or discarding panes."""

from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION, over
from tidemark.core.operators.early import EarlyAggregate
from tidemark.core.windows.trigger import every, on_close


def interval(by, number):
    """Return an interval as ``every`` takes it: a number of rows, or a duration."""
    return number if by == "rows" else f"{number}ms"


def early_operator(kind, windows, spec, topics):
    """Return an operator of a kind of body on windows, with the triggers of a spec."""
    trigger = every(**{spec.every: interval(spec.every, spec.interval)}) if spec.every else None
    body = kind(
        windows,
        AGGREGATION,
        ("key",),
        COLUMNS,
        spec.allowed_lateness_ms,
        on_close(trigger) if spec.closes or trigger is None else trigger,
        spec.discarding,
    )
    return over(topics, EarlyAggregate(body) if spec.every else body)
