"""Key-group slices of a log partition: together they have the results of the whole."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.kafka.pipelines.kinds import build
from tests.kafka.support.visits import visits
from tidemark.core.rows.copies import COPY
from tidemark.core.time.segment import ROW_COLUMNS, Segment, SourceMark
from tidemark.errors import StateError
from tidemark.local.run import Cuts, LocalRun
from tidemark.partition import Partition
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.runtime.keyed.restore import _joined as joined_pieces
from tidemark.serde.segments import encode_segment
from tidemark.spark import work
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.read.segment_rows import SegmentRow
from tidemark.spark.read.slices import most_slices, slice_segment, slices_of

LOG = "kinds.by-who.log"


class Recorder(LocalRun):
    """Keeps the segments of partition 0 of a log."""

    def __init__(self, plan) -> None:
        super().__init__(plan, Cuts(seed=3))
        self.segments: list[Segment] = []

    def _process(self) -> None:
        for _, partition, segment in self._written:
            if partition == 0:
                self.segments.append(replace(segment, ingested_at_ms=len(self.segments)))
        self._written.clear()


@pytest.fixture(scope="module")
def plan():
    return build("kinds").plan()


@pytest.fixture(scope="module")
def segments(plan) -> list[Segment]:
    recorder = Recorder(plan)
    list(recorder.run({"kinds-moves": visits()}))
    assert len(recorder.segments) > 3
    return recorder.segments


def valued(segments: list[Segment], first: int = 0) -> list[tuple[int, bytes]]:
    return [(offset, encode_segment(each)) for offset, each in enumerate(segments, first)]


def messages(plan, segments: list[Segment], at_once: int = 1) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield topic, key and value of all results; a batch has ``at_once`` segments."""
    replay = LogReplay(plan, Partition(LOG, 0))
    log = valued(segments)
    for first in range(0, len(log), at_once):
        for output in replay.take(log[first : first + at_once]):
            for each in output.plan.published:
                rows = output.frames.get(each.port.name)
                if rows is None:  # a portion of a segment may be of other ports
                    continue
                encoder: Any = encoder_of(each)
                keys, values = encoder.encode(rows)
                yield from ((each.topic, *pair) for pair in zip(keys, values, strict=True))


def by_key(found: Iterator[tuple[str, bytes, bytes]]) -> dict[tuple[str, bytes], list[bytes]]:
    """Gather values by topic and message key, in order.

    The order between windows is that of portions of a segment, and they differ.
    """
    keyed: dict[tuple[str, bytes], list[bytes]] = {}
    for topic, key, value in found:
        keyed.setdefault((topic, key), []).append(value)
    return keyed


def test_every_operator_publishes_for_slices_what_it_publishes_for_the_whole(plan, segments):
    whole = by_key(messages(plan, segments))
    cut = [slice_segment(segment, ["who"], 2, 5) for segment in segments]
    of_slices = [by_key(messages(plan, [parts[s] for parts in cut])) for s in range(5)]

    assert sum(map(len, of_slices)) == len(whole) > 100
    assert {key: values for found in of_slices for key, values in found.items()} == whole


@pytest.mark.parametrize("at_once", [3, 1_000])
def test_every_operator_publishes_for_a_batch_what_it_publishes_for_each_segment(
    plan, segments, at_once
):
    alone = by_key(messages(plan, segments))
    together = by_key(messages(plan, segments, at_once))
    assert len(together) == len(alone) > 100
    assert together == alone


@pytest.mark.parametrize(("each_s", "most"), [(0.0, 1024), (0.125, 24), (40.0, 1)])
def test_the_work_on_a_batch_takes_a_small_part_of_the_timeout(monkeypatch, each_s, most):
    now_s = 0.0
    monkeypatch.setattr(work, "monotonic", lambda: now_s)
    rows = (SegmentRow(Partition(LOG, 0), 0, offset, b"value") for offset in range(5_000))
    sizes, offsets = [], []
    for values in work.in_short_batches(rows, 30_000):
        now_s += each_s * len(values)
        sizes.append(len(values))
        offsets += [offset for offset, _ in values]
    assert offsets == list(range(5_000))
    # The first batches are small; until their duration is known, each is at most twice the last.
    assert sizes[0] == 16
    assert all(later <= 2 * size for size, later in pairwise(sizes))
    assert most <= max(sizes[2:]) <= 2 * most


def test_output_names_the_segment_that_published_it(plan, segments):
    alone, together = LogReplay(plan, Partition(LOG, 0)), LogReplay(plan, Partition(LOG, 0))
    values = valued(segments)
    wanted = offsets_of(output for value in values for output in alone.take([value]))
    assert offsets_of(together.take(values)) == wanted
    assert together.counts() == alone.counts()


def offsets_of(outputs: Iterable[SegmentOutput]) -> dict[str, tuple[list[int], list[int]]]:
    """Gather the offsets of panes and of late rows by operator."""
    found: dict[str, tuple[list[int], list[int]]] = {}
    for each in outputs:
        panes, late = found.setdefault(each.plan.operator.name, ([], []))
        panes += each.offsets["panes"].tolist()
        late += each.offsets["late"].tolist()
    return found


def test_a_slice_has_all_marks_and_its_rows_in_order(segments):
    for segment in segments:
        parts = slice_segment(segment, ["who"], 2, 3)

        assert all(part.sources == segment.sources for part in parts)
        assert sum(part.height for part in parts) == segment.height
        for part in parts:
            for rows in part.streams.values():
                place = rows.select(pl.struct("@source", "@offset", "@sub_row")).to_series()
                assert place.is_sorted()


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 128, 200])
def test_slices_are_ranges_of_a_partitions_key_groups(partitions):
    most = most_slices(partitions)
    for slices in (1, min(2, most), most):
        for partition in range(min(partitions, 128)):
            groups = np.arange(partition, 128, partitions).astype(np.uint8)
            found = slices_of(groups, partitions, slices).tolist()

            assert found == sorted(found)
            assert max(found) < slices
        assert set(slices_of(np.arange(128, dtype=np.uint8), partitions, slices)) == {
            *range(slices)
        }


def test_a_missing_segment_stops_a_replay(plan, segments):
    with pytest.raises(StateError, match=rf"^{LOG}/0, offset 1: .* a segment before it is missing"):
        list(messages(plan, [segments[0], segments[2]]))


def test_a_damaged_segment_is_named_by_its_offset(plan):
    with pytest.raises(StateError, match=rf"^{LOG}/0, offset 7: Segment: 4 bytes"):
        list(LogReplay(plan, Partition(LOG, 0)).take([(7, b"junk")]))


@pytest.mark.parametrize("together", [False, True])
def test_snapshots_of_slices_restore_the_state_of_the_whole(plan, segments, together):
    half, slices = len(segments) // 2, 3
    cut = [slice_segment(segment, ["who"], 2, slices) for segment in segments[:half]]
    replays = [LogReplay(plan, Partition(LOG, 0), index) for index in range(slices)]
    whole, joined = LogReplay(plan, Partition(LOG, 0)), LogReplay(plan, Partition(LOG, 0))
    list(whole.take(valued(segments[:half])))
    for replay in replays:
        list(replay.take(valued([parts[replay.slice] for parts in cut])))

    for index, task in enumerate(joined._task.tasks):
        parts = [replay._task.tasks[index] for replay in replays]
        pieces = [piece for part in parts for piece in part.snapshot()]
        merged = [joined_pieces(pieces)] if together else pieces
        task.restore(merged, parts[0].clocks.state(), 0)
        task.state.validate()

    for value in valued(segments[half:], half):
        assert results(joined.take([value])) == results(whole.take([value]))


def results(outputs: Iterable[SegmentOutput]) -> dict[tuple[str, str], list[Any]]:
    """Gather rows by operator and port, those of one key and window in order."""
    found: dict[tuple[str, str], list[Any]] = {}
    for output in outputs:
        for port, frame in output.frames.items():
            names = [name for name in ("who", "start", "window") if name in frame.columns]
            rows = zip(frame.select(names).rows(), frame.rows(), strict=True)
            found.setdefault((output.plan.operator.name, port), []).extend(rows)
    ordered = {at: sorted(rows, key=lambda row: repr(row[0])) for at, rows in found.items()}
    return {at: rows for at, rows in ordered.items() if rows}


def test_each_slice_has_the_rows_of_a_broadcast_stream_and_the_first_one_itself():
    lead = {name: [0, 0] for name in ROW_COLUMNS}
    rows = pl.DataFrame({**lead, "rule": ["a", "b"], COPY: [False, False]})
    mark = SourceMark("rules/0", 0, 2, 0, 0)
    segment = Segment(0, 0, (mark,), {"rules": 1}, 0, {"rules": rows})
    slices = [each.streams["rules"] for each in slice_segment(segment, ["machine"], 4, 3)]
    assert [each["rule"].to_list() for each in slices] == [["a", "b"]] * 3
    assert [each[COPY].to_list() for each in slices] == [[False] * 2, [True] * 2, [True] * 2]
