"""Early and discarding panes of sliding windows against the oracle: no cut or restore may show.

HYPOTHESIS_PROFILE=thorough runs a thousand examples of each.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import Run
from tests.oracles.early_sliding import EarlySlides, early_panes, early_sliding
from tests.support.logs import crowds, cut_segments, event_logs, raws, recordings
from tests.support.operators.early_sliding import operator, specs
from tests.support.running import incidents, run, run_crowd


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = early_sliding(log.segments, log.topics, spec)
    got = run(operator(spec, log.topics), log.segments, happen)
    assert got == expected


@given(crowds((-20, 15), (0, 20)), specs(("rows", "event_time", None)), incidents())
def test_a_crowd_of_rows_behind_gives_the_oracles_panes(crowd, spec, happen):
    state, expected = EarlySlides(spec), Run()

    def oracle(rows, before_ms, clock_ms):
        new = [row for row in rows if state.fold(row, 0, expected)]
        return state.publish(new, before_ms, clock_ms)

    run_crowd(operator(spec, ("t",)), crowd, happen, oracle, expected.late)


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


@given(st.data(), raws(), specs(kinds=("rows", "event_time", None)))
def test_two_recordings_of_the_same_topics_agree_on_the_last_panes(data, raw, spec):
    spec = spec._replace(discarding=False)
    runs = [run(operator(spec, raw.topics), data.draw(recordings(raw)).segments) for _ in range(2)]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    # Of every(...) alone, the row that came last says whether its pane is late.
    lasts = [{at: pane._replace(timing="") for at, pane in made.lasts().items()} for made in runs]
    assert lasts[0] == lasts[1]
