"""Early and discarding panes against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs a thousand examples of each.
"""

from hypothesis import given

from tests.oracles.aligned import Pane
from tests.oracles.early import early
from tests.support.logs import event_logs
from tests.support.operators.early_aligned import operator, specs
from tests.support.running import incidents, run


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = early(log.segments, log.topics, spec)
    got = run(operator(spec, log.topics), log.segments, happen)
    assert got == expected


@given(event_logs(), specs())
def test_a_revision_tells_what_a_pane_holds(log, spec):
    spec = spec._replace(discarding=False)
    seen: dict[tuple[str | None, int, int], Pane] = {}
    for pane in run(operator(spec, log.topics), log.segments).panes:
        values = pane._replace(timing="", final=False)
        assert seen.setdefault((pane.key, pane.start, pane.revision), values) == values
