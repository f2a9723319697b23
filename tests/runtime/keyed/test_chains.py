"""What a stage writes in a commit, and what the owner of its progress topic makes of it."""

from dataclasses import dataclass, field
from time import sleep
from typing import Any, cast
from unittest.mock import patch

import polars as pl
import pytest

from tests.kafka.pipelines.chains import chained
from tidemark.core.time.announcer import TaskProgress
from tidemark.errors import ConfigurationError, StateError
from tidemark.ingest.segment_builder import EPOCH, SegmentBuilder
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, Start
from tidemark.runtime.client.progress import VERSION, MarkProgress, decode, encode
from tidemark.runtime.keyed import announcements as announcements_module
from tidemark.runtime.keyed.announcements import Announcements, topics_of
from tidemark.runtime.keyed.handing_on import HandingOn
from tidemark.runtime.keyed.reset_checks import require_no_readers
from tidemark.serde.operator_progress import decode_progress, encode_progress
from tidemark.serde.segments import decode_segment

PLAN = chained.build("p", partitions=2).plan()
STAGE = PLAN.derived[0]
OPERATORS = PLAN.of_service("windowing")
PROGRESS = Partition(f"p.{STAGE.operator}.progress", 0)
LOG = "p.by-player.log"


@dataclass
class Written:
    """An outbox that keeps what was written, in order."""

    records: list[tuple[str, int, bytes | None]] = field(default_factory=list)

    def write(self, topic: str, partition: int, keys: Any, values: Any) -> None:
        self.records += [(topic, partition, value) for value in values]

    def take(self) -> list[tuple[str, int, bytes | None]]:
        records, self.records = self.records, []
        return records


def written() -> Any:
    return Written()


@dataclass
class Message:
    at: int
    body: bytes

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return self.body


def handing_on(*, certain: bool = True, most_bytes: int = 10**9) -> HandingOn:
    return HandingOn(PLAN, OPERATORS, SegmentBuilder(EPOCH), most_bytes, certain=certain)


def results(*players: str) -> pl.DataFrame:
    rows = {"player": list(players), "start": 0, "end": 10_000, "n": 2, "s": 5}
    return pl.DataFrame(rows, schema={name: STAGE.port.columns[name] for name in rows})


def report(
    partition: int, watermark_ms: int, *, generation: int = 0, idle: bool = False
) -> TaskProgress:
    return TaskProgress(partition, generation, watermark_ms, idle)


def test_rows_come_before_reports_and_only_where_their_keys_belong():
    handing, outbox = handing_on(), written()
    after, dead = handing.take(STAGE.operator, results("a", "b", "c"), 1, 40, outbox)
    assert (after, *dead) == (43,)
    handing.write(outbox, [(STAGE.operator, report(1, 7))])
    *rows, (topic, partition, value) = outbox.take()
    assert {each[0] for each in rows} == {LOG}
    segments = [decode_segment(value or b"") for _, _, value in rows]
    assert all(each.height for each in segments)
    marks = {mark for each in segments for mark in each.sources}
    assert {(mark.source, mark.first_offset, mark.next_offset) for mark in marks} == {
        (f"op:{STAGE.operator}/1", 40, 43)
    }
    assert (topic, partition) == PROGRESS
    assert decode_progress(value or b"") == report(1, 7)
    handing.write(outbox, [])
    assert outbox.take() == []


def test_without_transactions_a_report_comes_with_the_next_commit():
    handing, outbox = handing_on(certain=False), written()
    handing.write(outbox, [(STAGE.operator, report(0, 7))])
    assert outbox.take() == []
    assert handing.holds_reports
    handing.write(outbox, [])
    assert [topic for topic, _, _ in outbox.take()] == [PROGRESS.topic]
    assert not handing.holds_reports


def test_many_rows_make_a_commit_due():
    handing, outbox = handing_on(most_bytes=10), written()
    assert not handing.is_full
    handing.take(STAGE.operator, results("a"), 0, 0, outbox)
    assert handing.is_full


def announcements(metadata: str | None = None, topic_id: str = "id") -> Announcements:
    found = Announcements(PLAN, OPERATORS)
    found.assigned([Start(PROGRESS, 0, metadata)], {PROGRESS.topic: topic_id}, {})
    return found


def read(found: Announcements, *reports: TaskProgress) -> dict[Partition, int]:
    """Let reports be read from offset 0 on; return the position after them."""
    messages: Any = [Message(at, encode_progress(each)[1]) for at, each in enumerate(reports)]
    found.read(PROGRESS, messages)
    return {PROGRESS: len(reports)}


def test_a_mark_goes_to_all_partitions_and_is_not_written_again_after_a_restart():
    reports = [report(0, 10), report(1, 30), report(0, 20)]
    found, outbox = announcements(), written()
    positions = read(found, *reports)
    (offset,) = found.write(outbox, positions, commits=False)
    records = outbox.take()
    assert [(topic, number) for topic, number, _ in records] == [(LOG, 0), (LOG, 1)]
    (mark,) = decode_segment(records[0][2] or b"").sources
    assert (mark.source, mark.watermark_ms, mark.next_offset) == (STAGE.source, 20, 3)
    assert found.write(outbox, positions, commits=False) == []

    later = announcements(offset.metadata)
    positions = read(later, *reports)
    assert later.write(outbox, positions, commits=False) == []
    positions = read(later, *reports, report(0, 30))
    (offset,) = later.write(outbox, positions, commits=False)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.watermark_before_ms, mark.watermark_ms) == (20, 30)

    with pytest.raises(StateError, match="deleted and created again"):
        announcements(offset.metadata, "other")


def test_reports_of_the_owners_process_are_heard_before_they_are_read():
    found, outbox = announcements(), written()
    stage, nothing_read = STAGE.operator, {PROGRESS: 0}
    found.hear([(stage, report(0, 10))])
    assert found.write(outbox, nothing_read, commits=True) == []
    found.hear([(stage, report(1, 30))])
    assert found.write(outbox, nothing_read, commits=True)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.watermark_ms, mark.next_offset) == (10, 1)

    found.hear([(stage, report(0, 20))])
    positions = read(found, report(0, 10), report(1, 30))  # late news
    sleep(0.01)
    found.write(outbox, positions, commits=True)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.watermark_ms, mark.next_offset) == (20, 2)

    drop(found, 3, Partition(LOG, 0))  # another process works on it now
    positions = read(found, report(0, 10), report(1, 30), report(0, 20), report(0, 40))
    sleep(0.01)
    assert found.write(outbox, positions, commits=True)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.watermark_ms, mark.next_offset) == (30, 4)


def test_old_reports_of_a_task_that_leaves_make_no_mark():
    """The task was idle and is awake: a mark that says idle would make its next rows late."""
    reports = [report(1, 10, idle=True), report(0, 10, idle=True), report(0, 20)]
    found, outbox = announcements(), written()
    for each in reports:
        found.hear([(STAGE.operator, each)])
    assert found.write(outbox, {PROGRESS: 0}, commits=True)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.watermark_ms, mark.idle) == (10, False)

    drop(found, 3, Partition(LOG, 0))
    sleep(0.01)
    found.write(outbox, read(found, *reports[:2]), commits=True)
    assert outbox.take() == []
    found.write(outbox, read(found, *reports, report(0, 20, idle=True)), commits=True)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.watermark_ms, mark.idle) == (10, True)


def test_a_task_that_was_not_heard_leaves_without_a_look_at_the_topic():
    found, outbox = announcements(), written()
    positions = read(found, report(0, 10), report(1, 10))
    with patch.object(announcements_module, "offsets", ends_at(900)):
        found.dropped(cast(Any, None), [Partition(LOG, 0), Partition("other", 1)])
    assert found.write(outbox, positions, commits=True)
    assert outbox.take()


def drop(found: Announcements, end: int, *partitions: Partition) -> None:
    """Let log partitions go to another process when the progress topic ends at ``end``."""
    with patch.object(announcements_module, "offsets", ends_at(end)):
        found.dropped(cast(Any, None), partitions)


def test_an_owner_announces_nothing_before_it_has_read_the_reports_that_were_there():
    past = encode(MarkProgress(VERSION, "id", 1, 10, False))
    found, outbox = Announcements(PLAN, OPERATORS), written()
    with patch.object(announcements_module, "offsets", ends_at(3)):
        starts = found.starting(cast(Any, None), [Start(PROGRESS, 3, past, 1)])
    assert starts == [Start(PROGRESS, 1, past, 1)]
    found.assigned(starts, {PROGRESS.topic: "id"}, {})
    reports = (report(0, 20), report(1, 20), report(1, 30))
    positions = read(found, *reports[:2])
    assert found.write(outbox, positions, commits=False) == []
    assert found.write(outbox, read(found, *reports), commits=False)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.watermark_before_ms, mark.watermark_ms, mark.next_offset) == (10, 20, 3)


def ends_at(end: int) -> Any:
    def offsets(_admin: Any, partitions: list[Partition], which: Any) -> dict[Partition, int]:
        assert which is LATEST
        return dict.fromkeys(partitions, end)

    return offsets


def test_only_spark_owns_a_progress_topic_that_is_marked_as_its_own():
    past = encode(MarkProgress(VERSION, "id", 2, 10, on_spark=True))
    with pytest.raises(StateError, match=r"\.progress/0: Spark works on it; end 'tidemark run"):
        announcements(past)
    found = Announcements(PLAN, OPERATORS)
    found.assigned([Start(PROGRESS, 0, past)], {PROGRESS.topic: "id"}, {}, by_spark=True)
    positions = read(found, report(0, 20), report(1, 20), report(1, 30))
    (offset,) = found.write(written(), positions, commits=False)
    assert decode(offset.metadata or "", MarkProgress, "") == MarkProgress(
        VERSION, "id", 3, 20, on_spark=True
    )


def test_an_owner_writes_the_last_mark_again_where_a_crash_may_have_lost_it():
    found = Announcements(PLAN, OPERATORS, may_lack_marks=True)
    past = encode(MarkProgress(VERSION, "id", 2, 10, False))
    found.assigned([Start(PROGRESS, 0, past)], {PROGRESS.topic: "id"}, {})
    outbox = written()
    found.write(outbox, read(found, report(0, 10), report(1, 10)), commits=False)
    (mark,) = decode_segment(outbox.take()[0][2] or b"").sources
    assert (mark.next_offset, mark.watermark_ms) == (2, 10)


def test_positions_are_committed_with_other_offsets_and_never_alone():
    found, outbox = announcements(), written()
    positions = read(found, report(0, 10))
    assert found.write(outbox, positions, commits=False) == []
    assert found.stepped(positions)
    (offset,) = found.write(outbox, positions, commits=True)
    assert (offset.topic, offset.offset) == (PROGRESS.topic, 1)
    assert found.write(outbox, positions, commits=True) == []
    assert outbox.take() == []


def test_a_service_reads_logs_and_the_progress_topics_of_its_stages():
    second, partials = (each.operator for each in PLAN.derived[1:])
    logs = ["p.by-all.log", "p.unkeyed.log", LOG]
    progress = [PROGRESS.topic, f"p.{partials}.progress"]
    assert topics_of(PLAN, "windowing") == sorted([*logs, *progress])
    assert topics_of(PLAN, "sessions") == sorted([LOG, f"p.{second}.progress"])


def test_a_stage_does_not_start_afresh_without_its_readers():
    with pytest.raises(ConfigurationError) as caught:
        require_no_readers(PLAN, OPERATORS)
    assert f"operator {STAGE.operator!r} feeds 'sums', 'runs'" in str(caught.value)
    assert "'tidemark reset PIPELINE --delete-results'" in str(caught.value)
    require_no_readers(PLAN, [each for each in OPERATORS if each.name in ("counts", "sums")])
