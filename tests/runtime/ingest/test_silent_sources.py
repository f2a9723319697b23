"""Which raw partitions count as silent, and when the next segment has their marks."""

from tidemark import Pipeline, bounded, count, tumbling
from tidemark.ingest.ingest import Progress
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.ingest.raw_sources import OwnedSource
from tidemark.runtime.ingest.silent_sources import SilentSources

READ, UNREAD, ENDED = (Partition("moves", n) for n in range(3))


def build() -> Plan:
    pipeline = Pipeline("game")
    schema = {"k": str, "at": int}
    moves = pipeline.source(
        "moves", schema=schema, event_time="at", watermark=bounded("2s"), idle_after="1s"
    )
    moves.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    return pipeline.plan()


def test_a_source_is_silent_when_all_is_read_and_marked_when_it_is_due():
    sources = {at: OwnedSource("id", Progress(7), 7, 0) for at in (READ, UNREAD, ENDED)}
    silent = SilentSources(build())
    # Behind the records of ENDED is one that only the broker sees, such as the end of a commit.
    positions, ends = {READ: 7, UNREAD: 7, ENDED: 8}, {READ: 7, UNREAD: 9, ENDED: 8}
    assert silent.find(sources, positions, ends, 100) == {ENDED}
    assert silent.mark(sources, is_written=False) == set()
    silent.find(sources, positions, ends, 1_000)
    assert silent.mark(sources, is_written=False) == {READ, ENDED}
    assert {at: each.silence_ms for at, each in sources.items()} == {
        READ: 1_000,
        UNREAD: 0,
        ENDED: 1_000,
    }


def test_a_source_that_is_dropped_or_has_more_to_read_is_not_marked():
    sources = {at: OwnedSource("id", Progress(7), 7, 0) for at in (READ, UNREAD)}
    silent = SilentSources(build())
    silent.find(sources, dict.fromkeys(sources, 7), dict.fromkeys(sources, 7), 1_000)
    silent.drop(READ)
    assert silent.mark(sources, is_written=True) == {UNREAD}
    silent.find(sources, dict.fromkeys(sources, 7), dict.fromkeys(sources, 9), 2_000)
    assert silent.mark(sources, is_written=True) == set()
