"""An operator's mark is the lowest progress of its tasks, and says only what is new."""

from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.announcer import Announced, Announcer, TaskProgress
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import NEVER_MS, Segment, SourceMark

OP = "op:counts"
TWO = {0: 0, 1: 0}


def report(partition, watermark_ms, *, idle=False, generation=0):
    return TaskProgress(partition, generation, watermark_ms, idle)


def marks(announcer, *reports, begin=0):
    """Return the mark after each report that makes one due."""
    found = []
    for number, each in enumerate(reports, begin):
        announcer.take(number, each)
        if (mark := announcer.mark()) is not None:
            announcer.announced(mark)
            found.append(mark)
    return found


def test_the_lowest_watermark_counts_once_all_have_reported():
    announcer = Announcer("counts", TWO)
    assert announcer.waits_for == [0, 1]
    found = marks(announcer, report(0, 10), report(0, 20), report(1, 5), report(1, 30))
    assert found == [SourceMark(OP, 3, 3, NEVER_MS, 5), SourceMark(OP, 4, 4, 5, 20)]


def test_a_mark_is_written_only_if_something_has_changed():
    announcer = Announcer("counts", TWO)
    marks(announcer, report(0, 10), report(1, 10))
    assert marks(announcer, report(0, 20), report(0, 30), report(1, 10), begin=2) == []
    assert marks(announcer, report(1, 30), begin=5) == [SourceMark(OP, 6, 6, 10, 30)]


def test_an_operator_is_idle_when_all_its_tasks_are():
    announcer = Announcer("counts", TWO)
    asleep = [report(0, 10, idle=True), report(1, 10, idle=True)]
    awake = [report(1, 10), report(1, 10, idle=True)]
    found = [mark.idle for mark in marks(announcer, *asleep, *awake)]
    assert found == [True, False, True]


def test_reports_of_an_earlier_state_do_not_count():
    announcer = Announcer("counts", {0: 7, 1: 7})
    old = [report(0, 900, generation=6), report(1, 900, generation=6)]
    assert marks(announcer, *old, report(0, 10, generation=7)) == []
    assert announcer.waits_for == [1]
    found = marks(announcer, report(1, 20, generation=7), begin=3)
    assert [mark.watermark_ms for mark in found] == [10]


def test_a_task_that_repeats_work_does_not_move_the_mark_back():
    announcer = Announcer("counts", {0: 0})
    found = marks(announcer, report(0, 10), report(0, 4), report(0, 10), report(0, 11))
    assert [mark.watermark_ms for mark in found] == [10, 11]


REPORTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), min_size=1, max_size=30
)


@given(REPORTS, st.data())
def test_a_restart_anywhere_says_the_same_to_a_reader(steps, data):
    """The reports are read again from the first; marks may have been written and not noted."""
    reached = [0, 0, 0]
    reports = []
    for partition, step, idle in steps:
        reached[partition] += step
        reports.append(report(partition, reached[partition], idle=idle))
    generations = dict.fromkeys(range(3), 0)
    plain, broken = Announcer("counts", generations), Announcer("counts", generations)
    whole, noted = ClockTable([OP]), ClockTable([OP])
    read(whole, marks(plain, *reports))
    noted_last: Announced | None = None
    for number, each in enumerate(reports):
        broken.take(number, each)
        if (mark := broken.mark()) is not None and data.draw(st.booleans()):
            read(noted, [mark])
            broken.announced(mark)
            if data.draw(st.booleans()):
                noted_last = broken.last
        if data.draw(st.integers(0, 4)) == 0:
            broken = Announcer("counts", generations, noted_last)
            for earlier in range(number + 1):
                broken.take(earlier, reports[earlier])
    if (mark := broken.mark()) is not None:
        read(noted, [mark])
    assert noted.clock_ms == whole.clock_ms
    (one,), (other,) = whole.sources.values(), noted.sources.values()
    if one.spoken:
        assert (one.own_ms, one.idle) == (other.own_ms, other.idle)


def read(table, found):
    before_ms = table.clock_ms
    for mark in found:
        segment = Segment(0, 0, (mark,), {}, 0, {})
        table.enter(segment)
        table.leave(segment)
        assert table.clock_ms >= before_ms
