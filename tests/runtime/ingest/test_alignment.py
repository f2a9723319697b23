"""Alignment of sources: docs/semantics.md, "Alignment".  A record here is its event time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.segment import NEVER_MS
from tidemark.partition import Partition
from tidemark.runtime.ingest import alignment
from tidemark.runtime.ingest.alignment import Alignment, Toggle

A, B, C = (Partition("t", number) for number in range(3))


class Record(int):
    """Stands for a message: its event time, and a size."""

    def __len__(self) -> int:
        return 100


def message(at_ms: int) -> Any:
    """Return what stands for a message of this event time."""
    return Record(at_ms)


class Reader:
    """Takes what alignment lets through."""

    def __init__(self, max_drift_ms: int = 100, partitions=(A, B)) -> None:
        self.alignment = Alignment({"t": max_drift_ms})
        self.watermarks = dict.fromkeys(partitions, NEVER_MS)
        self.taken: dict[Partition, list[int]] = {partition: [] for partition in partitions}
        self.furthest_ms = 0

    def read(self, partition, *times):
        self.alignment.hold(partition, [message(time) for time in times])
        self.release()

    def release(self):
        while (chunk := self.alignment.next(self.watermarks)) is not None:
            partition, messages = chunk
            records: list[Any] = list(messages)
            self.taken[partition] += map(int, records)
            self.watermarks[partition] = max(self.watermarks[partition], *records)
            slowest = min(self.watermarks.values())
            if slowest != NEVER_MS:
                self.furthest_ms = max(self.furthest_ms, self.watermarks[partition] - slowest)

    def first(self, partition) -> Any:
        return self.alignment.first(partition)

    def toggle(self, now_ms):
        return self.alignment.toggle(self.watermarks, now_ms)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(alignment, "CHUNK", 2)
    monkeypatch.setattr(alignment, "FULL_RECORDS", 4)


def test_a_source_waits_while_it_is_too_far_ahead():
    #  a  0 10 | 150 160 | 200 ...       drift 100
    #  b  0 1      60
    reader = Reader()
    reader.read(A, 0, 10)
    reader.read(B, 0, 1)
    reader.read(A, 150, 160, 200)
    assert reader.taken[A] == [0, 10, 150, 160]
    assert reader.first(A) == 200
    reader.read(B, 59)
    assert reader.taken[A] == [0, 10, 150, 160]
    reader.read(B, 60)
    assert reader.taken[A] == [0, 10, 150, 160, 200]
    assert reader.first(A) is None


def test_all_wait_for_a_source_that_has_seen_no_time():
    reader = Reader()
    reader.read(A, 0, 10)
    reader.read(A, 20)
    assert reader.taken[A] == [0, 10]
    reader.read(B, 0)
    assert reader.taken[A] == [0, 10, 20]


def test_nobody_waits_for_a_source_that_is_idle():
    reader = Reader()
    reader.read(A, 0, 10, 500, 510, 900)
    assert reader.taken[A] == [0, 10]
    del reader.watermarks[B]
    reader.release()
    assert reader.taken[A] == [0, 10, 500, 510, 900]


def test_a_short_excess_is_held_and_a_long_one_pauses_the_partition():
    reader = Reader()
    reader.read(A, 0, 0)
    reader.read(A, 500, 500, 500)
    assert reader.toggle(5_000) == Toggle()
    reader.read(A, 500)
    assert reader.toggle(5_000) == Toggle(pause=frozenset({A}))
    assert reader.toggle(6_000) == Toggle()
    assert reader.alignment.withholds(A)


def test_a_paused_partition_flows_again_at_half_the_drift():
    reader = Reader()
    reader.read(A, 0, 0, 500, 500, 500, 500)
    reader.toggle(5_000)
    reader.read(B, 400)
    assert reader.alignment.records == 0
    assert reader.toggle(7_000) == Toggle()  # 100 ahead
    reader.read(B, 450)
    assert reader.toggle(7_000) == Toggle(resume=frozenset({A}))
    assert not reader.alignment.withholds(A)


def test_partitions_are_toggled_once_a_second_at_most():
    reader = Reader()
    reader.read(A, 0, 0, 500, 500, 500, 500)
    assert reader.toggle(5_000).pause
    reader.read(B, 500)
    assert reader.toggle(5_999) == Toggle()
    assert reader.toggle(6_000).resume
    reader.read(A, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000)
    assert reader.toggle(6_999) == Toggle()
    assert reader.toggle(7_000).pause


def test_memory_counts_more_than_the_pace_of_toggles(monkeypatch):
    monkeypatch.setattr(alignment, "_MOST_BYTES", 600)
    reader = Reader()
    reader.read(A, 0, 0, 500, 500, 500, 500)
    reader.toggle(5_000)
    reader.read(B, 500)
    reader.toggle(6_000)
    reader.read(A, *[1_000] * 7)
    assert reader.alignment.records == 5
    assert reader.toggle(6_001) == Toggle()
    reader.read(A, 1_000)
    assert reader.toggle(6_001) == Toggle(pause=frozenset({A}))


def test_all_sources_with_held_records_pause_when_their_sum_is_too_large():
    reader = Reader(partitions=(A, B, C))
    reader.alignment = Alignment({"t": 100}, most_bytes=500)
    for partition in (A, B, C):
        reader.read(partition, 0)
    reader.read(A, 500, 500, 500, 500)
    reader.read(B, 500, 500, 500, 500)
    assert reader.toggle(5_000) == Toggle()
    reader.read(B, 500)
    assert reader.toggle(5_000) == Toggle(pause=frozenset({A, B}))


def test_a_source_that_others_own_now_is_forgotten():
    reader = Reader()
    reader.read(A, 0, 0, 500, 500, 500, 500)
    reader.toggle(5_000)
    reader.alignment.drop(A)
    assert not reader.alignment.withholds(A)
    assert reader.alignment.paused == frozenset()
    assert reader.alignment.records == 0


def test_sources_of_other_topics_take_no_part():
    other = Partition("other", 0)
    aligned = Alignment({"t": 100})
    assert not aligned.covers(other.topic)
    aligned.hold(A, [message(500)])
    taken: Any = aligned.next({A: 500, other: 0})
    assert taken == (A, [500])
    assert not Alignment({}).is_active


STEPS = st.lists(
    st.tuples(st.sampled_from([A, B, C]), st.lists(st.integers(0, 50), max_size=5)), max_size=30
)


@given(STEPS)
def test_every_record_is_taken_once_in_order_and_never_far_ahead(steps):
    reader = Reader(partitions=(A, B, C))
    written: dict[Partition, list[int]] = {A: [], B: [], C: []}
    for partition, gaps in steps:
        for gap in gaps:
            written[partition].append((written[partition] or [0])[-1] + gap)
        if gaps:
            reader.read(partition, *written[partition][-len(gaps) :])
    # One more than the drift: a chunk of two records, each at most 50 ms later.
    assert reader.furthest_ms <= 100 + 2 * 50
    while reader.alignment.records:  # those with nothing to read fall idle
        held = [at for at in reader.watermarks if reader.alignment.withholds(at)]
        reader.watermarks = {at: reader.watermarks[at] for at in held}
        reader.release()
    assert reader.taken == written
