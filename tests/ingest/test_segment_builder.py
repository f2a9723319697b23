from dataclasses import replace
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.rows.keys import key_bytes, murmur2
from tidemark.core.time.segment import (
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
    Segment,
    SourceMark,
)
from tidemark.ingest.ingest import IngestOutput, Progress
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.physical import LogPlan, StreamPlan
from tidemark.serde.records import Counts

COLUMNS = {"key": pl.String(), "value": pl.Int64()}
STREAMS = (
    StreamPlan("moves", ("key",), COLUMNS, frozenset({"moves"})),
    StreamPlan("both", ("key",), COLUMNS, frozenset({"moves", "other"})),
)
LOG = LogPlan("game.by-key.log", 3, STREAMS)
PARTITIONS = {"moves": 2, "other": 1, "foreign": 1}


def taken(source: str, first: int, *keys: str, stream: str = "moves") -> IngestOutput:
    """One row a record, at event times like the offsets."""
    offsets = list(range(first, first + len(keys)))
    rows = pl.DataFrame(
        {
            OFFSET: offsets,
            SUB_ROW: pl.Series([0] * len(keys), dtype=pl.Int32),
            EVENT_TIME: offsets,
            WATERMARK: [offset - 1 for offset in offsets],
            "key": pl.Series(keys, dtype=pl.String),
            "value": pl.Series(offsets, dtype=pl.Int64),
        },
        schema_overrides={OFFSET: pl.Int64, EVENT_TIME: pl.Int64, WATERMARK: pl.Int64},
    )
    end = first + len(keys)
    mark = SourceMark(source, first, end, first - 1, end - 1)
    return IngestOutput({stream: rows}, (), Counts(), mark, Progress(end, end - 1))


def build(
    *batches: IngestOutput, marks: tuple[SourceMark, ...] = (), **options: int
) -> list[list[Segment]]:
    builder = SegmentBuilder(7, **options)
    for batch in batches:
        builder.add(batch)
    return builder.build(LOG, 99, PARTITIONS, marks)


def partition(key: str) -> int:
    return (murmur2(key.encode()) & 0x7FFFFFFF) % 128 % LOG.partitions


def rows(segment: Segment, stream: str = "moves") -> list[tuple[str, int, str]]:
    frame = segment.streams.get(stream, pl.DataFrame(schema={**ROW_COLUMNS, **COLUMNS}))
    return [
        (segment.sources[source].source, offset, key)
        for source, offset, key in frame.select(SOURCE, OFFSET, "key").iter_rows()
    ]


def test_each_partition_has_the_rows_of_its_keys_and_all_marks():
    built = build(taken("moves/1", 5, "a", "b"), taken("moves/0", 0, "b", "c", "a"))

    for number, (segment,) in enumerate(built):
        expected = [("moves/0", 0, "b"), ("moves/0", 1, "c"), ("moves/0", 2, "a")]
        expected += [("moves/1", 5, "a"), ("moves/1", 6, "b")]
        assert rows(segment) == [row for row in expected if partition(row[2]) == number]
        assert [mark.source for mark in segment.sources] == ["moves/0", "moves/1"]
        assert segment.partitions == {"moves": 2, "other": 1}
        assert (segment.epoch, segment.part, segment.ingested_at_ms) == (7, 0, 99)


def test_frames_have_the_columns_of_a_segment():
    (segment,) = (s for parts in build(taken("moves/0", 0, "a")) for s in parts if s.height)

    assert segment.streams["moves"].schema == {**ROW_COLUMNS, **COLUMNS}


def test_batches_of_a_source_become_one_mark():
    builder = SegmentBuilder(0)
    builder.add(taken("moves/0", 3, "a", "b"))
    builder.add(taken("moves/0", 5, "c"))
    ((segment, *_), *_) = builder.build(LOG, 0, PARTITIONS)

    assert segment.sources == (SourceMark("moves/0", 3, 6, 2, 5),)


def test_idleness_joins_what_the_source_gave():
    idle = SourceMark("moves/0", 4, 4, 3, 3, idle=True, silence_ms=50)
    other = SourceMark("other/0", 0, 0, NEVER_MS, NEVER_MS, idle=True, silence_ms=70)
    ((segment, *_), *_) = build(taken("moves/0", 3, "a"), marks=(idle, other))

    assert segment.sources == (SourceMark("moves/0", 3, 4, 2, 3, idle=True, silence_ms=50), other)


def test_sources_of_other_logs_are_not_told():
    assert build(taken("foreign/0", 0, "a", stream="foreign")) == [[], [], []]
    assert build() == [[], [], []]


def test_sources_are_ordered_by_number():
    marks = tuple(SourceMark(f"moves/{number}", 0, 0, 0, 0) for number in (10, 9, 1))
    ((segment, *_), *_) = build(marks=marks)

    assert [mark.source for mark in segment.sources] == ["moves/1", "moves/9", "moves/10"]


def test_batch_that_leaves_a_gap_breaks_an_invariant():
    with pytest.raises(AssertionError, match="moves/0"):
        build(taken("moves/0", 0, "a"), taken("moves/0", 2, "b"))


def test_nothing_is_left_after_the_commit():
    builder = SegmentBuilder(0)
    builder.add(taken("moves/0", 0, "a"))
    builder.clear()

    assert builder.is_empty
    assert builder.build(LOG, 0, PARTITIONS) == [[], [], []]


@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30),
    st.lists(st.sampled_from("abcdef"), max_size=10),
    st.sampled_from([1, 100, 300, 10**6]),
)
def test_parts_of_a_large_segment_are_all_of_it(keys: list[str], more: list[str], limit: int):
    batches = (taken("moves/0", 0, *keys), taken("other/0", 0, *more, stream="both"))
    whole, cut = build(*batches), build(*batches, max_bytes=limit)

    for (segment,), parts in zip(whole, cut, strict=True):
        assert [part.part for part in parts] == list(range(len(parts)))
        for stream in ("moves", "both"):
            assert [row for part in parts for row in rows(part, stream)] == rows(segment, stream)
        for mark in segment.sources:
            _require_tiles(mark, parts)
        if limit == 1:
            assert all(part.height <= 1 for part in parts)


def _require_tiles(mark: SourceMark, parts: list[Segment]) -> None:
    marks = [m for part in parts for m in part.sources if m.source == mark.source]
    assert (
        replace(
            marks[-1],
            first_offset=marks[0].first_offset,
            watermark_before_ms=marks[0].watermark_before_ms,
        )
        == mark
    )
    for earlier, later in pairwise(marks):
        assert later.first_offset == earlier.next_offset
        assert later.watermark_before_ms == earlier.watermark_ms


def test_rows_of_one_record_stay_together():
    batch = taken("moves/0", 0, "a")
    exploded = batch.streams["moves"].select(pl.all().repeat_by(5).explode())
    batch = replace(
        batch,
        streams={"moves": exploded.with_columns(pl.int_range(5, dtype=pl.Int32).alias(SUB_ROW))},
    )
    heights = [[part.height for part in parts] for parts in build(batch, max_bytes=1)]

    assert sorted(heights) == [[0], [0], [5]]


def test_partition_is_that_of_the_key_bytes():
    keys = [f"user-{number}" for number in range(50)]
    built = build(taken("moves/0", 0, *keys))

    for number, (segment,) in enumerate(built):
        for key in key_bytes(segment.streams["moves"], ["key"]):
            assert partition(key.decode()) == number


def test_rows_without_a_key_go_to_the_partition_of_their_raw_partition_in_order():
    unkeyed = LogPlan("game.unkeyed.log", 3, (replace(STREAMS[0], key=()),))
    builder = SegmentBuilder(7)
    for batch in (
        taken("moves/4", 0, "a", "b"),
        taken("moves/0", 5, "a"),
        taken("moves/4", 2, "c"),
    ):
        builder.add(batch)
    rows = [
        [row for segment in segments for row in segment.streams["moves"]["value"]]
        if segments[0].streams
        else []
        for segments in builder.build(unkeyed, 99, {"moves": 5})
    ]
    assert rows == [[5], [0, 1, 2], []]
