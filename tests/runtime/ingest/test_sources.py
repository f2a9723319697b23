"""Sources that begin again, and sources in trouble, without a broker."""

import msgspec
import pytest
from confluent_kafka import TopicPartition

from tests.runtime.ingest.by_keys import CITY, NEW, OLD, A, B
from tests.runtime.ingest.in_memory import Cluster, Service, published, record
from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import StateError
from tidemark.plan.program import program_of, source_program
from tidemark.runtime.client.progress import SourceProgress, decode, encode

K = "p.by-k.log"


@pytest.fixture
def live(monkeypatch):
    """Return a cluster of two sources, read to their ends."""
    values = [record(50 * n, k="a", city="x", v=1) for n in range(4)]
    cluster = Cluster({A: values, B: values})
    cluster.patch(monkeypatch)
    monkeypatch.setattr("tidemark.runtime.ingest.troubles.offsets", cluster._offsets)
    Service(cluster, OLD, (A, B)).finish()
    return cluster


def made_anew(live, at, values):
    """Create a raw topic again, and commit what a reset of the source commits."""
    found = live.committed[at]
    past = decode(found.metadata, SourceProgress, str(at))
    begun = msgspec.structs.replace(past, watermark_ms=NEVER_MS, shift=past.next_offset)
    live.raw[at] = values
    live.committed[at] = TopicPartition(at.topic, at.number, 0, metadata=encode(begun))


def test_rows_of_a_topic_made_anew_count_and_no_clock_goes_back(live):
    made_anew(live, A, [record(at, k="a", city="x", v=1) for at in (160, 170, 500)])
    Service(live, OLD, (A, B)).finish()
    marks = [mark for s in live.log(K)[0] for mark in s.sources if mark.source == "raw/0"]
    assert [(m.first_offset, m.next_offset) for m in marks] == [(0, 4), (4, 7)]
    assert marks[-1].watermark_before_ms == NEVER_MS
    assert live.committed[A].offset == 3
    panes, late = published(live, OLD, K)
    assert panes["of-k", "a", 150] == (4, 4)
    assert not late


def test_the_watermark_without_flushes_outlives_the_process(live):
    found = live.committed[A]
    past = decode(found.metadata, SourceProgress, str(A))
    assert past.unflushed_ms is None
    flushed = msgspec.structs.replace(past, watermark_ms=9_000, unflushed_ms=past.watermark_ms)
    live.committed[A] = TopicPartition(*A, found.offset, metadata=encode(flushed))
    live.raw[A].append(record(300, k="a", city="x", v=1))
    Service(live, OLD, (A, B)).finish()
    after = decode(live.committed[A].metadata, SourceProgress, str(A))
    assert (after.watermark_ms, after.unflushed_ms) == (9_000, past.watermark_ms + 150)


def test_a_new_log_begins_after_the_records_of_the_old_topic(live):
    made_anew(live, A, [record(at, k="a", city="x", v=1) for at in (500, 510)])
    Service(live, NEW, (A, B)).finish()
    marks = [mark for s in live.log(CITY)[0] for mark in s.sources if mark.source == "raw/0"]
    assert (marks[0].first_offset, marks[-1].next_offset) == (4, 6)
    assert published(live, NEW, CITY)[0]["of-city", "x", 500] == (2, 2)


def test_a_source_in_trouble_is_paused_and_the_others_go_on(live, caplog):
    live.ids["raw"] = "another id"
    made_anew(live, B, [record(500, k="a", city="x", v=1)])
    text = live.committed[B].metadata
    fresh = msgspec.structs.replace(decode(text, SourceProgress, "raw/1"), topic_id="another id")
    live.committed[B] = TopicPartition("raw", 1, 0, metadata=encode(fresh))
    service = Service(live, OLD, (A, B))
    service.take(B, 5)
    service.tick()
    service.commit()
    (wait,) = service.task.waits()
    assert "raw/0: the topic was deleted and created again" in wait
    assert "'tidemark reset shop --source raw --bootstrap-server localhost:9092'" in wait
    assert "The other sources go on" in caplog.text
    assert service.paused == [A]
    assert live.committed[B].offset == 1


def test_a_process_of_which_no_source_can_be_read_ends(live):
    live.ids["raw"] = "another id"
    with pytest.raises(StateError, match="created again"):
        Service(live, OLD, (A, B))


def test_sources_without_a_recorded_program_are_warned_of_once(live, caplog):
    known = {topic: source_program(OLD.source_of(topic)) for topic in OLD.named_topics}
    Service(live, OLD, (A, B), known=known)
    assert "does not have its program" not in caplog.text
    Service(live, OLD, (A, B))
    (line,) = [line for line in caplog.text.splitlines() if "does not have its program" in line]
    assert "topic p.generations" in line
    assert "'tidemark reset shop --bootstrap-server localhost:9092' starts the pipeline" in line


def test_a_program_that_another_process_has_recorded_since_the_start_is_known(live, caplog):
    """A new pipeline: the process that comes second gets sources that the first one has read."""
    live.recorded = program_of(OLD)
    Service(live, OLD, (A, B))
    assert "does not have its program" not in caplog.text
