"""Windows in order of arrival against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.arrival import NumberedPane, arriving
from tests.support.logs import cut_segments, event_logs
from tests.support.operators.arrival import EVERY, discarding_specs, operator, specs
from tests.support.running import incidents, run


@given(event_logs(), specs(triggers=st.none() | EVERY) | discarding_specs(), incidents())
def test_panes_are_the_oracles_whatever_is_restored_or_purged(log, drawn, happen):
    spec, every = drawn
    expected = arriving(log.segments, log.topics, spec)
    got = run(operator(spec, every, log.topics), log.segments, happen, NumberedPane)
    assert got.late == []
    assert got == expected


@given(st.data(), event_logs(), specs(triggers=st.none() | EVERY) | discarding_specs())
def test_cuts_change_no_pane_and_not_their_order(data, log, drawn):
    spec, every = drawn
    whole = run(operator(spec, every, log.topics), log.segments, pane=NumberedPane)
    cuts = data.draw(cut_segments(log.segments))
    cut = run(operator(spec, every, log.topics), cuts, pane=NumberedPane)
    assert cut.panes == whole.panes
    assert cut.rows == whole.rows
