"""Ingest run again over raw topics loads the records of a table that were loaded; without Spark."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.runtime.ingest import site
from tests.runtime.ingest.in_memory import Cluster, Service, keyed, record
from tests.runtime.ingest.market import LOG, OTHER, PLAN, QUOTED, QUOTES, TRADED, TRADES, built
from tidemark.core.rows.tombstones import TOMBSTONE
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK, Segment
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.config import Config
from tidemark.serde.segments import decode_segment
from tidemark.spark.read.envelopes import EnvelopeExtractor, MarkExtractor, SegmentAssembler
from tidemark.spark.read.reingest import IngestReplayer, RecordPacker
from tidemark.spark.read.segment_rows import segment_batch

SOURCES = [QUOTES, TRADES]


@pytest.fixture
def live(monkeypatch):
    """Return a cluster whose quotes were loaded in two commits, and a new log that was built."""
    cluster = Cluster({TRADES: list(TRADED), QUOTES: QUOTED[:4]})
    cluster.patch(monkeypatch)
    service = Service(cluster, PLAN, (TRADES, QUOTES))
    service.commit()
    deleted = (b"a", None)
    cluster.raw[QUOTES] = [*QUOTED, deleted, record(9_900, symbol="a", venue="y", price=1), *QUOTED]
    for count in (3, 2, 4):
        service.take(QUOTES, count)
        service.commit()
    Service(cluster, built(other=True), (TRADES, QUOTES)).finish()
    return cluster


def gathered(batches, by=3):
    """Return the rows that Spark brings to each task, in their order."""
    rows = pa.Table.from_batches(batches)
    order = [(rows.schema.names[n], "ascending") for n in range(by)]
    return rows.sort_by(order).to_batches()


def made_again(
    cluster: Cluster, plan: Plan, sources: Sequence[Partition] = SOURCES
) -> dict[tuple[Partition, int], Segment]:
    """Return the segments that ingest makes of the raw topics, by the marks of the logs."""
    logs = [Partition(log.topic, n) for log in plan.logs for n in range(log.partitions)]
    segments = [
        segment_batch(log, offset, value)
        for log in logs
        for offset, (_, value) in enumerate(cluster.written[log])
    ]
    raw = [_raw(at, cluster.raw[at]) for at in sources]
    marks = [*MarkExtractor(sources, logs)(iter(segments))]
    blocks = [*RecordPacker(sources)(iter(raw))]
    ends = [len(cluster.raw[at]) for at in sources]
    replayer = IngestReplayer(plan, Config(), sources, logs, [0, 0], ends)
    ranges = [*replayer(iter(gathered([*marks, *blocks])))]
    envelopes = [*EnvelopeExtractor(logs)(iter(segments))]
    found = {}
    for batch in SegmentAssembler(plan, logs)(iter(gathered([*envelopes, *ranges]))):
        for row in batch.to_pylist():
            at = Partition(row["topic"], row["partition"])
            found[at, row["offset"]] = decode_segment(row["value"])
    return found


def _raw(at: Partition, records: list[Any]) -> pa.RecordBatch:
    count = len(records)
    keys, values = zip(*map(keyed, records), strict=True)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "topic": pa.array([at.topic] * count),
        "partition": pa.array([at.number] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp_ms": pa.array([-1] * count, pa.int64()),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array([None] * count, headers),
    }
    return pa.RecordBatch.from_pydict(columns)


def recorded(cluster: Cluster, plan: Plan) -> dict[tuple[Partition, int], Segment]:
    return {
        (at, offset): decode_segment(value)
        for at, values in cluster.written.items()
        if at.topic in {log.topic for log in plan.logs}
        for offset, (_, value) in enumerate(values)
    }


def test_the_log_is_the_same_in_all_rows_and_watermarks(live):
    plan = built(other=True)
    before, after = recorded(live, plan), made_again(live, plan)
    assert before.keys() == after.keys()
    watermarks: defaultdict[str, set[int]] = defaultdict(set)
    for place, segment in before.items():
        again = after[place]
        assert replace(again, streams={}) == replace(segment, streams={}), place
        assert again.streams.keys() == segment.streams.keys(), place
        for name, rows in segment.streams.items():
            assert again.streams[name].equals(rows), place
            if name.startswith("quotes"):
                watermarks[place[0].topic] |= set(rows[WATERMARK])
    deleted = [
        row
        for (at, _), segment in after.items()
        for rows in segment.streams.values()
        if at.topic == LOG and TOMBSTONE in rows.columns
        for row in rows.filter(TOMBSTONE).select("symbol", OFFSET, EVENT_TIME).rows()
    ]
    assert deleted == [("a", 6, 9_000)]
    assert watermarks == {LOG: {NEVER_MS, 8_990, 9_890}, OTHER: {NEVER_MS, 8_990, 9_890}}


def test_a_program_without_tables_gets_the_watermarks_of_the_records(live):
    plan = built(other=True, table=False)
    found = {
        watermark
        for segment in made_again(live, plan).values()
        for name, rows in segment.streams.items()
        if name.startswith("quotes")
        for watermark in rows[WATERMARK]
    }
    assert found == {NEVER_MS, 990, 4_990, 8_990, 9_890}


def test_the_versions_of_a_static_table_are_those_that_were_recorded(monkeypatch):
    cluster = site.cluster_of(monkeypatch)
    site.loaded_while_it_runs(cluster)
    before = recorded(cluster, site.PLAN)
    after = made_again(cluster, site.PLAN, [site.CLICKS, site.USERS])
    assert before.keys() == after.keys()
    for place, segment in before.items():
        assert replace(after[place], streams={}) == replace(segment, streams={}), place
        for name, rows in segment.streams.items():
            assert after[place].streams[name].equals(rows), place
