"""Hopping windows against the oracle: no cut, restore, purge or interleaving may show.

HYPOTHESIS_PROFILE=thorough runs a thousand examples of each.
"""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import windowed
from tests.support.logs import cut_segments, event_logs, raws, recordings
from tests.support.operators.aligned import operator, specs
from tests.support.running import incidents, run
from tidemark.core.operators.aligned import slice_buffer
from tidemark.core.operators.aligned import state as slices


@given(event_logs(), specs(), incidents(), st.booleans())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(
    log, spec, happen, waits
):
    expected = windowed(log.segments, log.topics, spec)
    # Rows of many slices wait in a buffer, of which each segment empties some.
    few, many, portion_bytes = (0, 2, 100) if waits else (8, 16, 2**25)
    with (
        patch.object(slices, "_FEW", few),
        patch.object(slices, "_PORTION_BYTES", portion_bytes),
        patch.object(slice_buffer, "_MANY", many),
    ):
        got = run(operator(spec, log.topics), log.segments, happen)
    assert got == expected


@given(st.data(), event_logs(), specs())
def test_cuts_change_no_late_row_no_on_time_pane_and_no_last_pane(data, log, spec):
    whole = run(operator(spec, log.topics), log.segments)
    cut = run(operator(spec, log.topics), data.draw(cut_segments(log.segments)))
    assert cut.late == whole.late
    assert cut.lasts() == whole.lasts()
    assert cut.on_time() == whole.on_time()
    assert cut.clocks[-1:] == whole.clocks[-1:]


@given(st.data(), raws(), specs())
def test_two_recordings_of_the_same_topics_agree(data, raw, spec):
    runs = [run(operator(spec, raw.topics), data.draw(recordings(raw)).segments) for _ in range(2)]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    assert runs[0].lasts() == runs[1].lasts()


@given(event_logs(), specs())
def test_every_row_is_in_its_last_pane_or_late(log, spec):
    tumbling = spec._replace(slide_ms=spec.size_ms)
    got = run(operator(tumbling, log.topics), log.segments)
    accepted = sum(pane.revision for pane in got.lasts().values())
    assert accepted + len(got.late) == got.rows
