"""Windows in order of arrival against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.core.arrival_oracle import Arriving, NumberedPane, arriving
from tests.core.logs import COLUMNS, cut_segments, event_logs
from tests.core.running import incidents, run
from tidemark.core import aggregates
from tidemark.core.aggregate import Aggregation
from tidemark.core.arrival import ArrivalAggregate
from tidemark.core.arrival_window import CLOSES, Count, Delta, Global, Punctuation
from tidemark.core.operator import Operator

AGGREGATION = Aggregation(
    {
        "n": aggregates.count(),
        "total": aggregates.sum("value"),
        "low": aggregates.min("value"),
        "high": aggregates.max("value"),
        "first": aggregates.first("value"),
        "last": aggregates.last("value"),
    },
    COLUMNS,
)


class Marking(Punctuation):
    """Marks the rows that the oracle marks, as ingest would have."""

    __slots__ = ()

    def cut(self, arrived):
        rows = arrived.rows.with_columns((arrived.rows["value"] % 3 == 0).alias(CLOSES))
        return super().cut(type(arrived)(rows, arrived.key, arrived.first, arrived.heads))


def operator(spec, every_rows, topics):
    windows = {
        "count": Count(spec.size, spec.slide),
        "delta": Delta("value", spec.threshold, floats=False),
        "punctuation": Marking("value % 3"),
        "global": Global(),
    }[spec.kind]
    body = ArrivalAggregate(windows, AGGREGATION, ("key",), COLUMNS, every_rows)
    return Operator("a", topics, frozenset(topics), ("key",), COLUMNS, body)


@st.composite
def specs(draw):
    kind = draw(st.sampled_from(("count", "count", "delta", "punctuation", "global")))
    size = draw(st.integers(1, 7))
    slide = draw(st.just(size) | st.integers(1, size))
    rows = draw(st.sampled_from((0, 1, 1, 2, 3)))

    def early(window):
        return rows > 0 and len(window) % rows == 0

    return Arriving(kind, size, slide, draw(st.sampled_from((0, 10, 60))), early), rows


@given(event_logs(), specs(), incidents())
def test_panes_are_the_oracles_whatever_is_restored_or_purged(log, drawn, happen):
    spec, every_rows = drawn
    expected = arriving(log.segments, log.topics, spec)
    got = run(operator(spec, every_rows, log.topics), log.segments, happen, NumberedPane)
    assert got.clocks == expected.clocks
    assert got.late == []
    assert got.steps == expected.steps
    assert got.rows == expected.rows


@given(st.data(), event_logs(), specs())
def test_cuts_change_no_pane_and_not_their_order(data, log, drawn):
    spec, every_rows = drawn
    whole = run(operator(spec, every_rows, log.topics), log.segments, pane=NumberedPane)
    cuts = data.draw(cut_segments(log.segments))
    cut = run(operator(spec, every_rows, log.topics), cuts, pane=NumberedPane)
    assert cut.panes == whole.panes
    assert cut.rows == whole.rows
