"""Cutting segments: docs/semantics.md, "Parts"."""

import itertools

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.oracles.clock import Table, judged
from tests.support.logs import Commit, Raw, Read, Record, event_logs, record
from tidemark.core.time.segment import NEVER_MS, SOURCE, Segment, SourceMark


def one_segment():
    #  t/0   0: 3   1: dead   2: 8, two rows
    #  u/0   0: 5
    raw = Raw(
        {
            "t/0": (
                Record(3, (("a", 1),)),
                Record(None, ()),
                Record(8, (("a", 2), ("b", 3))),
            ),
            "u/0": (Record(5, (("c", 4),)),),
        },
        bound_ms=1,
    )
    reads = (Read("t/0", 3, idle=True, silence_ms=9), Read("u/0", 1))
    return record(raw, [Commit(reads)])[0]


def test_a_cut_falls_before_a_record_and_carries_the_watermark_there():
    head, tail = one_segment().split(1)
    assert head.sources == (
        SourceMark("t/0", 0, 2, NEVER_MS, 2),
        SourceMark("u/0", 0, 0, NEVER_MS, NEVER_MS),
    )
    assert tail.sources == (
        SourceMark("t/0", 2, 3, 2, 7, idle=True, silence_ms=9),
        SourceMark("u/0", 0, 1, NEVER_MS, 4),
    )
    assert (head.part, tail.part) == (0, 1)
    assert (head.height, tail.height) == (1, 3)


def test_a_cut_never_falls_inside_a_record():
    head, tail = one_segment().split(2)
    assert (head.height, tail.height) == (3, 1)


def test_a_part_knows_only_the_sources_it_still_reads():
    head, tail = one_segment().split(3)
    assert [mark.source for mark in head.sources] == ["t/0", "u/0"]
    assert [mark.source for mark in tail.sources] == ["u/0"]
    assert tail.streams["u"][SOURCE].to_list() == [0]


def test_a_source_that_takes_no_part_does_not_wake_in_a_part():
    silent = SourceMark("v/0", 4, 4, 50, 50, idle=True, silence_ms=3)
    whole = one_segment()
    both = Segment(0, 0, (*whole.sources, silent), {"v": 1}, 0, whole.streams)
    assert all(part.sources[-1] == silent for part in both.split(1))


def test_no_cut_is_made_where_no_record_starts():
    whole = one_segment()
    assert whole.split(4) == (whole,)
    empty = Segment(0, 0, whole.sources, {}, 0, {})
    assert empty.split(1) == (empty,)
    assert empty.height == 0


@given(event_logs(), st.integers(0, 10))
def test_parts_hold_the_rows_and_judge_them_as_the_whole_does(log, row):
    whole, parted = Table(log.topics), Table(log.topics)
    for segment in log.segments:
        whole.begin(segment)
        expected = judged(segment, whole)
        whole.end(segment)
        found = []
        for part in segment.split(row):
            parted.begin(part)
            found += judged(part, parted)
            parted.end(part)
        assert found == expected
        assert parted.clock == whole.clock


@given(event_logs(), st.integers(0, 10))
def test_parts_lose_no_row_and_tile_the_ranges(log, row):
    for segment in log.segments:
        parts = segment.split(row)
        for name, frame in segment.streams.items():
            columns = pl.exclude(SOURCE)
            rows = pl.concat([part.streams[name].select(columns) for part in parts])
            assert_frame_equal(rows, frame.select(columns))
        for mark in segment.sources:
            pieces = [m for part in parts for m in part.sources if m.source == mark.source]
            assert pieces[0].first_offset == mark.first_offset
            assert pieces[-1].next_offset == mark.next_offset
            assert all(
                a.next_offset == b.first_offset and a.watermark_ms == b.watermark_before_ms
                for a, b in itertools.pairwise(pieces)
            )
