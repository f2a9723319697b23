"""Empty windows: those between the first and the last window of a key, and no others."""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.early import Spec
from tests.support.logs import (
    Commit,
    Raw,
    Read,
    Record,
    cut_segments,
    event_logs,
    raws,
    record,
    recordings,
)
from tests.support.operators.early_aligned import operator, specs
from tests.support.running import incidents, run
from tidemark.core.operators.aligned.gap_filled import GapFilled
from tidemark.core.operators.operator import Operator


def filled(plain):
    return Operator(
        plain.name, plain.streams, plain.topics, plain.key, plain.columns, GapFilled(plain.body)
    )


@given(event_logs(), specs(), incidents())
def test_just_the_gaps_between_windows_of_a_key_are_filled(log, spec, happen):
    spec = spec._replace(closes=True)
    plain = operator(spec, log.topics)
    without = run(plain, log.segments)
    got = run(filled(plain), log.segments, happen)
    rows = [[pane for pane in step if pane.revision] for step in got.steps]
    assert rows == without.steps
    assert {place(p) for p in got.panes} == between(spec, {place(p) for p in without.panes})
    empty = [p for p in got.panes if not p.revision]
    assert len({place(p) for p in empty}) == len(empty)
    assert all((p.timing, p.n, p.total) == ("on_time", 0, None) for p in empty)


def place(pane):
    return pane.key, pane.end


def between(spec, places):
    made = set()
    for key in {key for key, _ in places}:
        ends = [end for other, end in places if other == key]
        made |= {(key, end) for end in range(min(ends), max(ends) + 1, spec.slide_ms)}
    return made


@given(st.data(), event_logs(), specs())
def test_cuts_change_no_last_pane(data, log, spec):
    plain = filled(operator(spec._replace(closes=True, discarding=False), log.topics))
    cut = run(plain, data.draw(cut_segments(log.segments)))
    assert cut.lasts().keys() == run(plain, log.segments).lasts().keys()


@given(st.data(), raws(), specs(kinds=("rows", None)))
def test_two_recordings_of_the_same_topics_agree(data, raw, spec):
    plain = filled(operator(spec._replace(closes=True, discarding=False), raw.topics))
    runs = [run(plain, data.draw(recordings(raw)).segments).lasts() for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_long_gap_is_left_open():
    #  999 empty windows are filled, 1,000 are not
    for windows, panes in ((1_000, 1_001), (1_001, 2)):
        got = run(filled(operator(SPEC, ("t",))), record(two_rows(10 * windows), EVERYTHING))
        assert len(got.panes) == panes


SPEC = Spec(10, 10, 0, True, None, 1, False)
EVERYTHING = [Commit((Read("t/0", 2),))]


def two_rows(apart_ms):
    rows = (Record(0, (("a", 1),)), Record(apart_ms, (("a", 1),)))
    return Raw({"t/0": rows}, 0)
