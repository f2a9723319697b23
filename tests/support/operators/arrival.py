"""Windows in order of arrival with drawn settings."""

from hypothesis import strategies as st

from tests.oracles.arrival import Arriving
from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION, over
from tidemark.core.operators.arrival.discarding import DiscardingArrival
from tidemark.core.operators.arrival.in_event_time import InEventTime
from tidemark.core.operators.arrival.operator import ArrivalAggregate
from tidemark.core.windows.arrival import (
    CLOSES,
    ArrivalWindowKind,
    CountWindow,
    DeltaWindow,
    GlobalWindow,
    PunctuationWindow,
    StepWindow,
)
from tidemark.core.windows.trigger import EveryEventTime, EveryProcessingTime, EveryRows


class Marking(PunctuationWindow):
    """Marks the rows that the oracle marks, as ingest would have."""

    __slots__ = ()

    def assign_runs(self, by_key):
        rows = by_key.rows.with_columns((by_key.rows["value"] % 3 == 0).alias(CLOSES))
        return super().assign_runs(type(by_key)(rows, by_key.key, by_key.first, by_key.heads))


def operator(spec, every, topics):
    windows: dict[str, ArrivalWindowKind] = {
        "count": CountWindow(spec.size, spec.slide),
        "delta": DeltaWindow("value", spec.threshold, floats=False),
        "punctuation": Marking("value % 3"),
        "global": GlobalWindow(),
        "steps": StepWindow(spec.size),
    }
    kind = DiscardingArrival if spec.discarding else ArrivalAggregate
    body = kind(windows[spec.kind], AGGREGATION, ("key",), COLUMNS, every)
    return over(topics, body)


def in_event_time(spec, every, topics):
    windows = CountWindow(spec.size, spec.slide, by_event_time=True)
    kind = DiscardingArrival if spec.discarding else ArrivalAggregate
    return over(topics, InEventTime(kind(windows, AGGREGATION, ("key",), COLUMNS, every)))


def in_event_time_specs():
    by_rows = st.builds(EveryRows, st.integers(1, 3)) | st.builds(
        EveryEventTime, st.sampled_from((1, 5, 20))
    )
    return specs(("count",), st.none() | by_rows) | specs(("count",), by_rows, discarding=True)


def early(every):
    """Say when a window of rows is published that has not closed."""

    def fires(rows):
        if isinstance(every, EveryRows):
            return len(rows) % every.rows == 0
        if isinstance(every, EveryEventTime) and len(rows) > 1:
            highest = max(row.at_ms for row in rows[:-1])
            return rows[-1].at_ms // every.interval_ms > highest // every.interval_ms
        return False

    return fires


EVERY = (
    st.builds(EveryRows, st.integers(1, 3))
    | st.builds(EveryEventTime, st.sampled_from((1, 5, 20)))
    | st.builds(EveryProcessingTime, st.sampled_from((1_000, 2_500)))
)
KINDS = ("count", "count", "delta", "punctuation", "global", "steps")


@st.composite
def specs(draw, kinds=KINDS, triggers=EVERY, *, discarding=False):
    kind = draw(st.sampled_from(kinds))
    size = draw(st.integers(1, 7))
    slide = draw(st.just(size) | st.integers(1, size))
    every = draw(triggers)
    processing_ms = every.interval_ms if isinstance(every, EveryProcessingTime) else 0
    threshold = draw(st.sampled_from((0, 10, 60)))
    return Arriving(kind, size, slide, threshold, early(every), processing_ms, discarding), every


def discarding_specs():
    # A discarding global window is cut by rows and by event time: then it is one of the others.
    by_clock = st.builds(EveryProcessingTime, st.sampled_from((1_000, 2_500)))
    windows = specs(("count", "count", "delta", "punctuation"), EVERY, discarding=True)
    return windows | specs(("count", "global"), by_clock, discarding=True)
