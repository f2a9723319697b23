"""Early and discarding panes of windows that are due by their end: what cuts must not change.

The oracles of each kind of window have tests of their own, in aligned/ and sliding/.
HYPOTHESIS_PROFILE=thorough runs a thousand examples of each.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import cut_segments, event_logs, raws, recordings
from tests.support.operators import early_aligned, early_sliding
from tests.support.running import run

pytestmark = pytest.mark.parametrize("kind", [early_aligned, early_sliding])


@given(data=st.data(), log=event_logs())
def test_cuts_change_no_early_and_no_on_time_pane(kind, data, log):
    spec = data.draw(kind.specs())
    whole = run(kind.operator(spec, log.topics), log.segments)
    cut = run(kind.operator(spec, log.topics), data.draw(cut_segments(log.segments)))
    assert sorted(cut.early(), key=str) == sorted(whole.early(), key=str)
    assert cut.on_time() == whole.on_time()
    assert cut.late == whole.late


@given(data=st.data(), log=event_logs())
def test_cuts_change_no_pane_at_all_where_every_is_alone(kind, data, log):
    spec = data.draw(kind.specs(kinds=("rows", "event_time")))._replace(closes=False)
    whole = run(kind.operator(spec, log.topics), log.segments)
    cut = run(kind.operator(spec, log.topics), data.draw(cut_segments(log.segments)))
    assert known(cut) == known(whole)


def known(made):
    return sorted((pane._replace(final=False) for pane in made.panes), key=str)


@given(data=st.data(), log=event_logs())
def test_discarding_panes_add_up_to_the_last_accumulating_one(kind, data, log):
    spec = data.draw(kind.specs())
    parts, whole = (
        run(kind.operator(spec._replace(discarding=each), log.topics), log.segments)
        for each in (True, False)
    )
    added: dict[tuple[str | None, int], int] = {}
    for pane in parts.panes:
        at = pane.key, pane.start
        added[at] = added.get(at, 0) + pane.n
    assert added == {at: pane.n for at, pane in whole.lasts().items()}
    assert {at: pane.revision for at, pane in parts.lasts().items()} == added


@given(data=st.data(), raw=raws())
def test_two_recordings_of_the_same_topics_agree_on_the_last_panes(kind, data, raw):
    drawn = data.draw(kind.specs(kinds=("rows", "event_time", None)))
    operator = kind.operator(drawn._replace(discarding=False), raw.topics)
    runs = [run(operator, data.draw(recordings(raw)).segments) for _ in range(2)]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    # Of every(...) alone, the row that came last says whether its pane is late.
    lasts = [{at: pane._replace(timing="") for at, pane in made.lasts().items()} for made in runs]
    assert lasts[0] == lasts[1]
