"""Early and discarding panes against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs a thousand examples of each.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import Pane
from tests.oracles.early import early, early_panes
from tests.support.logs import cut_segments, event_logs, raws, recordings
from tests.support.operators.early_aligned import operator, specs
from tests.support.running import incidents, run


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = early(log.segments, log.topics, spec)
    got = run(operator(spec, log.topics), log.segments, happen)
    assert got == expected


@given(st.data(), event_logs(), specs())
def test_cuts_change_no_early_and_no_on_time_pane(data, log, spec):
    whole = run(operator(spec, log.topics), log.segments)
    cut = run(operator(spec, log.topics), data.draw(cut_segments(log.segments)))
    assert sorted(early_panes(cut), key=str) == sorted(early_panes(whole), key=str)
    assert cut.on_time() == whole.on_time()
    assert cut.late == whole.late


@given(st.data(), event_logs(), specs(kinds=("rows", "event_time")))
def test_cuts_change_no_pane_at_all_where_every_is_alone(data, log, spec):
    spec = spec._replace(closes=False)
    whole = run(operator(spec, log.topics), log.segments)
    cut = run(operator(spec, log.topics), data.draw(cut_segments(log.segments)))
    assert known(cut) == known(whole)


def known(made):
    return sorted((pane._replace(final=False) for pane in made.panes), key=str)


@given(event_logs(), specs())
def test_a_revision_tells_what_a_pane_holds(log, spec):
    spec = spec._replace(discarding=False)
    seen: dict[tuple[str | None, int, int], Pane] = {}
    for pane in run(operator(spec, log.topics), log.segments).panes:
        values = pane._replace(timing="", final=False)
        assert seen.setdefault((pane.key, pane.start, pane.revision), values) == values


@given(event_logs(), specs())
def test_discarding_panes_add_up_to_the_last_accumulating_one(log, spec):
    parts, whole = (
        run(operator(spec._replace(discarding=each), log.topics), log.segments)
        for each in (True, False)
    )
    added: dict[tuple[str | None, int], int] = {}
    for pane in parts.panes:
        at = pane.key, pane.start
        added[at] = added.get(at, 0) + pane.n
    assert added == {at: pane.n for at, pane in whole.lasts().items()}
    assert {at: pane.revision for at, pane in parts.lasts().items()} == added


@given(st.data(), raws(), specs(kinds=("rows", "event_time", None)))
def test_two_recordings_of_the_same_topics_agree_on_the_last_panes(data, raw, spec):
    spec = spec._replace(discarding=False)
    runs = [run(operator(spec, raw.topics), data.draw(recordings(raw)).segments) for _ in range(2)]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    # Of every(...) alone, the row that came last says whether its pane is late.
    lasts = [{at: pane._replace(timing="") for at, pane in made.lasts().items()} for made in runs]
    assert lasts[0] == lasts[1]
