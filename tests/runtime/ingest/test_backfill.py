"""A new log is the log that would be there if its key had been in the pipeline from the start."""

import json

import pytest
from confluent_kafka import TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.ingest.by_keys import BOTH_NEW, CITY, NEW, OLD, A, B, built
from tests.runtime.ingest.in_memory import Cluster, Service, assert_tiles, published, record
from tidemark import INGEST_TIME, col
from tidemark.core.time.segment import NEVER_MS
from tidemark.partition import Partition
from tidemark.runtime.client.progress import SourceProgress, decode
from tidemark.runtime.keyed.lost_rows import FirstMarks, delays_ms

RECORDS = st.lists(
    st.builds(
        lambda at, k, city: record(at, k=k, city=city, v=1),
        st.integers(0, 400),
        st.sampled_from("abc"),
        st.sampled_from(["x", "y", "z", None]),
    ),
    max_size=25,
)


@pytest.fixture
def patched(monkeypatch):
    def make(raw):
        cluster = Cluster(raw)
        cluster.patch(monkeypatch)
        return cluster

    return make


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), one=RECORDS, two=RECORDS)
def test_a_new_log_gives_the_results_of_a_log_that_was_there_from_the_start(
    patched, data, one, two
):
    raw = {A: one, B: two}
    live = patched(raw)
    sources = (A, B)
    old = Service(live, OLD, sources)
    for at in sources:
        old.take(at, data.draw(st.integers(0, 25)))
        old.tick()
    old.commit()
    plan = BOTH_NEW if data.draw(st.booleans()) else NEW
    new = Service(live, plan, sources)
    for step in data.draw(st.lists(st.sampled_from(["take", "tick", "commit", "crash"]))):
        if step == "take":
            new.take(data.draw(st.sampled_from(sources)), data.draw(st.integers(1, 5)))
        elif step == "crash":
            new = Service(live, plan, sources)
        else:
            getattr(new, step)()
    new.finish()

    whole = patched(raw)
    Service(whole, plan, sources).finish()
    for log in plan.logs[1:]:
        assert_tiles(live, log.topic)
        assert published(live, plan, log.topic) == published(whole, plan, log.topic)
    assert sorted(dead(live)) == sorted(dead(whole))


def dead(cluster):
    letters = [json.loads(value) for _, value in cluster.written[Partition("p.dead-letters", 0)]]
    return [(each["partition"], each["offset"]) for each in letters]


def filled(patched, plan=OLD, records=10):
    """Return a cluster of two sources, read by a program to their ends."""
    values = [record(50 * n, k="a", city="x", v=1) for n in range(records)]
    live = patched({A: values, B: values})
    Service(live, plan, (A, B)).finish()
    return live


def progress(cluster, at):
    return decode(cluster.committed[at].metadata, SourceProgress, str(at))


def test_the_logs_that_are_there_go_on_meanwhile(patched):
    live = filled(patched, records=40)
    before = len(live.log("p.by-k.log")[0])
    service = Service(live, NEW, (A, B))
    live.raw[A].append(record(5_000, k="a", city="x", v=1))
    service.take(A, 1)
    service.tick()
    service.commit()
    (segment,) = live.log("p.by-k.log")[0][before:]
    assert [(m.source, m.first_offset, m.next_offset) for m in segment.sources] == [
        ("raw/0", 40, 41)
    ]
    (first,) = live.log(CITY)[0]
    assert [(m.source, m.first_offset, m.next_offset) for m in first.sources] == [("raw/0", 0, 3)]
    assert [done.next_offset for done in progress(live, A).backfills.values()] == [3]


def test_the_clock_waits_for_a_source_whose_owner_has_not_begun(patched):
    live = filled(patched)
    Service(live, NEW, (A,)).finish()
    assert published(live, NEW, CITY)[0] == {("of-city", "x", 50 * n): (1, 1) for n in range(10)}
    assert {tuple(segment.partitions.items()) for segment in live.log(CITY)[0]} == {(("raw", 2),)}
    assert {mark.source for s in live.log(CITY)[0] for mark in s.sources} == {"raw/0"}


def test_a_silent_source_is_silent_in_the_new_log_too(patched):
    live = filled(patched)
    live.now_ms += 4_000_000
    Service(live, OLD, (A, B)).finish()
    Service(live, NEW, (A, B)).finish()
    marks = {mark.source: mark for s in live.log(CITY)[0] for mark in s.sources}
    assert {source: mark.idle for source, mark in marks.items()} == {"raw/0": True, "raw/1": True}
    assert all(mark.silence_ms >= 3_600_000 for mark in marks.values())


def test_a_log_that_comes_back_goes_on_where_it_ended(patched):
    live = filled(patched, NEW)
    for at in (A, B):
        live.raw[at] = [*live.raw[at], record(1_000, k="a", city="x", v=1)]
    Service(live, OLD, (A, B)).finish()
    Service(live, NEW, (A, B)).finish()
    assert_tiles(live, CITY)
    assert published(live, NEW, CITY)[0]["of-city", "x", 1_000] == (2, 2)


def test_a_log_that_was_deleted_is_built_again(patched):
    live = filled(patched, NEW)
    for at in [at for at in live.written if at.topic == CITY]:
        del live.written[at]
    live.ids[CITY] = "another id"
    Service(live, NEW, (A, B)).finish()
    assert_tiles(live, CITY)
    assert len(published(live, NEW, CITY)[0]) == 10


def test_a_log_begins_with_the_first_raw_record_that_is_there(patched, caplog):
    live = filled(patched)
    live.begins[A] = 4
    Service(live, NEW, (A, B)).finish()
    assert "log p.by-city.log begins with offset 4 of raw/0" in caplog.text
    marks = [mark for s in live.log(CITY)[0] for mark in s.sources if mark.source == "raw/0"]
    assert marks[0].first_offset == 4
    assert marks[0].watermark_before_ms > NEVER_MS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    jitters=st.lists(st.integers(0, 10), min_size=25, max_size=25),
    gone=st.integers(1, 20),
    step=st.sampled_from([3, 10, 40]),
)
def test_windows_that_may_have_rows_of_lost_records_are_not_published(patched, jitters, gone, step):
    """Rows are out of order by at most the delay of the watermark."""
    raw = {A: [record(n * step - j, k="a", city="x", v=1) for n, j in enumerate(jitters, 9)]}
    whole, live = patched(raw), None
    Service(whole, NEW, (A,)).finish()
    live = patched(raw)
    Service(live, OLD, (A,)).finish()
    live.begins[A] = gone
    Service(live, NEW, (A,)).finish()
    (operator,) = [each for each in NEW.operators if each.log == CITY]
    marks = FirstMarks(delays_ms(NEW, operator))
    found = [marks.lost_until_ms(each) for each in live.log(CITY)[0]]
    lost_ms = next(each for each in found if each is not None)
    first_ms = [json.loads(value)["at"] for value in raw[A][gone : gone + 3]]
    assert lost_ms == max(first_ms) + 10
    panes, expected = published(live, NEW, CITY)[0], published(whole, NEW, CITY)[0]
    assert {at: n for at, n in panes.items() if at[2] > lost_ms} == {
        at: n for at, n in expected.items() if at[2] > lost_ms
    }


@pytest.mark.parametrize("gone", [12, 15])
def test_a_log_that_comes_back_says_which_records_are_gone_since(patched, caplog, gone):
    live = filled(patched, NEW)
    for at in (A, B):
        live.raw[at] = [*live.raw[at], *(record(1_000, k="a", city="x", v=1) for _ in range(5))]
    Service(live, OLD, (A, B)).finish()
    live.raw[A] = [b"gone"] * gone + live.raw[A][gone:]
    live.begins[A] = gone
    Service(live, NEW, (A, B)).finish()
    words = f"p.by-city.log has rows of raw/0 up to offset 10, and goes on with offset {gone}"
    assert words in caplog.text
    assert "rows of raw/1" not in caplog.text
    marks = [m for s in live.log(CITY)[0] for m in s.sources if m.source == "raw/0"]
    assert gone in {mark.first_offset for mark in marks} or gone == len(live.raw[A])
    assert published(live, NEW, CITY)[0]["of-city", "x", 1_000] == (20 - gone, 20 - gone)


def test_event_time_of_ingest_is_not_made_up(patched, caplog):
    live = filled(patched, built("k", event_time=INGEST_TIME))
    Service(live, built("k", "city", event_time=INGEST_TIME), (A, B)).finish()
    assert CITY not in {at.topic for at, values in live.written.items() if values}
    assert "has no rows of raw/0 below offset 10" in caplog.text


def test_only_what_the_new_log_kills_becomes_a_dead_letter(patched):
    values = [b"{", *(record(50 * n, k="a", city=None if n == 1 else "x", v=1) for n in range(4))]
    live = patched({A: values})
    Service(live, OLD, (A,)).finish()
    assert dead(live) == [(0, 0)]
    Service(live, NEW, (A,)).finish()
    assert dead(live) == [(0, 0), (0, 2)]


def test_commits_of_an_older_version_lack_only_logs_without_a_segment(patched):
    live = filled(patched, NEW)
    for at, found in live.committed.items():
        text = json.dumps({k: v for k, v in json.loads(found.metadata).items() if k != "logs"})
        live.committed[at] = TopicPartition(at.topic, at.number, found.offset, metadata=text)
    written = len(live.log(CITY)[0])
    Service(live, BOTH_NEW, (A, B)).finish()
    assert len(live.log(CITY)[0]) == written
    assert_tiles(live, "p.by-v.log")
    assert len(published(live, BOTH_NEW, "p.by-v.log")[0]) == 10


def test_a_filter_before_the_new_key_holds(patched):
    live = filled(patched)
    plan = built("city", shape=lambda s: s.filter(col("at") > 200))
    Service(live, plan, (A, B)).finish()
    assert sorted(start for _, _, start in published(live, plan, CITY)[0]) == [
        250,
        300,
        350,
        400,
        450,
    ]
